"""A box in the middle that answers one question and gives the answer back."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer | None]):
    """``esc`` leaves without an answer."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 55%;
        & > .box {
            width: 72;
            max-width: 96%;
            height: auto;
            max-height: 94%;
            border: round $primary;
            border-title-color: $primary;
            border-title-style: bold;
            border-subtitle-color: $dim;
            background: $surface;
            padding: 1 2;
        }
        & > .box.-danger { border: round $warning; border-title-color: $warning; }
        & > .box.-bad { border: round $error; border-title-color: $error; }
        .buttons { height: auto; width: 1fr; align-horizontal: right; margin-top: 1; }
        .buttons Button { margin-left: 2; min-width: 14; }
        .note { color: $dim; height: auto; }
        .problem { color: $error; height: auto; }
        Input { margin-bottom: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="dialog.leave", tooltip="Leave without doing anything"),
    ]

    def action_leave(self) -> None:
        self.dismiss(None)
