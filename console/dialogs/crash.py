"""The engine is gone: why, its last words, and a way to have it back now."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button

from console.dialogs.base import Dialog
from console.draw.engine_status import exit_words
from console.draw.parts import Part
from console.session import Session
from console.widgets.lines import Lines
from engine.supervisor import SupervisorState, SupervisorStatus

CrashAnswer = Literal["restart"]
_REFRESH_S = 0.25
_LOG_LINES = 12


class CrashDialog(Dialog[CrashAnswer]):
    """Goes by itself when the engine is back. The automatic restart goes on behind it."""

    AUTO_FOCUS = "#restart"
    DEFAULT_CSS = """
    CrashDialog > .box { width: 100; }
    CrashDialog #log { margin: 1 0; padding: 0 1; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "restart", "Restart now", id="crash.restart", tooltip="Do not wait for the automatic restart"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box -bad")
        box.border_title = "The engine is gone"
        box.border_subtitle = "R restart now   esc close"
        with box:
            yield Lines(id="why")
            yield Lines(id="log")
            with Horizontal(classes="buttons"):
                yield Button("Close", id="close")
                yield Button("Restart now", id="restart", variant="error")

    def on_mount(self) -> None:
        self._refresh()
        self.set_interval(_REFRESH_S, self._refresh)

    def _refresh(self) -> None:
        status = self._session.supervised
        if status is None or status.state is SupervisorState.READY:
            self.dismiss(None)
            return
        if status.state in (SupervisorState.BACKOFF, SupervisorState.FATAL):
            self.query_one("#log", Lines).show(_log_rows(status.log_tail))
        self.query_one("#why", Lines).show(crash_rows(status))

    def action_restart(self) -> None:
        self.dismiss("restart")

    @on(Button.Pressed, "#restart")
    def _restart(self) -> None:
        self.dismiss("restart")

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)


def crash_rows(status: SupervisorStatus) -> list[list[Part]]:
    rows: list[list[Part]] = [[("It ended: ", "$foreground"), (exit_words(status) or "no word why", "bold $error")]]
    if status.reason:
        rows.append([(status.reason, "$foreground")])
    if status.state is SupervisorState.FATAL:
        rows.append([("It is not started again by itself.", "$warning")])
    elif status.state is SupervisorState.STARTING:
        rows.append([("Starting again ...", "$warning")])
    elif status.next_start_s:
        rows.append([(f"It starts again by itself in {status.next_start_s:.0f} s.", "$dim")])
    return rows


def _log_rows(tail: tuple[str, ...]) -> list[list[Part]]:
    return [[(line.expandtabs(4), "$dim")] for line in tail[-_LOG_LINES:]] or [[("it left no log", "$dim")]]
