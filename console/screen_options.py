"""The options that say how the console draws: ``launch`` and ``attach`` have the same."""

from __future__ import annotations

import os
import sys

import click

from console.engine_options import F
from console.options import FRAME_RATES, ConsoleOptions
from console.output import Exit, fail


def screen_options(command: F) -> F:
    command = click.option(
        "--frame-rate",
        type=click.Choice([str(rate) for rate in FRAME_RATES]),
        help="Frames a second. Default: 10, over ssh 4.",
        callback=lambda _ctx, _param, value: int(value or 0),
    )(command)
    return click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")(command)


def need_terminal(command: str, instead: str) -> None:
    """Exit where no screen could be drawn or no key could come."""
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        fail(f"{command} needs a terminal; {instead}", Exit.USAGE)
    if os.environ.get("TERM", "dumb") == "dumb":
        fail(f"{command} needs a terminal that can move its cursor (TERM is dumb or not set)", Exit.USAGE)


def console_options(ascii_only: bool, frame_rate: int) -> ConsoleOptions:
    return ConsoleOptions(ascii=ascii_only, frame_rate=frame_rate)
