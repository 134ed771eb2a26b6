"""Shows the way down while the engine stops: asked, told, forced, checked."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from console.draw.parts import Part
from console.session import Session
from console.widgets.lines import Lines
from engine.supervisor import SupervisorState

_REFRESH_S = 0.1


class StoppingScreen(ModalScreen[None]):
    """Has no keys: whoever pushed it takes it down when the engine is gone."""

    DEFAULT_CSS = """
    StoppingScreen {
        align: center middle;
        background: $background 55%;
        & > .box {
            width: 64; max-width: 96%; height: auto; border: round $warning; border-title-color: $warning;
            background: $surface; padding: 1 2;
        }
    }
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._since_s = time.monotonic()

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = "Stopping the engine"
        with box:
            yield Lines(id="ladder")

    def on_mount(self) -> None:
        self._refresh()
        self.set_interval(_REFRESH_S, self._refresh)

    def _refresh(self) -> None:
        status = self._session.supervised
        waited_s = time.monotonic() - self._since_s
        step = status.reason if status is not None and status.state is SupervisorState.STOPPING else ""
        rows: list[list[Part]] = [
            [(step or "asked to shut down", "bold $warning"), (f"   {waited_s:.1f} s", "$dim")],
            [("after six seconds SIGKILL, to its whole process group", "$dim")],
        ]
        self.query_one("#ladder", Lines).show(rows)
