"""The two shapes of an OpenAI answer: chat and text, whole and in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from engine.generation import Piece, Usage
from engine.messages import TokenLogprob


class LogprobFormat:
    """``top``: how many alternatives to show beside each token."""

    def __init__(self, decode: Callable[[Iterable[int]], str], top: int) -> None:
        self._decode = decode
        self._top = top

    def chat(self, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
        return {
            "content": [
                self._token(entry.token_id, entry.logprob)
                | {"top_logprobs": [self._token(*other) for other in entry.top[: self._top]]}
                for entry in entries
            ]
        }

    def text(self, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
        found = list(entries)
        names = [self._decode([entry.token_id]) for entry in found]
        offsets = [sum(map(len, names[:index])) for index in range(len(names))]
        return {
            "tokens": names,
            "token_logprobs": [entry.logprob for entry in found],
            "top_logprobs": [{self._decode([i]): p for i, p in entry.top[: self._top]} for entry in found],
            "text_offset": offsets,
        }

    def _token(self, token_id: int, logprob: float) -> dict[str, Any]:
        text = self._decode([token_id])
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


class Form(Protocol):
    id_prefix: str
    object: str
    chunk_object: str
    opening: dict[str, Any] | None  # the first chunk's choice

    def logprobs(self, tokens: LogprobFormat, piece: Piece) -> dict[str, Any]: ...

    def delta(self, piece: Piece, logprobs: dict[str, Any] | None) -> dict[str, Any]: ...

    def whole(self, piece: Piece, logprobs: dict[str, Any] | None) -> dict[str, Any]: ...


_OPENING = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}


class _Chat:
    id_prefix = "chatcmpl"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"
    opening: dict[str, Any] | None = _OPENING

    def logprobs(self, tokens: LogprobFormat, piece: Piece) -> dict[str, Any]:
        return tokens.chat(piece.logprobs)

    def delta(self, piece: Piece, logprobs: dict[str, Any] | None) -> dict[str, Any]:
        content = {"content": piece.text} if piece.text else {}
        return {"index": 0, "delta": content, "logprobs": logprobs, "finish_reason": piece.finish_reason}

    def whole(self, piece: Piece, logprobs: dict[str, Any] | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": piece.text}
        return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": piece.finish_reason}


class _Text:
    id_prefix = "cmpl"
    object = "text_completion"
    chunk_object = "text_completion"
    opening: dict[str, Any] | None = None

    def logprobs(self, tokens: LogprobFormat, piece: Piece) -> dict[str, Any]:
        return tokens.text(piece.logprobs)

    def whole(self, piece: Piece, logprobs: dict[str, Any] | None) -> dict[str, Any]:
        return {"index": 0, "text": piece.text, "logprobs": logprobs, "finish_reason": piece.finish_reason}

    delta = whole


CHAT: Form = _Chat()
TEXT: Form = _Text()


def usage(found: Usage) -> dict[str, Any]:
    """OpenAI's counts; ``loraconsole`` adds where the adapter was when the request arrived, and what that cost."""
    prompt, completion = found.prompt_tokens, found.completion_tokens
    counts: dict[str, Any] = {
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
    }  # fmt: skip
    if (timing := found.timing) is not None:
        counts["loraconsole"] = {
            "residency": timing.residency,
            "switch_ms": timing.switch_ns / 1e6,
            "queue_ms": max(0, timing.scheduled_ns - timing.arrival_ns) / 1e6,
            "preemptions": timing.preemptions,
        }
    return counts
