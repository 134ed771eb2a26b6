from __future__ import annotations

import os
import sys
from typing import Any

import click

from console import paths
from console.engine_options import engine_options


@click.command()
@engine_options
def serve(**engine: Any) -> None:
    """Run an engine without a screen, in the foreground. Stop it with Ctrl-C."""
    import msgspec

    from console.engine_start import engine_config

    config = engine_config(**engine)
    folder = paths.state_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"serve-{config.port}.json"
    # The file may hold the API key.
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(msgspec.json.encode(config))
    # This process becomes the engine's server: signals, exit status and output need no middleman.
    os.execv(sys.executable, [sys.executable, "-m", "engine", "--config", str(file)])
