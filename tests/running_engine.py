"""A real engine for a test: server and core processes on a free port, supervised, always stopped."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil

from engine.client import EngineClient
from engine.config import EngineConfig
from engine.messages import Gauges
from engine.supervisor import EngineSupervisor, SupervisorState

READY_S = 60.0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RunningEngine:
    def __init__(self, supervisor: EngineSupervisor) -> None:
        self.supervisor = supervisor
        self.url = supervisor.config.base_url
        self.client = EngineClient(self.url, supervisor.config.api_key)

    async def gauges(self, condition: Callable[[Gauges], bool], timeout_s: float = 10.0) -> Gauges:
        """From now on, once ``condition`` holds: telemetry is up to a second old while nothing happens."""
        now_ns = time.monotonic_ns()
        async with asyncio.timeout(timeout_s):
            while (found := await self.client.snapshot()).t_ns < now_ns or not condition(found.gauges):
                await asyncio.sleep(0.02)
            return found.gauges

    @property
    def server_pid(self) -> int:
        assert self.supervisor.status.pid is not None
        return self.supervisor.status.pid

    @property
    def core_pid(self) -> int:
        return tree_of(self.server_pid)[1].pid


@asynccontextmanager
async def running_engine(state_dir: Path, **config: Any) -> AsyncIterator[RunningEngine]:
    """``config``: fields of EngineConfig; the modelled engine unless they say otherwise."""
    values = {"engine": "sim", "port": free_port()} | config
    supervisor = EngineSupervisor(EngineConfig(**values), state_dir)
    engine = RunningEngine(supervisor)
    try:
        await supervisor.start()
        await until(lambda: supervisor.status.state in (SupervisorState.READY, SupervisorState.FATAL), READY_S)
        assert supervisor.status.state is SupervisorState.READY, "\n".join(supervisor.status.log_tail)
        yield engine
    finally:
        await engine.client.aclose()
        await supervisor.stop()


@contextmanager
def served_engine(folder: Path, **config: Any) -> Iterator[str]:
    """The address of an engine without a supervisor, for tests that are not asynchronous."""
    values = EngineConfig(**({"engine": "sim", "port": free_port()} | config))
    path = folder / "config.json"
    path.write_bytes(msgspec.json.encode(values))
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-m", "engine", "--config", str(path)], stdout=log, stderr=log) as process,
    ):
        try:
            _wait_ready(values.base_url, process, folder / "log")
            yield values.base_url
        finally:
            process.terminate()


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not ready within {READY_S} s")


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


def tree_of(pid: int) -> list[psutil.Process]:
    """A process and all its descendants, itself first."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """psutil compares start times: a reused pid is another process."""
    return [p for p in processes if _alive(p)]


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # ended between the two questions
        return False
