from __future__ import annotations

from typing import Any

import click

from console import paths
from console.engine_options import engine_options
from console.screen_options import console_options, need_terminal, screen_options


@click.command()
@engine_options
@screen_options
def launch(ascii_only: bool, frame_rate: int, **engine: Any) -> int:
    """Start an engine and open the console over it.

    The engine is a child of the console: it ends when the console ends, by whatever means, unless you detach it.
    """
    need_terminal("launch", "`loraconsole serve` runs an engine without one")
    from console.engine_start import engine_config

    config = engine_config(**engine)
    from console.launcher import launch_console

    return launch_console(config, paths.database_path(), paths.state_dir(), console_options(ascii_only, frame_rate))
