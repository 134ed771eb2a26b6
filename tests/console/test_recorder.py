from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from console.recorder import RecorderMessage, RecordingTrouble, record_stress
from engine.client import EngineUnreachableError
from engine.messages import AdapterRow, EngineEvent, EngineInfo, Gauges, Snapshot, StartPhase, TelemetryDelta
from store.database import open_reader
from store.errors import HistoryError
from store.queries import find_run, iter_requests, iter_samples, iter_swaps
from stress.metrics import RecordBatch, Started
from stress.spec import StressSpec
from tests.stress.sse_server import SseServer, sse_server

INFO = EngineInfo(
    engine="sim", version="0", model="base", model_path="", architecture="LlamaForCausalLM", device="modelled",
    device_name="none", link="modelled", dtype="float32", threads=1, products="none",
    max_model_len=2048, max_requests=4160, page_bytes=1 << 24, num_pages=8, block_tokens=16, block_bytes=4096,
    kv_floor_pages=2, host_budget_bytes=1 << 30, weights_bytes=0, eviction="cost", pool_policy="unified", core_pid=1,
    started_ns=1, started_wall_ns=1, eos_token_ids=(2,),
)  # fmt: skip
ROW = AdapterRow(0, "tenant-0", "/a", "hbm", "idle", False, 16, ("q_proj",), 100, 1, 0, 0, 0, 0, 0, 0, 0)


class FakeEngine:
    """Telemetry as an engine sends it. ``ending`` is called in place of the next delta, to end it in some way."""

    def __init__(self) -> None:
        self.seq = 0
        self.ending: Callable[[], Any] | None = None
        self.info = INFO
        self.connections = 0
        self.unreachable = False

    def snapshot(self) -> Snapshot:
        old = EngineEvent(1, 5, "load", "tenant-0", "before the run")
        return Snapshot(self.seq, time.monotonic_ns(), self.info, Gauges(), (), (ROW,), (old,))

    async def telemetry(self) -> AsyncIterator[StartPhase | Snapshot | TelemetryDelta]:
        self.connections += 1
        if self.unreachable:
            raise EngineUnreachableError("no engine answers")
        yield self.snapshot()
        while True:
            await asyncio.sleep(0.02)
            if self.ending is not None:
                ending, self.ending = self.ending, None
                answer = ending()
                if answer is None:
                    return
                yield answer
                continue
            self.seq += 1
            now_ns = time.monotonic_ns()
            events = (
                EngineEvent(2 * self.seq, now_ns, "load", "tenant-0", "request", duration_ns=7),
                EngineEvent(2 * self.seq + 1, now_ns, "pin", "tenant-0", "operator"),
            )
            yield TelemetryDelta(self.seq, now_ns, Gauges(loads_total=self.seq), events=events)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[SseServer]:
    async with sse_server() as running:
        yield running


def spec_for(server: SseServer, **changes: Any) -> StressSpec:
    values: dict[str, Any] = {
        "scenario": "test", "requests": 30, "workers": 4, "max_tokens": 4, "base_url": server.url, "model": "base",
        "adapters": ("tenant-0", "tenant-1"), "timeout_s": 30.0,
    } | changes  # fmt: skip
    return StressSpec(**values)


def ignore(_message: RecorderMessage) -> None:
    pass


