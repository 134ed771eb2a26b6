from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.client import EngineClient
from engine.demo_adapters import demo_adapter_dir
from engine.errors import AdapterNotFoundError, EngineError
from engine.messages import Snapshot, TelemetryDelta
from engine.telemetry import TelemetryState
from tests.running_engine import RunningEngine, running_engine, until


async def test_events_are_a_snapshot_and_deltas_without_a_gap(engine: RunningEngine) -> None:
    state: TelemetryState | None = None

    async def follow() -> None:
        nonlocal state
        async for message in engine.client.telemetry():
            if isinstance(message, Snapshot):
                state = TelemetryState(message.info)
                state.load(message)
            elif isinstance(message, TelemetryDelta):
                assert state is not None
                state.apply(message)  # raises on a gap
                if state.gauges.finished_total == 20:
                    return

    follower = asyncio.create_task(follow())
    chats = [collect(engine.client, name) for name in ("pirate", "acme-support", "finance-risk", "modelled") * 5]
    assert all(await asyncio.gather(*chats))
    await asyncio.wait_for(follower, 10)
    assert state is not None
    assert state.gauges.hits_total + state.gauges.misses_total == 15
    fresh = await engine.client.snapshot()
    assert {row.name: row.tier for row in fresh.adapters}["pirate"] == "hbm"


async def collect(client: EngineClient, model: str) -> str:
    return "".join([piece async for piece in client.chat(model, [{"role": "user", "content": "hi"}], 8, 0)])


async def test_metrics_agree_with_the_snapshot(engine: RunningEngine) -> None:
    await collect(engine.client, "pirate")
    await engine.client.adapter("evict", "pirate")
    await collect(engine.client, "pirate")
    gauges = await engine.gauges(lambda gauges: gauges.finished_total == 2)
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as http:
        text = (await http.get("/metrics")).text
    found = {s.name: s.value for family in text_string_to_metric_families(text) for s in family.samples if not s.labels}
    assert found["loraconsole:adapter_loads_total"] == gauges.loads_total == 2
    assert found["loraconsole:adapter_evictions_total"] == gauges.evictions_total == 1
    assert found["vllm:generation_tokens_total"] == gauges.generated_tokens_total == 16
    assert found["vllm:time_to_first_token_seconds_count"] == 2


async def test_pin_evict_load_by_http(engine: RunningEngine) -> None:
    async def tier() -> tuple[str, bool]:
        row = next(row for row in (await engine.client.snapshot()).adapters if row.name == "pirate")
        return row.tier, row.pinned

    await engine.client.adapter("pin", "pirate")
    while await tier() != ("hbm", True):
        await asyncio.sleep(0.02)
    await engine.client.adapter("evict", "pirate")
    assert await tier() == ("host", False)
    await engine.client.adapter("load", "pirate")
    while await tier() != ("hbm", False):
        await asyncio.sleep(0.02)
    with pytest.raises(AdapterNotFoundError):
        await engine.client.adapter("pin", "nobody")


async def test_a_key_is_needed_everywhere_but_for_health(tmp_path: Path) -> None:
    async with (
        running_engine(tmp_path, api_key="secret", adapter_dirs=(str(demo_adapter_dir()),)) as engine,
        httpx.AsyncClient(base_url=engine.url, trust_env=False) as http,
    ):
        assert (await http.get("/health")).status_code == 200
        for path in ("/v1/models", "//v1/models", "/metrics", "/console/snapshot", "/%76ersion", "/tokenize"):
            assert (await http.get(path)).status_code == 401, path
            wrong = await http.get(path, headers={"Authorization": "Bearer wrong"})
            assert wrong.status_code == 401
        assert "pirate" in await engine.client.models()
        assert "secret" not in " ".join(psutil.Process(engine.server_pid).cmdline())


async def test_shutdown_ends_with_status_0(engine: RunningEngine) -> None:
    await engine.client.shutdown()
    await until(lambda: engine.supervisor.status.exit_code is not None)
    assert engine.supervisor.status.exit_code == 0


async def test_the_server_has_no_torch(engine: RunningEngine) -> None:
    """Mapped libraries tell, whatever was imported how."""
    maps = Path(f"/proc/{engine.server_pid}/maps").read_text()
    assert "libtorch" not in maps


async def test_a_dead_core_ends_open_streams_with_an_error(engine: RunningEngine) -> None:
    answer = engine.client.chat("pirate", [{"role": "user", "content": "hi"}], 900, 0)
    assert await anext(answer)
    os.kill(engine.core_pid, signal.SIGKILL)
    with pytest.raises((EngineError, ConnectionError)):
        await _exhaust(answer)


async def _exhaust(answer: AsyncIterator[str]) -> None:
    async for _ in answer:
        pass
