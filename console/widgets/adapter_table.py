"""The adapters table. Line API: only the rows in view are ever formatted, so thousands cost what twenty do.

A DataTable was measured at 51 ms a refresh with 1,000 rows, whatever changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.draw.adapter_columns import CHIP_WIDTH, GAP, CellContext, TableColumn, layout
from console.draw.adapter_order import ordered
from console.draw.parts import ASCII
from console.format import clip
from console.hues import HUES, hue_of, letter_of
from engine.messages import AdapterRow, EngineInfo

_TONES = ("heading", "plain", "quiet", "busy", "warn", "bad", "cursor", "hbm", "host", "disk")


class AdapterTable(ScrollView, can_focus=True):
    """One adapter a row. The cursor stays on its adapter, however the rows move."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"table--{tone}" for tone in _TONES} | {
        f"table--hue-{i}" for i in range(HUES)
    }
    DEFAULT_CSS = (
        """
    AdapterTable {
        height: 1fr;
        scrollbar-size-horizontal: 0;
        .table--heading { color: $dim; }
        .table--plain { color: $foreground; }
        .table--quiet { color: $dim; }
        .table--busy { color: $primary; text-style: bold; }
        .table--warn { color: $warning; text-style: bold; }
        .table--bad { color: $error; text-style: bold; }
        .table--hbm { color: $primary; }
        .table--host { color: $secondary; }
        .table--disk { color: $dim; }
        .table--cursor { color: $block-cursor-foreground; background: $block-cursor-background; text-style: bold; }
"""
        + "\n".join(f".table--hue-{i} {{ color: $hue-{i}; }}" for i in range(HUES))
        + "\n}"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", "Up", show=False, id="table.up", tooltip="Adapter above"),
        Binding("down,j", "cursor(1)", "Down", show=False, id="table.down", tooltip="Adapter below"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page_up", tooltip="One page up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="table.page_down", tooltip="One page down"),
        Binding("home", "edge(0)", "First", show=False, id="table.home", tooltip="First adapter"),
        Binding("end", "edge(-1)", "Last", show=False, id="table.end", tooltip="Last adapter"),
    ]

    class Moved(Message):
        """The cursor is on another adapter, or on none."""

        def __init__(self, row: AdapterRow | None) -> None:
            super().__init__()
            self.row = row

    def __init__(self, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ascii = ascii_only
        self._rows: list[AdapterRow] = []
        self._cursor = 0
        self._cells = CellContext(None, 0)

    @property
    def selected(self) -> AdapterRow | None:
        return self._rows[self._cursor] if self._rows else None

    def show(self, rows: Iterable[AdapterRow], info: EngineInfo | None, now_ns: int) -> None:
        key = self.selected.serial if self.selected is not None else None
        self._rows = ordered(rows)
        self._cells = CellContext(info, now_ns)
        found = next((i for i, row in enumerate(self._rows) if row.serial == key), None)
        moved = found is None
        self._cursor = min(self._cursor, max(len(self._rows) - 1, 0)) if found is None else found
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows) + 1)
        self.refresh()
        if moved:
            self.post_message(self.Moved(self.selected))

    def select(self, serial: int) -> None:
        """Puts the cursor on an adapter, if it is in the table."""
        for index, row in enumerate(self._rows):
            if row.serial == serial:
                self._move_to(index)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        columns = layout(width)
        if y == 0:
            return self._heading(columns, width)
        index = y - 1 + int(self.scroll_y)
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        return self._line(self._rows[index], columns, width, index == self._cursor)

    def _heading(self, columns: list[tuple[TableColumn, int]], width: int) -> Strip:
        text = " " * CHIP_WIDTH + "".join(
            _aligned(column.heading, w, column.right) + " " * GAP for column, w in columns
        )
        return Strip([Segment(text, self._tone("heading"))]).adjust_cell_length(width, self.rich_style)

    def _line(self, row: AdapterRow, columns: list[tuple[TableColumn, int]], width: int, is_cursor: bool) -> Strip:
        hue = self._tone(f"hue-{hue_of(row.serial)}")
        letter = letter_of(row.serial, row.pinned) if row.pages or row.tier == "hbm" else "-"
        chip = hue + Style(reverse=not self._ascii, bold=row.pinned) if letter != "-" else self._tone("quiet")
        pointer = (">" if self._ascii else "▌") if is_cursor and self.has_focus else " "
        segments = [
            Segment(pointer, self._tone("busy")),
            Segment(f"{letter}", chip),
            Segment("  ", self._tone("plain")),
        ]
        for column, cell_width in columns:
            text = column.text(row, self._cells)
            shown = _aligned(clip(text, cell_width), cell_width, column.right)
            if self._ascii:
                shown = shown.translate(ASCII)
            segments.append(Segment(shown + " " * GAP, self._cell_style(column, row, text)))
        strip = Strip(segments).adjust_cell_length(width, self.rich_style)
        return strip.apply_style(self._cursor_style()) if is_cursor else strip

    def _cell_style(self, column: TableColumn, row: AdapterRow, text: str) -> Style:
        if text in ("·", "-"):
            return self._tone("quiet")
        if column.tone == "tier":
            return self._tone(row.tier)
        if column.tone == "state":
            return self._tone(_state_tone(row))
        if column.tone == "name":
            return self._tone("plain") if row.tier != "disk" else self._tone("quiet")
        return self._tone(column.tone)

    def _tone(self, name: str) -> Style:
        return self.get_component_rich_style(f"table--{name}")

    def _cursor_style(self) -> Style:
        style = self._tone("cursor")
        return Style(bgcolor=style.bgcolor, bold=self.has_focus, reverse=self.app.no_color or None)

    def action_cursor(self, step: int) -> None:
        self._move_to(self._cursor + step)

    def action_page(self, step: int) -> None:
        self._move_to(self._cursor + step * max(self.size.height - 2, 1))

    def action_edge(self, index: int) -> None:
        self._move_to(index if index >= 0 else len(self._rows) - 1)

    def _move_to(self, index: int) -> None:
        index = min(max(index, 0), max(len(self._rows) - 1, 0))
        if index != self._cursor:
            self._cursor = index
            self.post_message(self.Moved(self.selected))
        height = max(self.size.height - 1, 1)
        if index < self.scroll_y:
            self.scroll_to(y=index, animate=False)
        elif index >= self.scroll_y + height:
            self.scroll_to(y=index - height + 1, animate=False)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        if event.y > 0:
            self._move_to(event.y - 1 + int(self.scroll_y))

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.refresh(Region(0, 0, *self.size))


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _state_tone(row: AdapterRow) -> str:
    if row.state == "failed":
        return "bad"
    if row.state in ("reading", "copying"):
        return "warn"
    if row.pinned or row.running or row.state == "active":
        return "busy"
    return "plain" if row.tier == "hbm" else "quiet"
