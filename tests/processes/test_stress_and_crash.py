"""A stress test whose engine dies ends as interrupted, with what it had."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from console.recorder import record_stress
from engine.demo_adapters import demo_adapter_dir
from store.database import open_reader
from store.queries import find_run, iter_requests
from stress.metrics import Progress, StressMessage
from stress.spec import StressSpec
from tests.running_engine import running_engine


@pytest.mark.parametrize("victim", ["core", "server"])
async def test_the_engine_dies_midway(tmp_path: Path, victim: str) -> None:
    async with running_engine(tmp_path, adapter_dirs=(str(demo_adapter_dir()),)) as engine:
        pid = engine.core_pid if victim == "core" else engine.server_pid
        some = asyncio.Event()

        def hear(message: StressMessage) -> None:
            if isinstance(message, Progress) and message.finished >= 20:
                some.set()

        spec = StressSpec(
            scenario="crash", requests=5000, workers=16, max_tokens=8, base_url=engine.url,
            adapters=("pirate", "acme-support", "finance-risk"),
        )  # fmt: skip
        running = asyncio.create_task(
            record_stress(spec, engine.client, tmp_path / "history.db", hear, asyncio.Event())  # type: ignore[arg-type]
        )
        await asyncio.wait_for(some.wait(), 30)
        os.kill(pid, signal.SIGKILL)
        run_id = await asyncio.wait_for(running, 20)
        with open_reader(tmp_path / "history.db") as db:
            run = find_run(db, run_id)
            good = sum(record.ok for record in iter_requests(db, run.number))
        assert run.status == "interrupted"
        assert run.partial
        assert run.reason
        assert 20 <= good < 5000
        assert run.summary is not None
        assert run.summary.ok == good
