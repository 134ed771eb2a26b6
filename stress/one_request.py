"""One streamed chat completion, measured. It is sent once: a retry would hide what the operator wants to see."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp
import httpx
import msgspec

from engine.errors import CoreDiedError
from stress.metrics import ErrorKind, Phase, RequestRecord, Residency, TokenSource
from stress.spec import StressSpec
from stress.sse import OversizedEventError, SseReader

_TEXT_KEPT = 512


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Timing(msgspec.Struct):
    residency: Residency = "unknown"
    switch_ms: float | None = None
    queue_ms: float | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    loraconsole: _Timing | None = None  # our own engine's word on the adapter


class _Error(msgspec.Struct):
    message: str = ""
    code: str | int | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = msgspec.field(default_factory=list)
    usage: _Usage | None = None
    error: _Error | str | None = None


_EVENT = msgspec.json.Decoder(_Event)


class _RequestFailedError(Exception):
    def __init__(self, kind: ErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(slots=True)
class _Seen:
    """What has arrived so far."""

    status: int = 0
    first_token_ns: int = 0
    last_token_ns: int = 0
    chunks: int = 0
    prompt_tokens: int = 0
    usage_tokens: int | None = None
    finish_reason: str = ""
    ended: bool = False
    residency: Residency = "unknown"
    switch_ns: int | None = None
    queue_ns: int | None = None

    def take(self, data: bytes, now_ns: int) -> None:
        """Raises _RequestFailedError for an error event and for what is not JSON of the expected form."""
        if data == b"[DONE]":
            self.ended = True
            return
        try:
            event = _EVENT.decode(data)
        except msgspec.MsgspecError as error:
            raise _RequestFailedError("protocol", f"{error}: {data[:100]!r}") from error
        if event.error is not None:
            raise _answered_error("stream_error", event.error, "an error event without a message")
        for choice in event.choices:
            if choice.delta.content or choice.delta.reasoning_content:
                self.first_token_ns = self.first_token_ns or now_ns
                self.last_token_ns = now_ns
                self.chunks += 1
            self.finish_reason = choice.finish_reason or self.finish_reason
        if event.usage is not None:
            self.prompt_tokens = event.usage.prompt_tokens
            self.usage_tokens = event.usage.completion_tokens
            if event.usage.loraconsole is not None:
                self.residency = event.usage.loraconsole.residency
                self.switch_ns = _ns(event.usage.loraconsole.switch_ms)
                self.queue_ns = _ns(event.usage.loraconsole.queue_ms)

    def check(self, spec: StressSpec, max_tokens: int) -> None:
        """Raises _RequestFailedError unless the answer is whole."""
        if not self.finish_reason or not self.ended:
            missing = "[DONE]" if self.finish_reason else "a finish reason"
            raise _RequestFailedError("truncated", f"the stream ended without {missing} after {self.chunks} pieces")
        if self.finish_reason in ("error", "abort"):
            raise _RequestFailedError("stream_error", f"finish reason {self.finish_reason}")
        if spec.ignore_eos and self.usage_tokens is not None and self.usage_tokens != max_tokens:
            raise _RequestFailedError("short_output", f"{self.usage_tokens} tokens instead of {max_tokens}")


async def measure(
    client: httpx.AsyncClient, spec: StressSpec, seq: int, adapter: str, phase: Phase, max_tokens: int
) -> RequestRecord:
    """Never raises for what the network or the server does; a cancel of the task makes a record too."""
    seen = _Seen()
    kind: ErrorKind = ""
    text = ""
    sent_ns = time.monotonic_ns()
    try:
        async with asyncio.timeout(spec.timeout_s):
            await _stream(client, spec, adapter or spec.model, max_tokens, seen)
        seen.check(spec, max_tokens)
    except _RequestFailedError as error:
        kind, text = error.kind, str(error)
    except asyncio.CancelledError:
        kind, text = "cancelled", "the run was stopped"
    except TimeoutError:
        kind, text = "timeout", f"not finished after {spec.timeout_s:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError) as error:
        kind, text = _network_kind(error), str(error) or type(error).__name__
    except OversizedEventError as error:
        kind, text = "protocol", str(error)
    source: TokenSource = "usage" if seen.usage_tokens is not None else "chunks" if seen.chunks else "none"
    return RequestRecord(
        seq=seq,
        adapter=adapter,
        phase=phase,
        sent_ns=sent_ns,
        end_ns=time.monotonic_ns(),
        ok=not kind,
        first_token_ns=seen.first_token_ns,
        last_token_ns=seen.last_token_ns,
        prompt_tokens=seen.prompt_tokens,
        output_tokens=seen.chunks if seen.usage_tokens is None else seen.usage_tokens,
        chunks=seen.chunks,
        token_source=source,
        finish_reason=seen.finish_reason,
        http_status=seen.status,
        error_kind=kind,
        error_text=text[:_TEXT_KEPT],
        residency=seen.residency if adapter or seen.residency != "unknown" else "base",
        switch_ns=seen.switch_ns,
        queue_ns=seen.queue_ns,
    )


async def _stream(client: httpx.AsyncClient, spec: StressSpec, model: str, max_tokens: int, seen: _Seen) -> None:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": spec.prompt}],
        "max_tokens": max_tokens,
        "temperature": spec.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if spec.ignore_eos:
        body["ignore_eos"] = True
    async with client.stream("POST", f"{spec.base_url.rstrip('/')}/v1/chat/completions", json=body) as response:
        seen.status = response.status_code
        if response.status_code != 200:
            raise _refusal(response.status_code, await response.aread())
        reader = SseReader()
        async for chunk in response.aiter_bytes():
            now_ns = time.monotonic_ns()
            for data in reader.push(chunk):
                seen.take(data, now_ns)


def _ns(value_ms: float | None) -> int | None:
    return None if value_ms is None else round(value_ms * 1e6)


def _refusal(status: int, body: bytes) -> _RequestFailedError:
    try:
        error = _EVENT.decode(body).error
    except msgspec.MsgspecError:
        error = None
    return _answered_error("http", error, f"HTTP {status}: {body[:200].decode(errors='replace')}")


def _answered_error(kind: ErrorKind, error: _Error | str | None, otherwise: str) -> _RequestFailedError:
    """What the server says went wrong; ``otherwise`` when it does not say."""
    if not isinstance(error, _Error):
        return _RequestFailedError(kind, error or otherwise)
    return _RequestFailedError("engine_dead" if error.code == CoreDiedError.code else kind, error.message or otherwise)


def _network_kind(error: Exception) -> ErrorKind:
    # httpx-aiohttp turns every aiohttp.ClientConnectionError, a lost connection too, into httpx.ConnectTimeout:
    # only the cause tells what happened.
    cause = error.__cause__ or error
    if isinstance(cause, TimeoutError):
        return "timeout"
    return "connect" if isinstance(cause, aiohttp.ClientConnectorError | httpx.ConnectError) else "disconnected"
