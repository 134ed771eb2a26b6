"""100 adapters in a pool that holds 20: every answer right, every counter consistent.

CI runs it on a tiny random Llama, ``python -m tests.bench.hundred_adapters --model FOLDER`` on a real model. First all
requests at once by many workers, then each alone; then a recorded stress test whose history must agree with the
engine's events and with /metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from console.engine_start import default_model
from console.recorder import record_stress
from engine.client import EngineClient
from engine.messages import EngineEvent, Snapshot, TelemetryDelta
from engine.model_folder import read_shape
from engine.packing import pack
from engine.peft import read_manifest
from engine.random_adapters import make_adapters
from store.database import open_reader
from store.queries import find_run, iter_requests, iter_swaps
from stress.spec import StressSpec
from tests.running_engine import RunningEngine, running_engine

ADAPTERS = 100
IN_POOL = 20
KV_FLOOR = 0.25
NEAR_TIE = 1e-4
SUBJECTS = ("rent", "warranty", "delivery", "insurance", "a refund")


@dataclass(frozen=True, slots=True)
class Report:
    """``different``: answers that differ from the same request run alone, first at a token where the best two are not
    a near-tie; must be empty. ``near_ties``: those that differ at one."""

    model: str
    requests: int
    workers: int
    pool_pages: int
    failed: int
    different: tuple[str, ...]
    near_ties: int
    hits: int
    misses: int
    loads: int
    evictions: int
    seconds: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """``alternatives``: the logprobs of the best tokens at each place, by token."""

    tokens: tuple[str, ...]
    alternatives: tuple[dict[str, float], ...]


def pool_pages(model: Path, adapter: Path, page_mib: int) -> int:
    """The smallest pool whose KV floor leaves room for exactly IN_POOL such adapters."""
    shape = read_shape(model, element_bytes=4)
    layout = pack(read_manifest(adapter, shape), 4, page_mib << 20)
    tails_a_page = page_mib // layout.tail_units if layout.tail_units else 1
    needed = IN_POOL * layout.whole_pages + (math.ceil(IN_POOL / tails_a_page) if layout.tail_units else 0)
    return next(n for n in range(needed + 1, 100_000) if n - math.ceil(KV_FLOOR * n) >= needed)


async def ask(http: httpx.AsyncClient, adapter: str, prompt: str, max_tokens: int) -> Answer:
    body = {"model": adapter, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
    body["logprobs"] = 5
    response = await http.post("/v1/completions", json=body)
    response.raise_for_status()
    found = response.json()["choices"][0]["logprobs"]
    return Answer(tuple(found["tokens"]), tuple(found["top_logprobs"]))


def compare(together: Answer, alone: Answer) -> str:
    """``same``, ``near-tie`` or ``different``, by the first token that differs."""
    for mine, other, best in zip(together.tokens, alone.tokens, alone.alternatives, strict=True):
        if mine != other:
            return "near-tie" if abs(best.get(mine, -math.inf) - best[other]) <= NEAR_TIE else "different"
    return "same"


async def run(
    model: Path, folder: Path, requests: int = 500, workers: int = 32, max_tokens: int = 16, rank: int = 16,
    page_mib: int = 16, threads: int = 0,
) -> Report:  # fmt: skip
    """``folder``: for adapters, history and logs."""
    adapters = make_adapters(folder / "adapters", read_shape(model, 2), ADAPTERS, rank)
    pages = pool_pages(model, adapters[0], page_mib)
    async with running_engine(
        folder / "state", engine="unified", model=str(model), adapter_dirs=(str(folder / "adapters"),),
        page_mib=page_mib, pool_mib=pages * page_mib, kv_floor=KV_FLOOR, max_model_len=256, threads=threads,
    ) as engine:  # fmt: skip
        jobs = [
            (adapters[n % ADAPTERS].name, f"Clause {n // ADAPTERS} about {SUBJECTS[n // ADAPTERS % len(SUBJECTS)]}:")
            for n in range(requests)
        ]
        events, follower = _follow(engine)
        limits = httpx.Limits(max_connections=workers)
        async with httpx.AsyncClient(base_url=engine.url, timeout=600, trust_env=False, limits=limits) as http:
            gate = asyncio.Semaphore(workers)

            async def one(job: tuple[str, str]) -> Answer:
                async with gate:
                    return await ask(http, *job, max_tokens)

            begin = time.perf_counter()
            together = await asyncio.gather(*map(one, jobs), return_exceptions=True)
            seconds = time.perf_counter() - begin
            gauges = await engine.gauges(lambda g: g.running + g.waiting == 0)
            failed = sum(isinstance(answer, BaseException) for answer in together)
            verdicts = {}
            for job, answer in zip(jobs, together, strict=True):
                if isinstance(answer, Answer):
                    verdicts[job] = compare(answer, await ask(http, *job, max_tokens))
        await _check_recorded(engine, folder, adapters, requests, workers, max_tokens, events)
        follower.cancel()
    return Report(
        model=model.name, requests=requests, workers=workers, pool_pages=pages, failed=failed,
        different=tuple(f"{adapter}: {prompt}" for (adapter, prompt), v in verdicts.items() if v == "different"),
        near_ties=sum(v == "near-tie" for v in verdicts.values()),
        hits=gauges.hits_total, misses=gauges.misses_total, loads=gauges.loads_total, evictions=gauges.evictions_total,
        seconds=round(seconds, 1), tokens_per_s=round(requests * max_tokens / seconds, 1),
    )  # fmt: skip


def _follow(engine: RunningEngine) -> tuple[list[EngineEvent], asyncio.Task[None]]:
    events: list[EngineEvent] = []

    async def follow() -> None:
        with contextlib.suppress(ConnectionError):
            async for message in engine.client.telemetry():
                if isinstance(message, Snapshot | TelemetryDelta):
                    events.extend(message.events)

    return events, asyncio.create_task(follow())


async def _check_recorded(
    engine: RunningEngine, folder: Path, adapters: list[Path], requests: int, workers: int, max_tokens: int,
    events: list[EngineEvent],
) -> None:  # fmt: skip
    """A recorded stress test: history, events, snapshot and /metrics say the same."""
    before = await engine.gauges(lambda g: g.running + g.waiting == 0)
    spec = StressSpec(
        scenario="hundred-adapters", base_url=engine.url, model="", adapters=tuple(a.name for a in adapters),
        adapter_count=len(adapters), requests=requests, workers=workers, max_tokens=max_tokens, ignore_eos=True,
    )  # fmt: skip
    client = EngineClient(engine.url)
    run_id = await record_stress(spec, client, folder / "history.db", lambda _message: None, asyncio.Event())
    await client.aclose()
    with open_reader(folder / "history.db") as db:
        found = find_run(db, run_id)
        records, swaps = list(iter_requests(db, found.number)), list(iter_swaps(db, found.number))
    assert found.status == "finished", found.reason
    assert len(records) == requests
    assert all(record.ok for record in records), [record.error_text for record in records if not record.ok][:3]
    expected = before.finished_total + requests
    after = await engine.gauges(lambda g: g.running + g.waiting == 0 and g.finished_total >= expected)
    by_residency = {kind: sum(record.residency == kind for record in records) for kind in ("hit", "warm", "cold")}
    by_kind = {kind: sum(event.kind == kind for event in swaps) for kind in ("load", "evict", "read")}
    history = {
        "hits": by_residency["hit"], "misses": by_residency["warm"] + by_residency["cold"],
        "loads": by_kind["load"], "evictions": by_kind["evict"], "reads": by_kind["read"],
    }  # fmt: skip
    counters = {
        "hits": after.hits_total - before.hits_total, "misses": after.misses_total - before.misses_total,
        "loads": after.loads_total - before.loads_total, "evictions": after.evictions_total - before.evictions_total,
        "reads": after.reads_total - before.reads_total,
    }  # fmt: skip
    assert history == counters, f"history says {history}, the engine counted {counters}"
    assert counters["evictions"] > 0
    loads = sum(event.kind == "load" for event in events)
    assert loads == after.loads_total, f"{loads} events of {after.loads_total} loads"
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as http:
        text = (await http.get("/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    metrics = {sample.name: sample.value for sample in samples if not sample.labels}
    for name, value in (
        ("loraconsole:adapter_hits_total", after.hits_total),
        ("loraconsole:adapter_misses_total", after.misses_total),
        ("loraconsole:adapter_loads_total", after.loads_total),
        ("loraconsole:adapter_evictions_total", after.evictions_total),
        ("loraconsole:requests_finished_total", after.finished_total),
    ):
        assert metrics[name] == value, name
    snapshot = await engine.client.snapshot()
    assert after.hits_total == sum(row.hits for row in snapshot.adapters)
    assert after.loads_total == sum(row.loads for row in snapshot.adapters)
    assert after.kv_pages == 0, "KV pages are left after the last request"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hundred_adapters", description=__doc__)
    parser.add_argument("--model", type=Path, help="default: the default model")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report: Any = asyncio.run(run(arguments.model or default_model(), Path(folder), requests=arguments.requests))
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return 1 if report.failed or report.different else 0


if __name__ == "__main__":
    sys.exit(main())
