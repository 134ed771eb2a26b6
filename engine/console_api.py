"""What the console reads and does over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Literal

import msgspec
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from engine import __version__
from engine.core_link import CoreLink
from engine.errors import CoreDiedError
from engine.messages import Snapshot, StartPhase, TelemetryDelta
from engine.server_metrics import ServerMetrics
from engine.sse import EventStream, event

_EVENT_NAMES = {StartPhase: "phase", Snapshot: "snapshot", TelemetryDelta: "delta"}
_encode = msgspec.json.Encoder().encode


def router(link: CoreLink, metrics: ServerMetrics, pid: int, shut_down: Callable[[], None]) -> APIRouter:
    api = APIRouter()

    @api.get("/health")
    async def health() -> Response:
        phase = msgspec.to_builtins(link.phase) if link.phase is not None else None
        body = {"status": "ready" if link.ready else "starting", "pid": pid, "phase": phase}
        return JSONResponse(body, 200 if link.ready else 503)

    @api.get("/version")
    async def version() -> dict[str, str]:
        return {"version": __version__}

    @api.get("/metrics")
    async def scrape() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @api.get("/console/snapshot")
    async def snapshot() -> Response:
        if link.state is None:
            raise CoreDiedError("the engine is starting")
        return Response(_encode(link.state.snapshot()), media_type="application/json")

    @api.get("/console/events")
    async def events() -> EventStream:
        return EventStream(_events(link))

    @api.post("/console/adapters/{name}/{action}")
    async def adapter(name: str, action: Literal["load", "evict", "pin", "unpin"]) -> dict[str, str]:
        await link.command(action, name, by="operator")
        return {"adapter": name, "action": action}

    @api.post("/console/shutdown")
    async def shutdown() -> dict[str, str]:
        shut_down()
        return {"status": "stopping"}

    return api


async def _events(link: CoreLink) -> AsyncIterator[bytes]:
    with link.hub.listen() as items:
        async for item in items:
            yield event(_encode(item), _EVENT_NAMES[type(item)])
