"""The supervisor with real processes and real signals."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from engine.client import EngineClient, EngineUnreachableError
from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.supervisor import EngineSupervisor, SupervisorState, SupervisorStatus, _detached
from tests.running_engine import alive, free_port, running_engine, tree_of, until


async def test_a_killed_core_is_seen_and_restarted(tmp_path: Path) -> None:
    seen: list[SupervisorStatus] = []
    async with running_engine(tmp_path) as engine:
        supervisor = engine.supervisor
        supervisor._on_change = seen.append
        before = tree_of(engine.server_pid)
        os.kill(engine.core_pid, signal.SIGKILL)
        await until(lambda: supervisor.status.state is SupervisorState.BACKOFF)
        assert supervisor.status.exit_code == 3
        assert supervisor.status.reason == "the engine core died (signal SIGKILL)"
        assert any("SIGKILL" in line for line in supervisor.status.log_tail)
        assert supervisor.status.next_start_s > 0
        await supervisor.start()  # now, not when the time is over
        await until(lambda: supervisor.status.state is SupervisorState.READY, 30)
        assert supervisor.status.restarts == 1
        assert not alive(before)
        assert any("times come from a model" in line for line in supervisor.status.log_tail)  # what computes, at start


async def test_a_killed_server_takes_its_core_along(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        tree = tree_of(engine.server_pid)
        assert len(tree) == 2
        os.kill(engine.server_pid, signal.SIGKILL)
        await until(lambda: not alive(tree), 5)
        await until(lambda: engine.supervisor.status.exit_signal == signal.SIGKILL)


async def test_a_frozen_engine_is_killed_on_stop(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        tree = tree_of(engine.server_pid)
        for process in tree:
            process.suspend()
        await engine.supervisor.stop()
        await until(lambda: not alive(tree), 1)
        assert engine.supervisor.status.exit_signal == signal.SIGKILL


async def test_stop_leaves_nothing(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        tree = tree_of(engine.server_pid)
        await engine.supervisor.stop()
        assert not alive(tree)
        assert engine.supervisor.status.exit_code == 0


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"engine": "unified", "model": "/nowhere"}, "/nowhere: no such folder"),
        ({"pool_mib": 16}, "at least 2 pages"),
    ],
)
async def test_what_can_not_work_is_fatal_at_once(tmp_path: Path, config: dict[str, object], words: str) -> None:
    supervisor = EngineSupervisor(EngineConfig(**({"engine": "sim", "port": free_port()} | config)), tmp_path)  # type: ignore[arg-type]
    await supervisor.start()
    await until(lambda: supervisor.status.state is SupervisorState.FATAL, 30)
    assert supervisor.status.exit_code == 2
    assert words in supervisor.status.reason
    await supervisor.stop()


async def test_a_model_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config = EngineConfig(model=str(tmp_path / "model"), port=free_port())
    supervisor = EngineSupervisor(config, tmp_path)
    await supervisor.start()
    await until(lambda: supervisor.status.state is SupervisorState.FATAL, 30)
    assert "no config.json" in supervisor.status.reason
    await supervisor.stop()


async def test_a_port_in_use_names_its_owner_and_kills_nothing(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        supervisor = EngineSupervisor(EngineConfig(engine="sim", port=port), tmp_path)
        await supervisor.start()
        await until(lambda: supervisor.status.state is SupervisorState.FATAL, 30)
        assert f"port {port}" in supervisor.status.reason
        assert f"pid {os.getpid()}" in supervisor.status.reason
        await supervisor.stop()


async def test_detached_it_lives_on_and_can_be_shut_down(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        tree = tree_of(engine.server_pid)
        await engine.supervisor.detach()
        await engine.supervisor.stop()  # nothing of ours any more
        assert await engine.client.health()
        await engine.client.shutdown()
        await until(lambda: not alive(tree), 8)
        _detached.pop().wait()  # here it is our child still


async def test_a_state_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    supervisor = EngineSupervisor(EngineConfig(engine="sim", port=free_port()), tmp_path / "file" / "state")
    await supervisor.start()
    await until(lambda: supervisor.status.state is SupervisorState.FATAL, 5)
    assert "can't be started" in supervisor.status.reason
    await supervisor.stop()


async def test_an_open_host_needs_a_key(tmp_path: Path) -> None:
    supervisor = EngineSupervisor(EngineConfig(engine="sim", host="0.0.0.0"), tmp_path)
    with pytest.raises(ConfigError, match="API key"):
        await supervisor.start()


async def test_nobody_answers() -> None:
    client = EngineClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EngineUnreachableError, match="no engine answers"):
        await client.health()
    await client.aclose()
