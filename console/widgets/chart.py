"""A chart of the last minutes: filled bars, an inner and an outer value a column, with labels on the y axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

from console.draw.bars import BASE, INNER, Cell, Column, bar_rows, columns_for, nice_top

LABEL_WIDTH = 7


class Chart(Widget):
    """``axis`` formats a y value in at most six cells. The inner bars get brighter towards the top."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--inner", "chart--outer", "chart--axis"}
    DEFAULT_CSS = """
    Chart {
        height: 1fr;
        .chart--inner { color: $primary; }
        .chart--outer { color: $secondary 60%; }
        .chart--axis { color: $dim; }
    }
    """

    def __init__(self, axis: Callable[[float], str], ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._axis = axis
        self._ascii = ascii_only
        self._rows: list[list[Cell]] = []
        self._top = 1.0
        self._styles: dict[tuple[int, int], Style] = {}

    @property
    def columns(self) -> int:
        """How many columns ``show`` wants."""
        return columns_for(max(self.size.width - LABEL_WIDTH, 1), self._ascii)

    def show(self, columns: Sequence[Column]) -> None:
        height = max(self.size.height, 1)
        top = nice_top(max((column[1] for column in columns if column is not None), default=0.0))
        rows = bar_rows(columns, height, top, self._ascii)
        if rows != self._rows or top != self._top:
            self._rows, self._top = rows, top
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if y >= len(self._rows) or len(self._rows) != height:
            return Strip.blank(width, self.rich_style)
        label = Segment(self._label(y, height), self.get_component_rich_style("chart--axis"))
        cells = [Segment(cell.text, self._style(cell.layer, height - 1 - y, height)) for cell in self._rows[y]]
        return Strip([label, *Segment.simplify(cells)]).adjust_cell_length(width, self.rich_style)

    def _label(self, y: int, height: int) -> str:
        if y == 0:
            text = self._axis(self._top)
        elif y == height - 1:
            text = self._axis(0.0)
        elif height >= 5 and y == height // 2 and height % 2:
            text = self._axis(self._top / 2)
        else:
            return " " * LABEL_WIDTH
        return text.rjust(LABEL_WIDTH - 1) + " "

    def _style(self, layer: int, row: int, height: int) -> Style:
        found = self._styles.get((layer, row))
        if found is None:
            found = self._styles[layer, row] = self._made_style(layer, row / max(height - 1, 1))
        return found

    def _made_style(self, layer: int, level: float) -> Style:
        ground = self.background_colors[1]
        name = "chart--inner" if layer == INNER else "chart--axis" if layer == BASE else "chart--outer"
        colour: Color = self.get_component_styles(name).color
        if layer == INNER:
            colour = ground.blend(colour, 0.6 + 0.4 * level)
        elif layer == BASE:
            colour = ground.blend(colour, 0.5)
        else:
            colour = ground.blend(colour, colour.a).with_alpha(1.0)
        return Style(color=colour.rich_color, bgcolor=ground.rich_color)

    def on_resize(self) -> None:
        self._styles.clear()
        self._rows = []

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
