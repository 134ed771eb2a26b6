"""Asks before something that could surprise, and says what it means now."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button

from console.dialogs.base import Dialog
from console.widgets.lines import Lines

_REFRESH_S = 0.5


class ConfirmDialog(Dialog[bool]):
    """True when confirmed. ``consequence`` is asked again while the box is open: the engine does not stand still."""

    AUTO_FOCUS = "#cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "confirm", "Yes", id="confirm.yes", tooltip="Do it"),
        Binding("n", "leave", "No", id="confirm.no", tooltip="Leave everything as it is"),
    ]

    def __init__(self, title: str, consequence: Callable[[], list[str]], verb: str) -> None:
        super().__init__()
        self._title = title
        self._consequence = consequence
        self._verb = verb

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box -danger")
        box.border_title = self._title
        box.border_subtitle = "y yes   n no   esc back"
        with box:
            yield Lines(id="consequence")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button(self._verb, id="confirm", variant="warning")

    def on_mount(self) -> None:
        self._refresh()
        self.set_interval(_REFRESH_S, self._refresh)

    def _refresh(self) -> None:
        self.query_one("#consequence", Lines).show([[(line, "$foreground")] for line in self._consequence()])

    def action_confirm(self) -> None:
        self.dismiss(True)

    @on(Button.Pressed, "#confirm")
    def _confirmed(self) -> None:
        self.dismiss(True)

    @on(Button.Pressed, "#cancel")
    def _cancelled(self) -> None:
        self.dismiss(None)
