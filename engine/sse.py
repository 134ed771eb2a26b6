"""Server-sent events that notice a client who left or stopped reading.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_WRITE_STALL_S = 30.0


class EventStream(Response):
    """Sends ``chunks``, each one or more whole events. When the client leaves, or takes nothing for 30 seconds, the
    iteration is closed, so that its cleanup runs at once."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._chunks = chunks
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = asyncio.create_task(self._write(send))
        watcher = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({writer, watcher}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writer, watcher):
                task.cancel()
            results = await asyncio.gather(writer, watcher, return_exceptions=True)
        if isinstance(results[0], Exception) and not isinstance(results[0], (TimeoutError, OSError)):
            raise results[0]

    async def _write(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for chunk in self._chunks:
                async with asyncio.timeout(_WRITE_STALL_S):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            aclose = getattr(self._chunks, "aclose", None)
            if aclose is not None:
                await aclose()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_disconnect(receive: Receive, work: asyncio.Task[object]) -> bool:
    """Wait for ``work``; True when the client left first, and ``work`` was cancelled."""
    watcher = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({work, watcher}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
    if work.done():
        return False
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return True


def event(data: bytes, name: str = "") -> bytes:
    """``data`` must not hold a line break: JSON never does."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"
