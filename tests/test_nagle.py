"""No socket of ours waits for a delayed ACK: Nagle's algorithm is off at both ends of every kind of connection."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
import uvicorn

from engine.client import EngineClient
from engine.config import EngineConfig
from engine.server import bind
from stress.load_generator import open_client
from stress.scenarios import PRESETS
from tests.running_engine import free_port
from tests.sockets import nodelay_of_connections
from tests.stress.sse_server import sse_server


async def hello(_scope: object, _receive: object, send) -> None:  # type: ignore[no-untyped-def]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_engine_and_the_console(host: str) -> None:
    """uvicorn behind our listening socket, our client before it: two ends in one process."""
    config = EngineConfig(engine="sim", host=host, port=free_port())
    with bind(config) as sock:
        server = uvicorn.Server(uvicorn.Config(hello, lifespan="off", http="h11", log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        client = EngineClient(config.base_url)
        assert await client.health()
        assert nodelay_of_connections(config.port) == [True, True]
        await client.aclose()
        server.should_exit = True
        await serving


async def test_the_load_generator_and_the_servers_of_tests() -> None:
    async with sse_server() as server:
        spec = PRESETS["article-cpu"]
        async with open_client(spec) as client:
            body = {"model": "tenant-0", "max_tokens": 2}
            async with client.stream("POST", f"{server.url}/v1/chat/completions", json=body) as response:
                port = urlsplit(server.url).port
                assert port is not None
                assert nodelay_of_connections(port) == [True, True]
                await response.aread()
