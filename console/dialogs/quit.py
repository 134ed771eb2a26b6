"""What to do with the engine, and with a stress that runs, when the console goes."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button

from console.dialogs.base import Dialog
from console.widgets.lines import Lines

QuitAnswer = Literal["stop", "detach"]


class QuitDialog(Dialog[QuitAnswer]):
    """``can_detach`` False hides the second way: there is no engine of ours to leave behind."""

    AUTO_FOCUS = "#stay"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop and quit", id="quit.stop", tooltip="Stop the engine, then quit"),
        Binding("d", "detach", "Leave running", id="quit.detach", tooltip="Quit; the engine goes on serving"),
    ]

    def __init__(self, facts: list[str], can_detach: bool) -> None:
        super().__init__()
        self._facts = facts
        self._can_detach = can_detach

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = "Quit"
        box.border_subtitle = "esc stay"
        with box:
            facts = Lines()
            facts.show([[(fact, "$foreground")] for fact in self._facts])
            yield facts
            with Horizontal(classes="buttons"):
                yield Button("Stay", id="stay")
                if self._can_detach:
                    yield Button("Leave running (d)", id="detach", variant="primary")
                yield Button("Stop and quit (s)", id="stop", variant="warning")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._can_detach if action == "detach" else True

    def action_stop(self) -> None:
        self.dismiss("stop")

    def action_detach(self) -> None:
        self.dismiss("detach")

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "stay":
            self.dismiss(None)
        else:
            self.dismiss("detach" if event.button.id == "detach" else "stop")
