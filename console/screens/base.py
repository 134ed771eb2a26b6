"""What the four screens have in common: the header, the footer, and timers that rest while nobody looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Footer

from console.draw.header_lines import header_rows
from console.session import Session
from console.widgets.lines import Lines

TALL_ROWS = 32
_CHART_HZ = 4
_TABLE_HZ = 2


class ConsoleScreen(Screen[None]):
    """Subclasses give ``body()`` and draw: ``draw_map`` every frame, ``draw_charts`` at 4 Hz, ``draw_tables`` at 2."""

    WORD: ClassVar[str] = ""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._timers_here: list[Timer] = []
        self._frame_rate = 0

    def compose(self) -> ComposeResult:
        yield Lines(id="header")
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> Iterable[Widget]:
        return ()

    def draw_map(self) -> None:
        """Every frame."""

    def draw_charts(self) -> None:
        """Four times a second."""

    def draw_tables(self) -> None:
        """Twice a second."""

    @property
    def tall(self) -> bool:
        return self.size.height >= TALL_ROWS

    def set_frame_rate(self, frame_rate: int) -> None:
        self._frame_rate = frame_rate
        self._stop_timers()
        if self.is_current_mode:
            self._start_timers()

    @property
    def is_current_mode(self) -> bool:
        """Whether this screen is in sight, alone or under a dialog."""
        return self in self.app.screen_stack

    def on_mount(self) -> None:
        self._start_timers()
        self.draw_all()

    def on_screen_resume(self) -> None:
        self._start_timers()
        self.draw_all()

    def on_screen_suspend(self) -> None:
        if not self.is_current_mode:
            self._stop_timers()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw_all)

    def draw_all(self) -> None:
        self.draw_header()
        self.draw_map()
        self.draw_charts()
        self.draw_tables()

    def draw_header(self) -> None:
        status = self.session.supervised
        info = self.session.state.info
        pid = status.pid if status is not None else info.core_pid if info is not None else None
        notes = [f"{self._frame_rate} frames/s", "? help"]
        header = self.query_one("#header", Lines)
        header.show(
            header_rows(self.session.state, self.session.status, pid, self.WORD, notes, self.size.width, self.tall)
        )

    def _start_timers(self) -> None:
        if self._timers_here or not self._frame_rate:
            return
        self._timers_here = [
            self.set_interval(1 / self._frame_rate, self.draw_map),
            self.set_interval(1 / _CHART_HZ, self._charts),
            self.set_interval(1 / _TABLE_HZ, self.draw_tables),
        ]

    def _stop_timers(self) -> None:
        for timer in self._timers_here:
            timer.stop()
        self._timers_here = []

    def _charts(self) -> None:
        self.draw_header()
        self.draw_charts()
