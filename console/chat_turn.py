"""One prompt and its answer as it streams in, with the times an operator asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from console.format import milliseconds
from engine.client import EngineClient, EngineUnreachableError
from engine.errors import EngineError


@dataclass(slots=True)
class ChatTurn:
    """``pieces`` counts the parts of the stream: one a decode step, so it stands for tokens."""

    model: str
    prompt: str
    clock: Callable[[], float] = time.perf_counter
    answer: str = ""
    pieces: int = 0
    error: str = ""
    done: bool = False
    started_s: float = field(init=False)
    first_s: float | None = None
    last_s: float | None = None

    def __post_init__(self) -> None:
        self.started_s = self.clock()

    def push(self, piece: str) -> None:
        self.last_s = self.clock()
        if self.first_s is None:
            self.first_s = self.last_s
        self.answer += piece
        self.pieces += 1

    @property
    def ttft_ms(self) -> float | None:
        return None if self.first_s is None else (self.first_s - self.started_s) * 1000

    @property
    def tokens_per_s(self) -> float | None:
        """Decode rate: tokens after the first over the time they took."""
        if self.first_s is None or self.last_s is None or self.last_s <= self.first_s:
            return None
        return (self.pieces - 1) / (self.last_s - self.first_s)

    @property
    def words(self) -> str:
        if self.error:
            return self.error
        if self.first_s is None:
            return "no answer" if self.done else f"waiting {self.clock() - self.started_s:.1f} s"
        rate = self.tokens_per_s
        speed = "" if rate is None else f"   {rate:.1f} tok/s"
        return f"TTFT {milliseconds(self.ttft_ms)}{speed}   {self.pieces} tokens"


async def run_turn(client: EngineClient, turn: ChatTurn, max_tokens: int, temperature: float) -> None:
    """Streams the answer into ``turn``; an error ends in ``turn.error``."""
    try:
        messages = [{"role": "user", "content": turn.prompt}]
        async for piece in client.chat(turn.model, messages, max_tokens=max_tokens, temperature=temperature):
            turn.push(piece)
    except (EngineError, EngineUnreachableError) as error:
        turn.error = str(error)
    finally:
        turn.done = True
