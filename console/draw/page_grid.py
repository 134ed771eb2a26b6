"""How a pool of any size fits a box of any size: one tile for a page, or for a few pages, or a page over many cells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageGrid:
    """Tiles in row-major order. ``tile_height`` 0 means half a text row: two tiles share one character cell."""

    num_pages: int
    columns: int
    tile_width: int
    tile_height: int
    pages_per_tile: int

    @property
    def halves(self) -> bool:
        return self.tile_height == 0

    @property
    def num_tiles(self) -> int:
        return -(-self.num_pages // self.pages_per_tile)

    @property
    def text_rows(self) -> int:
        tile_rows = -(-self.num_tiles // self.columns) if self.columns else 0
        return -(-tile_rows // 2) if self.halves else tile_rows * self.tile_height

    @property
    def text_width(self) -> int:
        return self.columns * self.tile_width

    def pages_of(self, tile: int) -> tuple[int, int]:
        """First page and one past the last page of ``tile``; both equal past the end of the pool."""
        first = min(tile * self.pages_per_tile, self.num_pages)
        return first, min(first + self.pages_per_tile, self.num_pages)

    def text_rows_of(self, page: int) -> range:
        """The text rows on which ``page`` shows."""
        row = page // self.pages_per_tile // self.columns
        return (
            range(row // 2, row // 2 + 1)
            if self.halves
            else range(row * self.tile_height, (row + 1) * self.tile_height)
        )

    def tile_at(self, x: int, y: int, lower: bool = False) -> int:
        """The tile under cell (x, y), its ``lower`` half where a cell holds two; may lie past the last tile."""
        row = y * 2 + lower if self.halves else y // self.tile_height
        return row * self.columns + min(x // self.tile_width, self.columns - 1)

    @property
    def scale_words(self) -> str:
        return f"{self.pages_per_tile} pages a cell" if self.pages_per_tile > 1 else "1:1"


def fit(num_pages: int, width: int, height: int, halves: bool = True) -> PageGrid:
    """The grid with the largest tiles that shows all of ``num_pages`` in ``width`` x ``height`` cells.

    Small pools get square tiles over whole text rows; large ones half cells, then several pages a half cell.
    With ``halves`` False (letters) a cell holds one tile at least.
    """
    if num_pages <= 0 or width <= 0 or height <= 0:
        return PageGrid(max(num_pages, 0), max(width, 1), 1, 1, 1)
    for tile_height in range(height, 0, -1):
        tile_rows = height // tile_height
        columns = -(-num_pages // tile_rows)
        tile_width = min(width // columns, tile_height * 3)
        if tile_width >= tile_height * 2:
            return PageGrid(num_pages, min(width // tile_width, num_pages), tile_width, tile_height, 1)
    if not halves and num_pages <= width * height:
        return PageGrid(num_pages, width, 1, 1, 1)
    capacity = width * height * (2 if halves else 1)
    return PageGrid(num_pages, width, 1, 0 if halves else 1, -(-num_pages // capacity))
