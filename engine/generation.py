"""From a parsed request to pieces of text: encode, submit, decode as tokens arrive, stop where the text says so."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from engine.byte_tokenizer import ByteTokenizer
from engine.core_link import CoreLink
from engine.errors import AdapterNotFoundError, CoreDiedError, PromptTooLongError, RequestError, UnknownModelError
from engine.messages import AddRequest, EngineInfo, FinishReason, RequestTiming, SamplingParams, TokenLogprob
from engine.server_metrics import ServerMetrics
from engine.stop_strings import StopStrings
from engine.tokenizer import Tokenizer

AnyTokenizer = Tokenizer | ByteTokenizer
# Longer texts are encoded in a thread: the event loop must not stand still for them.
_LONG_TEXT = 20_000


@dataclass(slots=True)
class Piece:
    """What one step added. The last piece has ``finish_reason``."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    finish_reason: FinishReason | None = None


@dataclass(slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int = 0
    timing: RequestTiming | None = field(default=None)


class Generator:
    """Shared by all requests of a server."""

    def __init__(self, link: CoreLink, tokenizer: AnyTokenizer, metrics: ServerMetrics) -> None:
        self.link = link
        self.tokenizer = tokenizer
        self.metrics = metrics

    async def encode(self, encode: Callable[[], list[int]], size: int) -> list[int]:
        """Raises PromptTooLongError before an absurdly long text is encoded at all."""
        if size > 64 * self.max_model_len:  # no token stands for that many characters on average
            raise PromptTooLongError(
                f"the longest sequence here is {self.max_model_len} tokens; this prompt has {size} characters"
            )
        return await asyncio.to_thread(encode) if size > _LONG_TEXT else encode()

    @property
    def max_model_len(self) -> int:
        return self.info.max_model_len

    @property
    def info(self) -> EngineInfo:
        if self.link.state is None:
            raise CoreDiedError("the engine is starting")
        return self.link.state.info

    def check_ids(self, ids: list[int]) -> None:
        if any(not 0 <= token_id < self.tokenizer.vocab_size for token_id in ids):
            raise RequestError(f"token ids go from 0 to {self.tokenizer.vocab_size - 1}", "prompt")

    def adapter_of(self, model: str) -> str:
        """The adapter's name, empty for the base model. Raises UnknownModelError."""
        if model == self.info.model:
            return ""
        state = self.link.state
        if state is None or not any(row.name == model for row in state.adapters.values()):
            raise UnknownModelError(f"the model {model[:200]!r} does not exist", "model")
        return model

    async def run(
        self, prompt_ids: list[int], adapter: str, sampling: SamplingParams, stops: list[str], usage: Usage
    ) -> AsyncIterator[Piece]:
        """Pieces until the end. Leaving the iteration early aborts the request in the core."""
        request_id = secrets.token_hex(8)
        arrival_ns = time.monotonic_ns()
        decoder = self.tokenizer.stream()
        stopper = StopStrings(stops)
        stream = await self.link.submit(AddRequest(request_id, tuple(prompt_ids), adapter, sampling, arrival_ns))
        seen = self.metrics.request(arrival_ns)
        reason: FinishReason | None = None
        try:
            while reason is None:
                delta = await stream.next()
                seen.tokens(len(delta.token_ids), time.monotonic_ns())
                usage.completion_tokens += len(delta.token_ids)
                usage.timing = delta.timing
                text = stopper.push(decoder.push(delta.token_ids))
                reason = delta.finish_reason
                if stopper.hit:
                    reason = "stop"
                elif reason is not None:
                    text += stopper.push(decoder.finish())
                    text += stopper.finish()
                yield Piece(text, delta.token_ids, delta.logprobs, reason)
        except AdapterNotFoundError as error:  # forgotten between the look-up and now
            raise UnknownModelError(str(error), "model") from error
        finally:
            seen.end(reason)
            await self.link.close_stream(request_id)
