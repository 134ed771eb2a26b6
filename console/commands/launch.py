from __future__ import annotations

import os
import sys
from typing import Any

import click

from console import paths
from console.engine_options import engine_options
from console.output import Exit, fail
from console.screen_options import console_options, screen_options


@click.command()
@engine_options
@screen_options
def launch(ascii_only: bool, frame_rate: int, **engine: Any) -> int:
    """Start an engine and open the console over it.

    The engine is a child of the console: it ends when the console ends, by whatever means, unless you detach it.
    """
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        fail("launch needs a terminal; `loraconsole serve` runs an engine without one", Exit.USAGE)
    if os.environ.get("TERM", "dumb") == "dumb":
        fail("launch needs a terminal that can move its cursor (TERM is dumb or not set)", Exit.USAGE)
    from console.engine_start import engine_config

    config = engine_config(**engine)
    from console.launcher import launch_console

    return launch_console(config, paths.database_path(), paths.state_dir(), console_options(ascii_only, frame_rate))
