from __future__ import annotations

import click

from console import paths
from console.engine_options import api_key
from console.screen_options import console_options, need_terminal, screen_options


@click.command()
@click.argument("url")
@screen_options
def attach(url: str, ascii_only: bool, frame_rate: int) -> int:
    """Open the console over an engine that runs already, at URL.

    It is not stopped when the console ends.
    """
    need_terminal("attach", "`loraconsole status` shows an engine without one")
    from console.app import run_console

    url = url if "://" in url else f"http://{url}"
    options = console_options(ascii_only, frame_rate)
    return run_console(None, url.rstrip("/"), api_key(), paths.database_path(), paths.state_dir(), options)
