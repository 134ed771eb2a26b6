"""A run in plain lines: for ``runs show``, the end of ``stress run`` and the history screen."""

from __future__ import annotations

import time

from console.format import DASH, count, milliseconds, stopwatch
from store.queries import Run
from stress.metrics import Distribution, StressSummary


def run_title(run: Run) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_wall_ns / 1e9))
    partial = ", PARTIAL" if run.partial else ""
    return f"run {run.number}  {run.id}  {run.scenario}  {run.status}{partial}  {started}"


def summary_lines(summary: StressSummary) -> list[str]:
    """Figures with their units; a percentile that the sample is too small for has no upper bound and says so."""
    lines = [
        f"requests    {count(summary.ok)} of {count(summary.offered)} ok, {count(summary.failed)} failed, "
        f"{count(summary.cancelled)} cut off",
        f"time        {stopwatch(summary.duration_ns / 1e9)}, {summary.requests_per_s:.2f} requests/s, "
        f"{summary.output_tokens_per_s:.1f} output tokens/s",
        _latency("TTFT", summary.ttft),
        _latency("TPOT", summary.tpot),
        _latency("E2E", summary.e2e),
    ]
    for name, found in sorted(summary.ttft_by_residency.items()):
        lines.append(_latency(f"TTFT {name}", found))
    for kind, number in sorted(summary.errors.items(), key=lambda item: -item[1]):
        lines.append(f"error       {count(number)} x {kind}")
    if summary.reason:
        lines.append(f"ended       {summary.outcome}: {summary.reason}")
    if summary.client_lag_p99_ms is not None:
        lines.append(f"client lag  p99 {milliseconds(summary.client_lag_p99_ms)}")
    return lines


def _latency(name: str, found: Distribution) -> str:
    if not found.count:
        return f"{name:<11} {DASH}"
    parts = []
    for quantile in found.quantiles:
        high = "?" if quantile.high_ms is None else milliseconds(quantile.high_ms)
        low = "?" if quantile.low_ms is None else milliseconds(quantile.low_ms)
        parts.append(f"p{quantile.q * 100:.0f} {milliseconds(quantile.value_ms)} [{low}, {high}]")
    return f"{name:<11} " + "  ".join(parts) + f"  n={found.count}"
