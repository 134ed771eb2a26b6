from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from stress.load_generator import LoadGenerator
from stress.metrics import Done, Progress, RecordBatch, RequestRecord, Started, StressMessage
from stress.spec import StressSpec
from tests.stress.sse_server import SseServer, sse_server


@pytest_asyncio.fixture
async def server() -> AsyncIterator[SseServer]:
    async with sse_server() as running:
        yield running


def spec_for(url: str, **changes: Any) -> StressSpec:
    values: dict[str, Any] = {
        "scenario": "test", "requests": 1, "workers": 1, "max_tokens": 4, "base_url": url, "model": "base",
        "timeout_s": 30.0,
    } | changes  # fmt: skip
    return StressSpec(**values).checked()


async def run(spec: StressSpec) -> tuple[list[RequestRecord], list[StressMessage]]:
    messages: list[StressMessage] = []
    await LoadGenerator(spec, messages.append).run()
    batches = [message for message in messages if isinstance(message, RecordBatch)]
    return [record for batch in batches for record in batch.records], messages


async def test_every_request_once_and_never_more_than_the_workers(server: SseServer) -> None:
    names = tuple(f"tenant-{index}" for index in range(5))
    spec = spec_for(server.url, requests=60, workers=8, adapters=names, assignment="round_robin")
    records, messages = await run(spec)
    assert sorted(record.seq for record in records) == list(range(60))
    assert all(record.ok for record in records)
    assert server.seen == dict.fromkeys(names, 12)
    assert 2 <= server.most_at_once <= 8
    assert isinstance(messages[0], Started)
    assert isinstance(messages[-1], Done)
    assert messages[-1].outcome == "finished"
    progress = [message for message in messages if isinstance(message, Progress)]
    assert (progress[-1].finished, progress[-1].failed, progress[-1].in_flight) == (60, 0, 0)
    assert progress[-1].ttft_p99_ms is not None


async def test_record_of_a_good_answer(server: SseServer) -> None:
    [record], _ = await run(spec_for(server.url, adapters=("tenant-0",), temperature=0.2))
    assert record.sent_ns < record.first_token_ns <= record.last_token_ns <= record.end_ns
    assert (record.prompt_tokens, record.output_tokens, record.chunks, record.token_source) == (7, 4, 4, "usage")
    assert (record.residency, record.switch_ns, record.queue_ns) == ("warm", 1_500_000, 250_000)
    assert (record.finish_reason, record.http_status) == ("length", 200)
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("tenant-0", 0.2, 4)
    assert "ignore_eos" not in body


async def test_tokens_are_counted_by_chunks_without_usage(server: SseServer) -> None:
    [record], _ = await run(spec_for(server.url, adapters=("no-usage",)))
    assert record.ok
    assert (record.output_tokens, record.token_source, record.residency) == (4, "chunks", "unknown")


@pytest.mark.parametrize(("name", "kind", "text"), [
    ("refused", "http", "no such model"), ("error-event", "stream_error", "out of luck"),
    ("truncated", "truncated", "finish reason"), ("no-terminator", "truncated", "DONE"),
    ("cut", "disconnected", ""), ("not-json", "protocol", "nonsense"), ("dead-core", "engine_dead", "died"),
])  # fmt: skip
async def test_bad_answers_are_failures(server: SseServer, name: str, kind: str, text: str) -> None:
    [record], messages = await run(spec_for(server.url, adapters=(name,)))
    assert (record.ok, record.error_kind) == (False, kind)
    assert text in record.error_text
    assert isinstance(messages[-1], Done)
    assert messages[-1].outcome == "failed"
    assert server.seen[name] == 1  # no retry


async def test_too_few_tokens_count_only_under_ignore_eos(server: SseServer) -> None:
    [record], _ = await run(spec_for(server.url, adapters=("short",)))
    assert record.ok
    [record], _ = await run(spec_for(server.url, adapters=("short",), ignore_eos=True))
    assert record.error_kind == "short_output"
    assert server.bodies[-1]["ignore_eos"] is True


async def test_stalled_answer_times_out(server: SseServer) -> None:
    [record], _ = await run(spec_for(server.url, adapters=("stalls",), timeout_s=0.2))
    assert record.error_kind == "timeout"


async def test_stop_keeps_what_was_measured(server: SseServer) -> None:
    spec = spec_for(server.url, requests=20, workers=2, adapters=("tenant-0", "stalls"), assignment="round_robin")
    messages: list[StressMessage] = []
    generator = LoadGenerator(spec, messages.append)
    running = asyncio.create_task(generator.run())
    await server.stalled.wait()
    generator.stop("enough")
    await running
    records = [record for message in messages if isinstance(message, RecordBatch) for record in message.records]
    assert {record.error_kind for record in records} <= {"", "cancelled"}
    assert any(record.error_kind == "cancelled" for record in records)
    assert isinstance(messages[-1], Done)
    assert (messages[-1].outcome, messages[-1].reason) == ("interrupted", "enough")


async def test_nobody_there_ends_the_run_early() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        records, messages = await run(spec_for(url, requests=1000, workers=3))
    assert {record.error_kind for record in records} <= {"connect", "cancelled"}
    assert len(records) < 20
    assert isinstance(messages[-1], Done)
    assert messages[-1].outcome == "interrupted"
    assert "does not answer" in messages[-1].reason


async def test_a_dead_core_ends_the_run_early(server: SseServer) -> None:
    records, _ = await run(spec_for(server.url, requests=1000, workers=3, adapters=("dead-core",)))
    assert len(records) < 20


async def test_warm_up_does_not_count(server: SseServer) -> None:
    records, _ = await run(spec_for(server.url, requests=3, adapters=("tenant-0", "tenant-1"), warm_up="each_adapter"))
    assert [record.phase for record in records] == ["warm-up"] * 2 + ["measured"] * 3
    await run(spec_for(server.url, workers=2, adapters=("tenant-0",), warm_up="base"))
    assert server.seen["base"] == 2
