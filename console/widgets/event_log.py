"""The engine's events, newest first."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.draw.event_line import event_parts
from console.format import wall_time
from console.state import ConsoleState
from console.widgets.lines import strip_of
from engine.messages import EngineEvent

_WIDE = 100


class EventLog(ScrollView, can_focus=True):
    """Draws the rows in view only; scrolled down it holds its place while new events come in on top."""

    DEFAULT_CSS = """
    EventLog {
        height: 1fr;
        scrollbar-size-horizontal: 0;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False, id="events.up", tooltip="Newer events"),
        Binding("down,j", "scroll_down", "Down", show=False, id="events.down", tooltip="Older events"),
    ]

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._state: ConsoleState | None = None
        self._seen = -1
        self._newest_first: list[EngineEvent] = []

    def show(self, state: ConsoleState) -> None:
        if state is self._state and state.events_seen == self._seen:
            return
        new = state.events_seen - self._seen if self._state is state else 0
        self._state, self._seen = state, state.events_seen
        self._newest_first = list(reversed(state.events))
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._newest_first))
        if self.scroll_y > 0:
            self.scroll_to(y=self.scroll_y + new, animate=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        index = y + int(self.scroll_y)
        if self._state is None or index >= len(self._newest_first):
            return Strip.blank(width, self.rich_style)
        event = self._newest_first[index]
        clock = wall_time(self._state.wall_ns(event.t_ns), millis=width >= _WIDE)
        parts = [(f" {clock}  ", "$dim"), *event_parts(event, self._state.info, width >= _WIDE)]
        return strip_of(self, parts, width)
