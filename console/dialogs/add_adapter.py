"""Registers an adapter folder. The engine checks it; its answer is shown here, and the text can be corrected."""

from __future__ import annotations

from pathlib import PurePath
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label

from console.adapter_actions import act
from console.dialogs.base import Dialog
from engine.client import EngineClient


class AddAdapterDialog(Dialog[str]):
    """Answers the name that was registered."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, client: EngineClient) -> None:
        super().__init__()
        self._client = client
        self._offered = ""

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = "Add an adapter"
        box.border_subtitle = "enter add   esc back"
        with box:
            yield Label("Folder with adapter_config.json", classes="note")
            yield Input(placeholder="/path/to/adapter", id="path")
            yield Label("Name to serve it under", classes="note")
            yield Input(placeholder="the folder's name", id="name")
            yield Label("", id="problem", classes="problem")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button("Add", id="add", variant="primary")

    @on(Input.Changed, "#path")
    def _offer_name(self, changed: Input.Changed) -> None:
        name = self.query_one("#name", Input)
        if name.value == self._offered:
            self._offered = name.value = PurePath(changed.value.strip()).name

    @on(Input.Submitted)
    @on(Button.Pressed, "#add")
    @work(exclusive=True)
    async def _add(self) -> None:
        path = self.query_one("#path", Input).value.strip()
        name = self.query_one("#name", Input).value.strip()
        if not path or not name:
            self._problem("A folder and a name are needed.")
            return
        self._problem("checking ...")
        outcome = await act(self._client, "add", name, path)
        if outcome.ok:
            self.dismiss(name)
        else:
            self._problem(outcome.text)

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)

    def _problem(self, text: str) -> None:
        self.query_one("#problem", Label).update(text)
