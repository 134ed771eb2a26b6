"""A small real HTTP server that streams like an engine, and misbehaves when the model's name says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator

from aiohttp import web


def _event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _chunk(text: str, finish: str | None = None) -> bytes:
    return _event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


class SseServer:
    """``seen`` counts requests per model; ``gate`` set lets stalled answers go on."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: Counter[str] = Counter()
        self.most_at_once = 0
        self.bodies: list[dict[str, object]] = []
        self.stalled = asyncio.Event()
        self.gate = asyncio.Event()
        self._now = 0
        self._runner = web.AppRunner(self._app(), shutdown_timeout=0.1)

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        self.gate.set()
        await self._runner.cleanup()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        self.seen[body["model"]] += 1
        try:
            return await self._answer(request, body["model"], body["max_tokens"])
        finally:
            self._now -= 1

    async def _answer(self, request: web.Request, model: str, tokens: int) -> web.StreamResponse:
        if model == "refused":
            return web.json_response({"error": {"message": "no such model", "code": "model_not_found"}}, status=404)
        if model == "dead-core":
            return web.json_response({"error": {"message": "the engine died", "code": "engine_dead"}}, status=503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": keep-alive\n\n" + _chunk(""))
        if model == "stalls":
            self.stalled.set()
            await self.gate.wait()
        for index in range(tokens):
            last = index == tokens - 1
            if model == "cut" and index == tokens // 2:
                assert request.transport is not None
                request.transport.abort()
                return response
            if model == "truncated" and last:
                return response
            if model == "error-event" and last:
                await response.write(_event({"error": {"message": "out of luck", "code": 500}}))
                return response
            await asyncio.sleep(0.001)  # so that requests overlap
            await response.write(_chunk("word ", "length" if last else None))
        if model == "no-terminator":
            return response
        if model == "not-json":
            await response.write(b"data: {nonsense\n\n")
            return response
        if model != "no-usage":
            usage = {"prompt_tokens": 7, "completion_tokens": tokens - 1 if model == "short" else tokens}
            if model.startswith("tenant"):
                usage |= {"loraconsole": {"residency": "warm", "switch_ms": 1.5, "queue_ms": 0.25, "preemptions": 0}}  # type: ignore[dict-item]
            await response.write(_event({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response


@contextlib.asynccontextmanager
async def sse_server() -> AsyncIterator[SseServer]:
    server = SseServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
