"""Filled charts in braille (two columns and four rows of dots a cell), or in ``#`` and ``:``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Column = tuple[float, float] | None
"""(inner, outer) with inner <= outer; None where nothing was measured."""

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # from the bottom up: left column, right column
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " .:-=+*#@"

BASE, OUTER, INNER = 0, 1, 2


class Cell(NamedTuple):
    """One character and what it shows: BASE the axis, OUTER or INNER the bars."""

    text: str
    layer: int


def columns_for(width: int, ascii_only: bool = False) -> int:
    """How many columns a chart ``width`` cells wide shows."""
    return width if ascii_only else width * 2


def nice_top(value: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``value``; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1, 2, 5, 10):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10 * power


def bar_rows(columns: Sequence[Column], height: int, top: float, ascii_only: bool = False) -> list[list[Cell]]:
    """``height`` rows of cells, the top row first. ``columns`` is as long as ``columns_for`` says."""
    if ascii_only:
        return [[_ascii_cell(column, row, height, top) for column in columns] for row in range(height - 1, -1, -1)]
    pairs = [(columns[i], columns[i + 1]) for i in range(0, len(columns) - 1, 2)]
    return [[_braille_cell(pair, row, height, top) for pair in pairs] for row in range(height - 1, -1, -1)]


def _dots(value: float, height: int, top: float) -> int:
    """Any measured value above zero shows at least one dot."""
    return min(max(round(value / top * height * 4), 1 if value > 0 else 0), height * 4)


def _braille_cell(pair: tuple[Column, Column], row: int, height: int, top: float) -> Cell:
    bits, layer = 0, BASE
    for side, column in enumerate(pair):
        if column is None:
            continue
        inner, outer = _dots(column[0], height, top) - row * 4, _dots(column[1], height, top) - row * 4
        for dot in range(min(max(outer, 0), 4)):
            bits |= _DOTS[side][dot]
        layer = max(layer, INNER if inner > 0 else OUTER if outer > 0 else BASE)
    if not bits and row == 0:
        return Cell("⣀", BASE)
    return Cell(chr(0x2800 + bits), layer)


def _ascii_cell(column: Column, row: int, height: int, top: float) -> Cell:
    if column is not None:
        if _dots(column[0], height, top) > row * 4:
            return Cell("#", INNER)
        if _dots(column[1], height, top) > row * 4:
            return Cell(":", OUTER)
    return Cell("_", BASE) if row == 0 else Cell(" ", BASE)


def spark(values: Sequence[float | None], top: float, ascii_only: bool = False) -> str:
    """One row: a value a cell, blank where nothing was measured."""
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    steps = len(blocks) - 1
    cells = (0 if not value else min(max(round(value / top * steps), 1), steps) for value in values)
    return "".join(blocks[cell] for cell in cells)


def progress(share: float, width: int, ascii_only: bool = False) -> tuple[str, str]:
    """The done and the open part of a progress bar of ``width`` cells."""
    done = min(max(round(share * width), 0), width)
    return ("#" if ascii_only else "━") * done, ("." if ascii_only else "━") * (width - done)
