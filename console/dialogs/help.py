"""The help screen: every key of the screen it was opened on, and where things are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from console.dialogs.base import Dialog
from console.draw.parts import Row
from console.widgets.lines import Lines


class HelpDialog(Dialog[None]):
    DEFAULT_CSS = """
    HelpDialog > .box { width: 100; padding: 0 2; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1,q", "leave", "Close", id="help.close", tooltip="Close the help"),
    ]

    def __init__(self, title: str, rows: Sequence[Row]) -> None:
        super().__init__()
        self._title = title
        self._rows = rows

    def compose(self) -> ComposeResult:
        box = VerticalScroll(classes="box")
        box.border_title = f"Help: {self._title}"
        box.border_subtitle = "esc close   arrows scroll"
        with box:
            lines = Lines()
            lines.show(self._rows)
            yield lines
