"""Where to write a run, and in which form. What goes wrong is said here, so that the path can be corrected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label, RadioButton, RadioSet

from console.dialogs.base import Dialog
from store.errors import HistoryError
from store.export import ExportFormat

_FORMS: tuple[tuple[ExportFormat, str], ...] = (
    ("csv", "CSV: the requests, one a line"),
    ("json", "JSON: the run with requests, swaps and samples"),
    ("jsonl", "JSON Lines: the same, one object a line"),
)


class ExportDialog(Dialog[str]):
    """Answers the path that was written. ``write`` blocks, so it is called in a thread."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, title: str, name: str, write: Callable[[Path, ExportFormat], None]) -> None:
        super().__init__()
        self._title = title
        self._name = name
        self._write = write

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = f"Export {self._title}"
        box.border_subtitle = "enter write   esc back"
        with box:
            with RadioSet(id="form"):
                for number, (_, words) in enumerate(_FORMS):
                    yield RadioButton(words, value=number == 0)
            yield Label("File", classes="note")
            yield Input(str(Path.cwd() / f"{self._name}.csv"), id="path")
            yield Label("", id="problem", classes="problem")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button("Write", id="write", variant="primary")

    @property
    def _form(self) -> ExportFormat:
        return _FORMS[max(0, self.query_one(RadioSet).pressed_index)][0]

    @on(RadioSet.Changed)
    def _other_form(self) -> None:
        box = self.query_one("#path", Input)
        box.value = str(Path(box.value).with_suffix(f".{self._form}"))

    @on(Input.Submitted)
    @on(Button.Pressed, "#write")
    @work(exclusive=True)
    async def _go(self) -> None:
        path, form = Path(self.query_one("#path", Input).value).expanduser(), self._form
        try:
            await asyncio.to_thread(self._write, path, form)
        except HistoryError as error:
            self.query_one("#problem", Label).update(str(error))
            return
        self.dismiss(str(path))

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)
