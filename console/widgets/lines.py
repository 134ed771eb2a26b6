"""Rows of styled text, made by a pure function and drawn as they are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from console.draw.parts import ASCII, Row, text_of


def strip_of(widget: Widget, row: Row, width: int) -> Strip:
    """``row`` cut or filled to ``width``, on the widget's own background."""
    parse = widget.app.stylesheet.parse_style
    if widget.app.has_class("-ascii"):
        row = [(text.translate(ASCII), style) for text, style in row]
    segments = [Segment(text, (widget.visual_style + parse(style)).rich_style) for text, style in row if text]
    return Strip(segments).adjust_cell_length(width, widget.rich_style)


class Lines(Widget):
    """Shows rows; repaints only when they changed. Its height is theirs unless CSS says otherwise."""

    DEFAULT_CSS = """
    Lines { height: auto; width: 1fr; }
    """

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []

    @property
    def text(self) -> str:
        return "\n".join(text_of(row) for row in self._rows)

    def show(self, rows: Sequence[Row]) -> None:
        if list(rows) == self._rows:
            return
        grown = len(rows) != len(self._rows)
        self._rows = list(rows)
        self.refresh(layout=grown)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self._rows)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return strip_of(self, self._rows[y], width) if y < len(self._rows) else Strip.blank(width, self.rich_style)
