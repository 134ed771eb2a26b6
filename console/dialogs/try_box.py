"""Try: a prompt to one adapter, its answer as it comes. Shows that the right adapter answers, and how fast."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from console.chat_turn import ChatTurn, run_turn
from console.session import Session

MAX_TOKENS = 128
TEMPERATURE = 0.2
_REFRESH_S = 0.05


class TryBox(ModalScreen[None]):
    """Lies over the lower half, so that the map above shows the swap that the prompt causes."""

    DEFAULT_CSS = """
    TryBox {
        align: center bottom;
        background: $background 0%;
        & > .box {
            width: 100%; height: 60%; min-height: 12;
            border: round $primary; border-title-color: $primary; border-title-style: bold;
            border-subtitle-color: $dim; background: $surface; padding: 0 1;
        }
        #turns { height: 1fr; scrollbar-size-vertical: 1; }
        .turn { height: auto; margin-bottom: 1; }
        #prompt { height: 3; border: round $frame; background: $background; }
        #prompt:focus { border: round $primary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="try.leave", tooltip="Close; an answer under way is aborted"),
        Binding("ctrl+b", "base", "Base model", id="try.base", tooltip="Ask the base model the same, to compare"),
    ]

    def __init__(self, session: Session, model: str) -> None:
        super().__init__()
        self._session = session
        self._model = model
        self._turn: ChatTurn | None = None

    def compose(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = f"Try {self._model}"
        box.border_subtitle = "enter send   ctrl+b ask the base model the same   esc back"
        with box:
            yield VerticalScroll(id="turns")
            yield Input(placeholder="Ask it something", id="prompt")

    def on_mount(self) -> None:
        self.query_one("#prompt").focus()
        self.set_interval(_REFRESH_S, self._draw_turn)

    @on(Input.Submitted)
    def _send(self, submitted: Input.Submitted) -> None:
        prompt = submitted.value.strip()
        if prompt:
            submitted.input.clear()
            self._ask(self._model, prompt)

    def action_base(self) -> None:
        info = self._session.state.info
        prompt = self.query_one("#prompt", Input).value.strip() or (self._turn.prompt if self._turn else "")
        if info is not None and prompt:
            self.query_one("#prompt", Input).clear()
            self._ask(info.model, prompt)

    @work(exclusive=True)
    async def _ask(self, model: str, prompt: str) -> None:
        turn = self._turn = ChatTurn(model, prompt)
        turns = self.query_one("#turns", VerticalScroll)
        for old in turns.query(".-now"):
            old.remove_class("-now")
        await turns.mount(Static(classes="turn -now"))
        await run_turn(self._session.client, turn, MAX_TOKENS, TEMPERATURE)
        self._draw_turn()

    def _draw_turn(self) -> None:
        turns = self.query_one("#turns", VerticalScroll)
        if self._turn is None or not (shown := turns.query(".-now")):
            return
        shown.last(Static).update(turn_content(self._turn))
        turns.scroll_end(animate=False)

    def action_leave(self) -> None:
        self.dismiss(None)


def turn_content(turn: ChatTurn) -> Content:
    cursor = "" if turn.done else "▌"
    return Content.assemble(
        ("> ", "$dim"),
        (turn.prompt, "bold $foreground"),
        "\n",
        (f"{turn.model}  ", "bold $primary"),
        (turn.words, "$error" if turn.error else "$dim"),
        "\n",
        (turn.answer.strip() + cursor, "$foreground"),
    )
