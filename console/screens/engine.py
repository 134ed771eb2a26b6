"""Engine: what it is doing, how it came up, how it was set up, and what it last said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from console.draw.engine_lines import log_rows, phase_rows, setting_rows, state_rows
from console.keys import ENGINE
from console.screens.base import ConsoleScreen
from console.widgets.lines import Lines


class EngineScreen(ConsoleScreen):
    WORD = "Engine"
    CSS_PATH = "engine.tcss"
    BINDINGS: ClassVar[list[BindingType]] = ENGINE

    def body(self) -> Iterable[Widget]:
        with Horizontal(id="engine-top"):
            with Vertical(id="condition-panel", classes="panel"):
                yield Lines(id="condition")
            with Vertical(id="settings-panel", classes="panel"):
                yield Lines(id="settings")
        with Vertical(id="log-panel", classes="panel"):
            yield Lines(id="log")

    def draw_tables(self) -> None:
        session, state = self.session, self.session.state
        supervised, ascii_only = session.supervised, session.options.ascii
        condition = self.query_one("#condition", Lines)
        phase = state.phase or (supervised.phase if supervised is not None else None)
        condition.show(
            [
                *state_rows(state, session.status, supervised, session.client.base_url),
                [],
                *phase_rows(phase, session.live, condition.size.width, ascii_only),
            ]
        )
        settings = self.query_one("#settings", Lines)
        settings.show(setting_rows(state.info, settings.size.width))
        log_panel = self.query_one("#log-panel")
        tail = supervised.log_tail if supervised is not None else ()
        self.query_one("#log", Lines).show(log_rows(tail, log_panel.size.height))
        self.query_one("#condition-panel").border_title = "Condition"
        self.query_one("#settings-panel").border_title = "Settings"
        log_panel.border_title = "Log" if supervised is not None else "Log: kept by whoever started the engine"
        log_panel.border_subtitle = str(session.state_dir) if supervised is not None else ""
