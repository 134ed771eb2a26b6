"""Changes a preset's numbers for the next run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.validation import Integer
from textual.widgets import Button, Input, Label

from console.dialogs.base import Dialog
from stress.spec import StressSpec

FIELDS = (
    ("requests", "Requests", 1, 1_000_000),
    ("workers", "Workers: clients at a time", 1, 4096),
    ("adapter_count", "Adapters; 0 for the base model", 0, 100_000),
    ("max_tokens", "Max tokens of an answer", 1, 1 << 20),
)


class EditStressDialog(Dialog[dict[str, Any]]):
    """Answers the fields that differ from the preset."""

    DEFAULT_CSS = """
    EditStressDialog {
        .field { height: 2; }
        .field Label { width: 34; }
        .field Input { width: 1fr; margin: 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, preset: StressSpec, changes: Mapping[str, Any]) -> None:
        super().__init__()
        self._preset = preset
        self._changes = changes

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = f"Edit {self._preset.scenario}"
        box.border_subtitle = "enter keep   esc back"
        with box:
            for field, label, low, high in FIELDS:
                value = self._changes.get(field, getattr(self._preset, field))
                with Horizontal(classes="field"):
                    yield Label(label, classes="note")
                    yield Input(str(value), id=field, type="integer", validators=[Integer(low, high)], compact=True)
            with Horizontal(classes="field"):
                yield Label("Only adapters named like", classes="note")
                yield Input(self._changes.get("only", ""), id="only", placeholder="tenant-adapter-*", compact=True)
            yield Label("", id="problem", classes="problem")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button("Keep", id="keep", variant="primary")

    @on(Input.Submitted)
    @on(Button.Pressed, "#keep")
    def _keep(self) -> None:
        changes: dict[str, Any] = {}
        for field, label, low, high in FIELDS:
            box = self.query_one(f"#{field}", Input)
            if not box.is_valid or not box.value:
                self.query_one("#problem", Label).update(f"{label.split(':')[0]}: a number from {low:,} to {high:,}")
                box.focus()
                return
            if int(box.value) != getattr(self._preset, field):
                changes[field] = int(box.value)
        if only := self.query_one("#only", Input).value.strip():
            changes["only"] = only
        self.dismiss(changes)

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)
