"""What every request must pass before a route sees it: size, host, key. Plain ASGI, so that nothing is read twice."""

from __future__ import annotations

import ipaddress
import json
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.http_errors import error_body

MOST_BODY_BYTES = 8 << 20
_TOO_LARGE = f"the body is larger than {MOST_BODY_BYTES} bytes"
_OPEN_PATHS = ("/health",)


class Guard:
    """``loopback_only``: refuse Host names other than loopback's, so that a web page that had its name resolved to
    127.0.0.1 can't reach us (DNS rebinding), and requests that a browser sends for another site."""

    def __init__(self, app: ASGIApp, api_key: str, loopback_only: bool) -> None:
        self._app = app
        self._key = api_key.encode()
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BODY_BYTES:
                # FastAPI reads the body; of all exceptions there it lets only this one be what it is.
                raise HTTPException(413, _TOO_LARGE, {"Connection": "close"})
            return message

        await self._app(scope, limited, send)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BODY_BYTES:
            return 413, _TOO_LARGE
        if self._loopback_only:
            if not _is_loopback(headers.get("host", "")):
                return 403, "this server answers to loopback names only"
            origin = headers.get("origin")
            if origin and not _is_loopback(urlsplit(origin).netloc):
                return 403, "requests from other web sites are refused"
        if self._key and scope["path"] not in _OPEN_PATHS:
            given = headers.get("authorization", "").removeprefix("Bearer ").encode()
            if not secrets.compare_digest(given, self._key):
                return 401, "a valid API key is needed: Authorization: Bearer KEY"
        return None


def _is_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _answer(send: Send, status: int, message: str) -> None:
    body = json.dumps(error_body(status, message)).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
