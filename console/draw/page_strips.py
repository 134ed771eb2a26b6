"""One text row of the page map as runs of (text, upper look, lower look), equal neighbours merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from console.draw.page_grid import PageGrid
from console.draw.pages import PageModel

HALF_BLOCK = "▀"
EMPTY = -1
"""The look of a place past the last page."""


class Run(NamedTuple):
    text: str
    upper: int
    lower: int


def row_runs(pages: PageModel, grid: PageGrid, y: int, letters: bool = False) -> list[Run]:
    """Row ``y`` of the map, ``grid.text_width`` cells wide.

    With half cells the text is half blocks (upper look in the foreground, lower in the background). With larger
    tiles, or ``letters``, it is the owner's letter once a tile, so that colour never carries the meaning alone.
    """
    if grid.halves:
        return _merged(_half_cells(pages, grid, y))
    return _merged(_tiles(pages, grid, y, letters))


def _half_cells(pages: PageModel, grid: PageGrid, y: int) -> Iterator[Run]:
    for column in range(grid.columns):
        upper, lower = (_tile(pages, grid, (y * 2 + half) * grid.columns + column)[0] for half in (0, 1))
        yield Run(HALF_BLOCK if upper != EMPTY or lower != EMPTY else " ", upper, lower)


def _tiles(pages: PageModel, grid: PageGrid, y: int, letters: bool) -> Iterator[Run]:
    tile_row, line = divmod(y, grid.tile_height)
    for column in range(grid.columns):
        code, letter = _tile(pages, grid, tile_row * grid.columns + column)
        if letters and code != EMPTY:
            text = letter * grid.tile_width
        else:
            text = (letter if line == (grid.tile_height - 1) // 2 else " ").ljust(grid.tile_width)
        yield Run(text, code, code)


def _tile(pages: PageModel, grid: PageGrid, tile: int) -> tuple[int, str]:
    first, last = grid.pages_of(tile)
    return pages.summary(first, last) if last > first else (EMPTY, " ")


def _merged(cells: Iterator[Run]) -> list[Run]:
    runs: list[Run] = []
    for cell in cells:
        if runs and runs[-1][1:] == cell[1:]:
            runs[-1] = runs[-1]._replace(text=runs[-1].text + cell.text)
        else:
            runs.append(cell)
    return runs
