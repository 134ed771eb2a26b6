"""The way to an engine over HTTP, for the console and the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from engine.errors import EngineError, from_code
from engine.messages import AdapterAction, Snapshot, StartPhase, TelemetryDelta

# Telemetry comes at least once a second from a live engine; while it starts nothing may come for long.
_SILENCE_S = 30.0
_CONNECT_S = 2.0

_decode_snapshot = msgspec.json.Decoder(Snapshot).decode
_DECODERS: dict[str, Callable[[str], StartPhase | Snapshot | TelemetryDelta]] = {
    "phase": msgspec.json.Decoder(StartPhase).decode,
    "snapshot": _decode_snapshot,
    "delta": msgspec.json.Decoder(TelemetryDelta).decode,
}


class EngineUnreachableError(ConnectionError):
    """Nobody answers there, or not in our words."""


class EngineClient:
    """One engine at ``base_url``. Methods raise EngineUnreachableError, or the EngineError that the engine answered."""

    def __init__(self, base_url: str, api_key: str = "") -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # trust_env off: an engine on this machine is never behind the proxy of the environment.
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            timeout=httpx.Timeout(_SILENCE_S, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=64),
            trust_env=False,
        )

    async def health(self) -> bool:
        """Whether it is ready. Raises EngineUnreachableError."""
        return (await self._get("/health")).status_code == 200

    async def start_status(self) -> tuple[int | None, StartPhase | None]:
        """(process id of the server, phase) while it starts; the phase is None once it is ready."""
        response = await self._get("/health")
        try:
            body = response.json()
            phase = None if response.status_code == 200 else msgspec.convert(body["phase"], StartPhase | None)
            return int(body["pid"]), phase
        except (ValueError, KeyError, TypeError, msgspec.ValidationError):
            return None, None

    async def snapshot(self) -> Snapshot:
        response = _checked(await self._get("/console/snapshot"))
        try:
            return _decode_snapshot(response.content)
        except msgspec.MsgspecError as error:
            raise EngineUnreachableError(f"{self.base_url} is no engine of this version: {error}") from error

    async def models(self) -> list[str]:
        return [entry["id"] for entry in _checked(await self._get("/v1/models")).json()["data"]]

    async def adapter(self, action: AdapterAction, name: str, path: str = "") -> None:
        """add needs ``path``; the engine reads and checks the weights before it answers."""
        if action == "add":
            await self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
        elif action == "unload":
            await self._post("/v1/unload_lora_adapter", {"lora_name": name})
        else:
            await self._post(f"/console/adapters/{quote(name, safe='')}/{action}", {})

    async def count_tokens(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Of a prompt, as the model's chat template joins it."""
        return int((await self._post("/tokenize", {"messages": list(messages)})).json()["count"])

    async def shutdown(self) -> None:
        await self._post("/console/shutdown", {})

    async def chat(
        self, model: str, messages: Sequence[Mapping[str, str]], max_tokens: int, temperature: float
    ) -> AsyncIterator[str]:
        """The answer's text as it is generated. Leaving the iteration aborts the request."""
        body = {
            "model": model, "messages": list(messages), "max_tokens": max_tokens, "temperature": temperature,
            "stream": True,
        }  # fmt: skip
        finished = False
        async with self._stream("POST", "/v1/chat/completions", json=body) as response:
            async for _, data in _events(response):
                if data == "[DONE]":
                    return
                chunk = json.loads(data)
                if "error" in chunk:
                    raise _error(chunk)
                for choice in chunk["choices"]:
                    finished = finished or choice["finish_reason"] is not None
                    if text := choice["delta"].get("content"):
                        yield text
        if not finished:
            raise EngineUnreachableError("the answer broke off")

    async def telemetry(self) -> AsyncIterator[StartPhase | Snapshot | TelemetryDelta]:
        """Phases until it is ready, then a snapshot, then deltas, until the engine closes the line.

        After a gap, for who reads too slowly, comes a fresh snapshot.
        """
        async with self._stream("GET", "/console/events") as response:
            async for name, data in _events(response):
                if (decode := _DECODERS.get(name)) is not None:
                    try:
                        yield decode(data)
                    except msgspec.MsgspecError as error:
                        raise EngineUnreachableError(f"telemetry of another version: {error}") from error

    async def aclose(self) -> None:
        await self._http.aclose()

    # --- private ------------------------------------------------------------------

    async def _get(self, path: str) -> httpx.Response:
        try:
            return await self._http.get(path)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    async def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        try:
            return _checked(await self._http.post(path, json=body))
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _stream(self, method: str, path: str, **rest: Any) -> AsyncIterator[httpx.Response]:
        try:
            async with self._http.stream(method, path, **rest) as response:
                if response.status_code >= 400:
                    await response.aread()
                    _checked(response)
                yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> EngineUnreachableError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return EngineUnreachableError(f"no engine answers at {self.base_url}")
        return EngineUnreachableError(f"the line to {self.base_url} broke: {str(error) or type(error).__name__}")


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, str]]:
    """(event name, data) of a stream of server-sent events whose data is one line each."""
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, line[6:]
        elif not line:
            name = ""


def _checked(response: httpx.Response) -> httpx.Response:
    if response.status_code < 400:
        return response
    try:
        body = response.json()
        if "error" in body:
            raise _error(body)
    except (ValueError, TypeError):
        pass
    raise EngineError(f"status {response.status_code} from {response.request.url.path}")


def _error(body: Mapping[str, Any]) -> EngineError:
    return from_code(str(body["error"].get("code") or ""), str(body["error"].get("message")))