async def test_whole_run_is_in_the_history(server: SseServer, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    messages: list[RecorderMessage] = []
    run_id = await record_stress(spec_for(server), FakeEngine(), path, messages.append, asyncio.Event())
    db = open_reader(path)
    run = find_run(db, run_id)
    assert (run.status, run.engine, run.model) == ("finished", "sim", "base")
    assert len(list(iter_requests(db, run.number))) == 30
    swaps = list(iter_swaps(db, run.number))
    assert swaps
    assert {swap.kind for swap in swaps} == {"load"}
    assert all(swap.by == "request" for swap in swaps)
    assert list(iter_samples(db, run.number))[-1].gauges.loads_total >= len(swaps)
    environment = msgspec.json.decode(run.environment_json)
    assert environment["engine"]["device"] == "modelled"
    assert [row["name"] for row in environment["adapters"]] == ["tenant-0"]
    assert environment["versions"]["loraconsole"]
    assert any(isinstance(message, RecordBatch) for message in messages)
    assert run.summary is not None
    assert run.summary.ttft_by_residency["warm"].count == 30
    db.close()


async def test_cancel_marks_it_interrupted(server: SseServer, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    cancel = asyncio.Event()
    spec = spec_for(server, adapters=("tenant-0", "stalls"), assignment="round_robin")
    running = asyncio.create_task(record_stress(spec, FakeEngine(), path, ignore, cancel))
    await server.stalled.wait()
    cancel.set()
    db_run = await running
    db = open_reader(path)
    run = find_run(db, db_run)
    assert (run.status, run.reason, run.partial) == ("interrupted", "stopped by the operator", True)
    assert run.summary is not None
    db.close()


@pytest.mark.parametrize("how", ["restarted", "phase", "gone"])
async def test_end_of_the_engine_interrupts_the_run(
    server: SseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("console.recorder._GIVE_UP_S", 0.1)
    monkeypatch.setattr("console.recorder._RETRY_S", 0.06)
    engine = FakeEngine()
    path = tmp_path / "history.db"
    spec = spec_for(server, adapters=("tenant-0", "stalls"), assignment="round_robin")
    running = asyncio.create_task(record_stress(spec, engine, path, ignore, asyncio.Event()))
    await server.stalled.wait()
    if how == "restarted":
        engine.info = msgspec.structs.replace(INFO, started_ns=2)
    elif how == "gone":
        engine.unreachable = True
    phase = StartPhase("weights", "", 0, 0, 0)
    engine.ending = (lambda: phase) if how == "phase" else (lambda: None)
    db = None
    run_id = await running
    db = open_reader(path)
    run = find_run(db, run_id)
    assert run.status == "interrupted"
    assert ("gone" if how == "gone" else "restarted") in run.reason
    db.close()


async def test_broken_line_alone_ends_nothing(server: SseServer, tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.ending = lambda: None
    path = tmp_path / "history.db"
    spec = spec_for(server, requests=1, adapters=("stalls",))
    running = asyncio.create_task(record_stress(spec, engine, path, ignore, asyncio.Event()))
    await server.stalled.wait()
    while engine.connections < 2:
        await asyncio.sleep(0.01)
    server.gate.set()
    run_id = await running
    db = open_reader(path)
    assert find_run(db, run_id).status == "finished"
    db.close()


async def test_nothing_is_sent_without_an_engine_or_a_history(server: SseServer, tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.unreachable = True
    with pytest.raises(EngineUnreachableError):
        await record_stress(spec_for(server), engine, tmp_path / "history.db", ignore, asyncio.Event())
    (tmp_path / "file").touch()
    with pytest.raises(HistoryError):
        await record_stress(spec_for(server), FakeEngine(), tmp_path / "file" / "history.db", ignore, asyncio.Event())
    assert not server.seen
    assert not (tmp_path / "history.db").exists()


async def test_task_cancelled_still_closes_the_run(server: SseServer, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    spec = spec_for(server, adapters=("stalls",))
    running = asyncio.create_task(record_stress(spec, FakeEngine(), path, ignore, asyncio.Event()))
    await server.stalled.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    db = open_reader(path)
    assert find_run(db, "last").status == "interrupted"
    db.close()


async def test_trouble_with_the_disk_does_not_end_the_run(
    server: SseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[RecorderMessage] = []
    path = tmp_path / "history.db"

    def on_progress(message: RecorderMessage) -> None:
        messages.append(message)
        if isinstance(message, Started):
            monkeypatch.setattr("store.writer.insert_sql", lambda _table: "INSERT INTO nowhere VALUES (1)")

    run_id = await record_stress(spec_for(server), FakeEngine(), path, on_progress, asyncio.Event())
    await asyncio.sleep(0)
    assert [message for message in messages if isinstance(message, RecordingTrouble)]
    db = open_reader(path)
    run = find_run(db, run_id)
    assert run.status == "finished"
    assert run.rows_lost >= 30
    assert run.summary is not None
    assert run.summary.ok == 30
    db.close()
