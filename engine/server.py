"""The server process: HTTP in front, the core behind a pipe, nothing here touches a device."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from engine import __version__, console_api, http_errors, openai_api
from engine.byte_tokenizer import ByteTokenizer
from engine.config import EngineConfig
from engine.core_link import CoreLink
from engine.death_pipe import leave_at_end_of
from engine.errors import ConfigError, PortInUseError
from engine.generation import AnyTokenizer, Generator
from engine.http_guard import Guard
from engine.messages import CoreFailed
from engine.model_folder import read_model_config
from engine.port import owner_of_port
from engine.server_metrics import ServerMetrics
from engine.tokenizer import Tokenizer

EXIT_CONFIG = 2
EXIT_CORE_DIED = 3
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEADER_BYTES = 64 << 10


class EngineServer(uvicorn.Server):
    """Ends open streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, link: CoreLink) -> None:
        super().__init__(config)
        self._link = link

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again at its end; it was asked for, so the exit status is 0.
        self.shut_down()

    def shut_down(self) -> None:
        self._link.hub.close()
        self.should_exit = True


def bind(config: EngineConfig) -> socket.socket:
    """The listening socket. Raises PortInUseError that names the owner where it can be known."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # Named, since asyncio turns Nagle's algorithm off only for sockets of this protocol, not of "whatever fits". With
    # it a small answer waits up to 40 ms for the client's delayed ACK.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((config.host, config.port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        owner = owner_of_port(config.port)
        raise PortInUseError(
            f"port {config.port} on {config.host}: {error.strerror}{owner}: choose another --port"
        ) from error
    return sock


async def serve(config: EngineConfig, config_path: Path, death_fd: int | None = None) -> int:
    """Run until told to stop. The exit status: 0, or 3 when the core died; raises ConfigError."""
    with bind(config) as sock:
        tokenizer = _tokenizer(config)
        failure: list[CoreFailed] = []

        def core_died(failed: CoreFailed) -> None:
            failure.append(failed)
            server.should_exit = True

        link = CoreLink(config_path, core_died)
        if death_fd is not None:
            leave_at_end_of(death_fd, before=link.kill)
        metrics = ServerMetrics(lambda: link.state)
        app = FastAPI(title="loraconsole", version=__version__, docs_url=None, redoc_url=None)
        http_errors.install(app)
        server = EngineServer(
            uvicorn.Config(
                Guard(app, config.api_key, loopback_only=config.host in _LOOPBACK),
                log_level="warning", access_log=False, lifespan="off", http="h11", ws="none",
                h11_max_incomplete_event_size=_HEADER_BYTES, timeout_keep_alive=75, timeout_graceful_shutdown=2,
            ),
            link,
        )  # fmt: skip
        app.include_router(openai_api.router(Generator(link, tokenizer, metrics)))
        app.include_router(console_api.router(link, metrics, os.getpid(), server.shut_down))
        await link.start()
        try:
            await server.serve(sockets=[sock])
        finally:
            await link.stop()
    if not failure:
        return 0
    if failure[0].permanent:
        raise ConfigError(failure[0].message)
    sys.stderr.write(f"loraconsole: {failure[0].message}\n")
    return EXIT_CORE_DIED


def _tokenizer(config: EngineConfig) -> AnyTokenizer:
    if config.engine == "sim":
        return ByteTokenizer()
    folder = Path(config.model)
    read_model_config(folder, element_bytes=4)  # what is wrong with the folder itself is said first
    return Tokenizer(folder)


def run(config: EngineConfig, config_path: Path, death_fd: int | None) -> int:
    try:
        return asyncio.run(serve(config, config_path, death_fd))
    except ConfigError as error:
        sys.stderr.write(f"loraconsole: {error}\n")
        return EXIT_CONFIG
