"""Both charts in two lines, for small screens."""

from __future__ import annotations

from collections.abc import Sequence

from console.draw.bars import Column, nice_top, spark
from console.draw.parts import Part
from console.draw.summaries import swap_words, token_words
from console.state import ConsoleState

_LABEL_WIDTH = 9


def spark_rows(state: ConsoleState, width: int, ascii_only: bool) -> list[list[Part]]:
    rates = state.rates
    swaps, tokens = swap_words(rates), token_words(rates)
    room = max(width - _LABEL_WIDTH - max(len(swaps), len(tokens)) - 3, 8)
    return [
        _row("swap", rates.swap_columns(room), swaps, "$primary", ascii_only),
        _row("tokens", rates.token_columns(room), tokens, "$secondary", ascii_only),
    ]


def _row(name: str, columns: Sequence[Column], words: str, style: str, ascii_only: bool) -> list[Part]:
    values = [None if column is None else column[1] for column in columns]
    top = nice_top(max((value for value in values if value is not None), default=0.0))
    return [
        (f" {name:<{_LABEL_WIDTH - 2}} ", "$dim"),
        (spark(values, top, ascii_only), style),
        (f"  {words}", "$foreground"),
    ]
