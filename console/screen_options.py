"""The options that say how the console draws: ``launch`` and ``attach`` have the same."""

from __future__ import annotations

import click

from console.engine_options import F
from console.options import FRAME_RATES, ConsoleOptions


def screen_options(command: F) -> F:
    command = click.option(
        "--frame-rate",
        type=click.Choice([str(rate) for rate in FRAME_RATES]),
        help="Frames a second. Default: 10, over ssh 4.",
        callback=lambda _ctx, _param, value: int(value or 0),
    )(command)
    return click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")(command)


def console_options(ascii_only: bool, frame_rate: int) -> ConsoleOptions:
    return ConsoleOptions(ascii=ascii_only, frame_rate=frame_rate)
