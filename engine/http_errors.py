"""Every error leaves in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from engine.errors import EngineError, OverloadedError, RequestError

_MOST_CHARS = 2000
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def error_body(status: int, message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message[:_MOST_CHARS], "type": kind, "param": param, "code": code}}


def engine_error_body(error: EngineError) -> dict[str, Any]:
    return error_body(error.status, str(error), error.code, error.param if isinstance(error, RequestError) else None)


def install(app: FastAPI) -> None:
    @app.exception_handler(EngineError)
    async def _engine(_request: Request, error: EngineError) -> JSONResponse:
        headers = {"Retry-After": "1"} if isinstance(error, OverloadedError) else None
        return JSONResponse(engine_error_body(error), error.status, headers)

    @app.exception_handler(RequestValidationError)
    async def _validation(_request: Request, error: RequestValidationError) -> JSONResponse:
        message, param = _first(error)
        return JSONResponse(error_body(400, message, "invalid_request", param), 400)

    @app.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(error_body(error.status_code, str(error.detail)), error.status_code, error.headers)

    @app.exception_handler(RecursionError)
    async def _deep(_request: Request, _error: RecursionError) -> JSONResponse:
        return JSONResponse(error_body(400, "the JSON is nested too deeply", "invalid_request"), 400)


def _first(error: RequestValidationError) -> tuple[str, str | None]:
    """The first complaint in one line, without an echo of what was sent."""
    found = error.errors()[0]
    where = [str(part) for part in found["loc"] if part != "body"]
    param = ".".join(where) or None
    message = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "json_invalid":
        return "the body is not valid JSON", None
    return (f"{param}: {message}" if param else message), where[0] if where else None
