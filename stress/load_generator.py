"""Closed-loop workers over one HTTP client, in this process alone, so that no screen's work delays a stamp."""

from __future__ import annotations

import asyncio
import os
import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
from httpx_aiohttp import AiohttpTransport

from stress.metrics import Done, Outcome, Phase, Progress, RecordBatch, RequestRecord, Started, StressMessage
from stress.one_request import measure
from stress.spec import StressSpec
from stress.statistics import per_second, percentile
from stress.workload import plan, plan_hash

_REPORT_S = 0.2
_LAG_PROBE_S = 0.01
_LAGS_KEPT = 100_000


def open_client(spec: StressSpec) -> httpx.AsyncClient:
    """Connections for all workers. httpx-aiohttp takes a limit of None as 100 connections, hence the number."""
    limits = httpx.Limits(max_connections=spec.workers + 8, max_keepalive_connections=spec.workers + 8)
    headers = {"authorization": f"Bearer {spec.api_key}"} if spec.api_key else {}
    # Only the deadline of the whole request counts: a slow machine may think for minutes before its first token.
    timeout = httpx.Timeout(spec.timeout_s, connect=min(30.0, spec.timeout_s))
    transport = AiohttpTransport(limits=limits)
    return httpx.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False)


@dataclass(slots=True)
class _Tally:
    """Counts of one phase and its sorted latencies, kept up so that a report costs no sort."""

    phase: Phase
    requests: int
    started_ns: int
    finished: int = 0
    failed: int = 0
    in_flight: int = 0
    tokens: int = 0
    last_error: str = ""
    ttft_ns: list[int] = field(default_factory=list)
    e2e_ns: list[int] = field(default_factory=list)

    def add(self, record: RequestRecord) -> None:
        if record.error_kind == "cancelled":
            return
        self.finished += 1
        self.tokens += record.output_tokens
        if not record.ok:
            self.failed += 1
            self.last_error = record.error_text
            return
        insort(self.e2e_ns, record.e2e_ns)
        if record.ttft_ns is not None:
            insort(self.ttft_ns, record.ttft_ns)


class LoadGenerator:
    """Runs one spec; everything it has to say goes to ``emit``. Call ``stop()`` to end early and keep what there is."""

    def __init__(self, spec: StressSpec, emit: Callable[[StressMessage], None]) -> None:
        self._spec = spec
        self._emit = emit
        self._unsent: list[RequestRecord] = []
        self._lags_ns: list[int] = []
        self._worst_lag_ns = 0
        self._refused_in_a_row = 0
        self._reason = ""
        self._any_ok = False
        self._last_error = ""
        self._workers: list[asyncio.Task[None]] = []

    def stop(self, reason: str) -> None:
        """Requests in flight are cut off and recorded as cancelled."""
        if not self._reason:
            self._reason = reason
            for worker in self._workers:
                worker.cancel()

    async def run(self) -> None:
        spec = self._spec
        self._emit(Started(os.getpid(), time.monotonic_ns(), time.time_ns(), plan_hash(spec)))
        probe = asyncio.create_task(self._probe_lag())
        try:
            async with open_client(spec) as client:
                if spec.warm_up == "each_adapter":
                    await self._phase(client, "warm-up", list(spec.adapters), 1)
                elif spec.warm_up == "base":
                    await self._phase(client, "warm-up", [""] * spec.workers, 1)
                await self._phase(client, "measured", plan(spec), spec.max_tokens)
        finally:
            probe.cancel()
        lags = sorted(self._lags_ns)
        lag_p99_ns = percentile(lags, 0.99)
        outcome: Outcome = "interrupted" if self._reason else "finished" if self._any_ok else "failed"
        self._emit(
            Done(
                outcome,
                self._reason or ("" if self._any_ok else f"no request succeeded: {self._last_error}"),
                None if lag_p99_ns is None else lag_p99_ns / 1e6,
                lags[-1] / 1e6 if lags else None,
            )
        )

    async def _phase(self, client: httpx.AsyncClient, phase: Phase, adapters: list[str], max_tokens: int) -> None:
        if self._reason:
            return
        tally = _Tally(phase, len(adapters), time.monotonic_ns())
        queue = iter(enumerate(adapters))

        async def work() -> None:
            for seq, adapter in queue:
                tally.in_flight += 1
                record = await measure(client, self._spec, seq, adapter, phase, max_tokens)
                tally.in_flight -= 1
                tally.add(record)
                self._unsent.append(record)
                self._watch(record)
                if self._reason or record.error_kind == "cancelled":
                    return

        self._workers = [asyncio.create_task(work()) for _ in range(min(self._spec.workers, len(adapters)))]
        reporter = asyncio.create_task(self._report_regularly(tally))
        try:
            await asyncio.gather(*self._workers, return_exceptions=True)
        finally:
            reporter.cancel()
        for worker in self._workers:
            if not worker.cancelled() and (error := worker.exception()) is not None:
                raise error
        self._report(tally)

    def _watch(self, record: RequestRecord) -> None:
        """Once nobody answers at all, thousands of further refusals would tell nothing."""
        self._any_ok = self._any_ok or (record.ok and record.phase == "measured")
        self._last_error = record.error_text or self._last_error
        lost = record.error_kind in ("connect", "disconnected", "engine_dead")
        self._refused_in_a_row = self._refused_in_a_row + 1 if lost else 0
        if self._refused_in_a_row >= self._spec.workers + 3:
            self.stop(f"the engine does not answer any more: {record.error_text}")

    async def _report_regularly(self, tally: _Tally) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._report(tally)

    def _report(self, tally: _Tally) -> None:
        if self._unsent:
            self._emit(RecordBatch(tuple(self._unsent)))
            self._unsent.clear()
        now_ns = time.monotonic_ns()
        elapsed_ns = now_ns - tally.started_ns
        left = tally.requests - tally.finished
        self._emit(
            Progress(
                t_ns=now_ns,
                phase=tally.phase,
                requests=tally.requests,
                finished=tally.finished,
                failed=tally.failed,
                in_flight=tally.in_flight,
                elapsed_ns=elapsed_ns,
                requests_per_s=per_second(tally.finished - tally.failed, elapsed_ns),
                output_tokens_per_s=per_second(tally.tokens, elapsed_ns),
                ttft_p50_ms=_ms(percentile(tally.ttft_ns, 0.5)),
                ttft_p99_ms=_ms(percentile(tally.ttft_ns, 0.99)),
                e2e_p50_ms=_ms(percentile(tally.e2e_ns, 0.5)),
                e2e_p99_ms=_ms(percentile(tally.e2e_ns, 0.99)),
                eta_s=left * elapsed_ns / tally.finished / 1e9 if tally.finished else None,
                lag_ms=self._worst_lag_ns / 1e6,
                last_error=tally.last_error,
            )
        )
        self._worst_lag_ns = 0

    async def _probe_lag(self) -> None:
        while True:
            before_ns = time.monotonic_ns()
            await asyncio.sleep(_LAG_PROBE_S)
            lag_ns = max(0, time.monotonic_ns() - before_ns - int(_LAG_PROBE_S * 1e9))
            self._worst_lag_ns = max(self._worst_lag_ns, lag_ns)
            if len(self._lags_ns) < _LAGS_KEPT:
                self._lags_ns.append(lag_ns)


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6
