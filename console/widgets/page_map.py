"""The page map: where every page of the pool went. Line API, one cached strip a row, only changed rows repainted."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from console.draw.page_grid import PageGrid, fit
from console.draw.page_strips import EMPTY, row_runs
from console.draw.pages import PageModel
from console.widgets.page_styles import COMPONENTS, CSS, PageStyles
from engine.messages import PageState


class PageMap(Widget, can_focus=True):
    """Shows a PageModel; its cursor walks the tiles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    DEFAULT_CSS = f"PageMap {{ height: 1fr; width: 1fr;\n{CSS}\n}}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(0, -1)", "Up", show=False, id="map.up", tooltip="Page above"),
        Binding("down,j", "move(0, 1)", "Down", show=False, id="map.down", tooltip="Page below"),
        Binding("left", "move(-1, 0)", "Left", show=False, id="map.left", tooltip="Page before"),
        Binding("right", "move(1, 0)", "Right", show=False, id="map.right", tooltip="Page after"),
        Binding("enter", "select", "Go to adapter", id="map.select", tooltip="Select the page's adapter in the table"),
    ]

    class Moved(Message):
        """The cursor is on ``page`` now; None when the pool is not known."""

        def __init__(self, page: PageState | None) -> None:
            super().__init__()
            self.page = page

    class Selected(Message):
        """The operator asked for the adapter with this serial."""

        def __init__(self, serial: int) -> None:
            super().__init__()
            self.serial = serial

    def __init__(self, letters: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._letters = letters
        self._pages = PageModel()
        self._grid = fit(0, 1, 1)
        self._strips: dict[int, Strip] = {}
        self._styles = PageStyles(self)
        self._cursor_tile = 0

    @property
    def grid(self) -> PageGrid:
        return self._grid

    @property
    def page_at_cursor(self) -> PageState | None:
        first, last = self._grid.pages_of(self._cursor_tile)
        return self._pages.states[first] if first < last else None

    def show(self, pages: PageModel) -> None:
        """Draws what changed in ``pages`` since the last call."""
        if pages is not self._pages:
            self._pages = pages
            pages.drain()
            self._refit()
            return
        dirty = pages.drain()
        if not dirty:
            return
        rows = {row for page in dirty for row in self._grid.text_rows_of(page)}
        for row in rows:
            self._strips.pop(row, None)
        self.repaint_rows(rows)

    def repaint_rows(self, rows: set[int]) -> None:
        height = self.size.height
        if len(rows) * 2 > height:
            self.refresh()
        elif rows:
            self.refresh(*(Region(0, row, self.size.width, 1) for row in rows if row < height))

    def render_line(self, y: int) -> Strip:
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._row_strip(y)
        return strip

    def _row_strip(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style
        if y >= self._grid.text_rows or not self._pages.num_pages:
            return Strip.blank(width, base)
        segments = []
        for run in row_runs(self._pages, self._grid, y, self._letters):
            style = self._styles.half_cell(run.upper, run.lower) if self._grid.halves else self._styles.tile(run.upper)
            segments.append(Segment(run.text, style))
        strip = Strip(segments, self._grid.text_width).adjust_cell_length(width, base)
        return self._with_cursor(strip, y) if self.has_focus else strip

    def _with_cursor(self, strip: Strip, y: int) -> Strip:
        grid = self._grid
        if y not in self._cursor_rows():
            return strip
        row, column = divmod(self._cursor_tile, grid.columns)
        left, right = column * grid.tile_width, (column + 1) * grid.tile_width
        before, cell, after = strip.divide([left, right, strip.cell_length])
        cursor = self.get_component_rich_style("page--cursor")
        if grid.halves:
            other = self._cursor_tile + (grid.columns if row % 2 == 0 else -grid.columns)
            ground = self._styles.tile(self._look(other)).bgcolor
            cell = Strip([Segment("▀" if row % 2 == 0 else "▄", Style(color=cursor.bgcolor, bgcolor=ground))], 1)
        else:
            cell = Strip([Segment(cell.text, cursor)], right - left)
        return Strip.join([before, cell, after])

    def _look(self, tile: int) -> int:
        first, last = self._grid.pages_of(tile)
        return self._pages.summary(first, last)[0] if first < last else EMPTY

    def action_move(self, dx: int, dy: int) -> None:
        self._move_to(self._cursor_tile + dx + dy * self._grid.columns)

    def action_select(self) -> None:
        page = self.page_at_cursor
        if page is not None and page.adapter >= 0:
            self.post_message(self.Selected(page.adapter))

    def _move_to(self, tile: int) -> None:
        if not 0 <= tile < self._grid.num_tiles:
            return
        rows = self._cursor_rows()
        self._cursor_tile = tile
        rows |= self._cursor_rows()
        for row in rows:
            self._strips.pop(row, None)
        self.repaint_rows(rows)
        self.post_message(self.Moved(self.page_at_cursor))

    def _cursor_rows(self) -> set[int]:
        return set(self._grid.text_rows_of(self._cursor_tile * self._grid.pages_per_tile))

    def _refit(self) -> None:
        self._grid = fit(self._pages.num_pages, self.size.width, self.size.height, halves=not self._letters)
        self._cursor_tile = min(self._cursor_tile, max(self._grid.num_tiles - 1, 0))
        self._strips.clear()
        self.refresh()
        self.post_message(self.Moved(self.page_at_cursor))

    def on_resize(self) -> None:
        self._refit()

    def on_focus(self) -> None:
        self._move_to(self._cursor_tile)

    def on_blur(self) -> None:
        self._move_to(self._cursor_tile)

    def on_click(self, event: events.Click) -> None:
        self._move_to(self._grid.tile_at(event.x, event.y))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.forget()
        self._strips.clear()
