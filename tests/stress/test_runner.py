from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import psutil
import pytest
import pytest_asyncio

from stress.metrics import Progress, RecordBatch, Started, StressMessage
from stress.runner import run_stress
from stress.spec import SpecError, StressSpec
from tests.stress.sse_server import SseServer, sse_server


@pytest_asyncio.fixture
async def server() -> AsyncIterator[SseServer]:
    async with sse_server() as running:
        yield running


def spec_for(url: str, **changes: Any) -> StressSpec:
    values: dict[str, Any] = {
        "scenario": "test", "requests": 40, "workers": 4, "max_tokens": 4, "base_url": url, "model": "base",
        "adapters": ("tenant-0", "tenant-1"), "timeout_s": 30.0,
    } | changes  # fmt: skip
    return StressSpec(**values)


async def test_whole_run(server: SseServer) -> None:
    messages: list[StressMessage] = []
    summary = await run_stress(spec_for(server.url), messages.append, asyncio.Event())
    assert (summary.outcome, summary.ok, summary.failed, summary.offered) == ("finished", 40, 0, 40)
    assert summary.output_tokens == 160
    assert summary.client_lag_p99_ms is not None
    assert sum(len(message.records) for message in messages if isinstance(message, RecordBatch)) == 40
    assert any(isinstance(message, Progress) for message in messages)


async def test_cancel_ends_within_two_seconds_and_keeps_the_rest(server: SseServer) -> None:
    cancel = asyncio.Event()
    spec = spec_for(server.url, adapters=("tenant-0", "stalls"), assignment="round_robin")
    running = asyncio.create_task(run_stress(spec, lambda _message: None, cancel))
    await server.stalled.wait()
    before = time.monotonic()
    cancel.set()
    summary = await running
    assert time.monotonic() - before < 2
    assert summary.outcome == "interrupted"
    assert summary.reason == "stopped by the operator"
    assert summary.cancelled > 0
    assert summary.failed == 0


async def test_death_of_the_load_generator_keeps_what_came(server: SseServer) -> None:
    pids: list[int] = []
    finished = asyncio.Event()

    def on_message(message: StressMessage) -> None:
        if isinstance(message, Started):
            pids.append(message.pid)
        elif isinstance(message, RecordBatch):
            finished.set()

    spec = spec_for(server.url, adapters=("tenant-0", "stalls"), assignment="round_robin", requests=8, workers=8)
    running = asyncio.create_task(run_stress(spec, on_message, asyncio.Event()))
    await finished.wait()
    os.kill(pids[0], signal.SIGKILL)
    summary = await running
    assert (summary.outcome, summary.ok) == ("interrupted", 4)
    assert "signal 9" in summary.reason


async def test_frozen_load_generator_is_killed(server: SseServer) -> None:
    cancel = asyncio.Event()
    pids: list[int] = []

    def on_message(message: StressMessage) -> None:
        if isinstance(message, Started):
            pids.append(message.pid)

    spec = spec_for(server.url, adapters=("stalls",))
    running = asyncio.create_task(run_stress(spec, on_message, cancel))
    await server.stalled.wait()
    os.kill(pids[0], signal.SIGSTOP)
    cancel.set()
    summary = await running
    assert summary.outcome == "interrupted"


async def test_error_in_the_callback_leaves_no_process(server: SseServer) -> None:
    pids: list[int] = []

    def on_message(message: StressMessage) -> None:
        assert isinstance(message, Started)
        pids.append(message.pid)
        raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="screen"):
        await run_stress(spec_for(server.url, adapters=("stalls",)), on_message, asyncio.Event())
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_bad_spec_starts_nothing() -> None:
    with pytest.raises(SpecError, match="workers"):
        await run_stress(spec_for("http://127.0.0.1:1", workers=0), lambda _message: None, asyncio.Event())


async def test_as_a_command(server: SseServer) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stress", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate(msgspec.json.encode(spec_for(server.url)))
    kinds = [msgspec.json.decode(line)["type"] for line in out.splitlines()]
    assert process.returncode == 0
    assert (kinds[0], kinds[-1]) == ("Started", "Done")


async def test_command_refuses_a_bad_spec() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stress", stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, complaint = await process.communicate(b'{"scenario": 3}\n')
    assert process.returncode == 2
    assert complaint.startswith(b"stress: ")


_PARENT = """
import asyncio, msgspec, sys
from stress.metrics import Started
from stress.runner import run_stress
from stress.spec import StressSpec

def on_message(message):
    if isinstance(message, Started):
        print(message.pid, flush=True)

spec = msgspec.json.decode(sys.argv[1], type=StressSpec)
asyncio.run(run_stress(spec, on_message, asyncio.Event()))
"""


async def test_killed_parent_leaves_no_load_generator(server: SseServer) -> None:
    spec = msgspec.json.encode(spec_for(server.url, adapters=("stalls",))).decode()
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", _PARENT, spec, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    generator = psutil.Process(int(await parent.stdout.readline()))
    await server.stalled.wait()
    parent.kill()
    await parent.wait()
    # In a container without an init process the dead child stays as a zombie.
    with contextlib.suppress(psutil.NoSuchProcess):
        async with asyncio.timeout(5):
            while generator.is_running() and generator.status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.02)
