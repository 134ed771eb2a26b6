from __future__ import annotations

from pathlib import Path

from tests.bench.hundred_adapters import run
from tests.engine.oracle import tiny_llama
from tests.engine.test_tokenizer import TEMPLATE, byte_level, write_folder


async def test_hundred_adapters_in_a_pool_of_twenty(tmp_path: Path) -> None:
    """No failure, every greedy answer as if alone, and one story in events, metrics and history."""
    model = write_folder(tiny_llama(tmp_path / "model"), byte_level(), chat_template=TEMPLATE)
    report = await run(model, tmp_path, rank=8, page_mib=1, threads=1)
    assert report.failed == 0
    assert report.different == ()
    assert report.near_ties <= 5
    assert report.hits + report.misses == report.requests
    assert report.evictions >= 80, "the pool was not under pressure"
