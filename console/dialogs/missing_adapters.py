"""A test asks for more adapters than the engine knows: make and register the missing ones, run over those that are
there, or leave it."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal, TypeAlias

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Label, ProgressBar

from console.adapter_actions import act
from console.dialogs.base import Dialog
from console.missing_adapters import RANK, can_make, folder, make_missing
from engine.client import EngineClient
from engine.errors import EngineError
from engine.messages import EngineInfo
from stress.scenarios import TooFewAdaptersError

WayOn: TypeAlias = Literal["made", "fewer"]


class _LeftError(Exception):
    """The dialog was left while adapters were made."""


class MissingAdaptersDialog(Dialog[WayOn]):
    """``made``: as many as were asked for are registered now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "make", "Make", id="missing.make", tooltip="Make random adapters and register them"),
        Binding("f", "fewer", "Fewer", id="missing.fewer", tooltip="Run over the adapters that are there"),
    ]

    def __init__(self, error: TooFewAdaptersError, client: EngineClient, info: EngineInfo) -> None:
        super().__init__()
        self._error, self._client, self._info = error, client, info
        self._can_make = can_make(error, info)
        self._making = self._left = False

    def compose(self) -> ComposeResult:
        there, missing = len(self._error.there), self._error.missing
        box = Vertical(classes="box -danger")
        box.border_title = "Too few adapters for this test"
        box.border_subtitle = "esc back"
        with box:
            yield Label(f"{self._error}.", markup=False)
            if self._can_make:
                yield Label(
                    f"m makes {missing} random ones of rank {RANK} in {folder(self._info)} and registers them.",
                    classes="note", markup=False,
                )  # fmt: skip
            else:
                yield Label("The missing ones can't be made from here: `adapters make` where the model lies.",
                            classes="note", markup=False)  # fmt: skip
            if there:
                yield Label(f"f runs over the {there} that are there: recorded as {there} instead of "
                            f"{self._error.asked}.", classes="note", markup=False)  # fmt: skip
            yield ProgressBar(total=2 * missing, show_eta=False, id="making")
            yield Label("", id="problem", classes="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button(f"Run over {there}", id="fewer", disabled=not there)
                yield Button(f"Make {missing}", id="make", variant="primary", disabled=not self._can_make)

    def on_mount(self) -> None:
        self.query_one("#making").display = False
        self.query_one("#make" if self._can_make else "#cancel").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        possible = {"make": self._can_make and not self._making, "fewer": bool(self._error.there) and not self._making}
        return possible.get(action, True)

    @on(Button.Pressed, "#make")
    def action_make(self) -> None:
        self._making = True
        self.query_one("#making").display = True
        for button in ("#make", "#fewer"):
            self.query_one(button, Button).disabled = True
        self._make()

    @work(exclusive=True)
    async def _make(self) -> None:
        bar = self.query_one("#making", ProgressBar)

        def told(done: int, _count: int) -> None:
            if self._left:
                raise _LeftError
            self.app.call_from_thread(bar.update, progress=done)

        try:
            made = await asyncio.to_thread(make_missing, self._error.missing, self._info, told)
        except _LeftError:
            return
        except (EngineError, OSError) as error:
            self._failed(str(error))
            return
        for done, path in enumerate(made):
            outcome = await act(self._client, "add", path.name, str(path))
            if not outcome.ok:
                self._failed(outcome.text)
                return
            bar.update(progress=len(made) + done + 1)
        self.dismiss("made")

    def _failed(self, text: str) -> None:
        self.query_one("#problem", Label).update(text)
        self._making = False
        self.query_one("#fewer", Button).disabled = not self._error.there

    @on(Button.Pressed, "#fewer")
    def action_fewer(self) -> None:
        self.dismiss("fewer")

    @on(Button.Pressed, "#cancel")
    def action_leave(self) -> None:
        """What was made so far stays on disk."""
        self._left = True
        self.dismiss(None)
