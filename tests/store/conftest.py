from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.writer import HistoryWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"


@pytest.fixture
def writer(path: Path) -> Iterator[HistoryWriter]:
    running = HistoryWriter(path)
    running.start().result(10)
    yield running
    running.close()


@pytest.fixture
def filled(writer: HistoryWriter) -> Callable[[], int]:
    """Writes a finished run of 5,000 requests, 3 swaps and 2 samples; its number."""
    from stress.statistics import summarize
    from tests.store.examples import gauges, new_run, request, swap

    def fill() -> int:
        run = writer.begin_run(new_run()).result(10)
        records = [request(seq, adapter=f"tenant-{seq % 7}") for seq in range(5000)]
        writer.add_requests(run.number, records)
        writer.add_swaps(run.number, [swap(seq) for seq in range(1, 4)])
        for t_ns in (1, 2):
            writer.add_sample(run.number, t_ns, gauges(t_ns))
        writer.end_run(run.number, summarize(records, 5000, "finished")).result(10)
        return run.number

    return fill
