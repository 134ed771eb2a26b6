"""A run in plain lines: for ``runs show``, the end of ``stress run`` and the history screen."""

from __future__ import annotations

import time

import msgspec

from console.format import DASH, count, milliseconds, stopwatch
from engine.config import GIB
from store.queries import Run
from stress.metrics import Distribution, StressSummary
from stress.scenarios import adapter_words, departures


def run_title(run: Run) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_wall_ns / 1e9))
    partial = ", PARTIAL" if run.partial else ""
    star = "*" if run.spec.asked else ""
    return f"run {run.number}  {run.id}  {run.scenario}{star}  {run.status}{partial}  {started}"


def summary_lines(summary: StressSummary, intervals: bool = True) -> list[str]:
    """Figures with their units. ``intervals``: with each percentile its exact 95 % interval, ``?`` where the sample is
    too small for a bound."""
    lines = [
        f"requests    {count(summary.ok)} of {count(summary.offered)} ok, {count(summary.failed)} failed, "
        f"{count(summary.cancelled)} cut off",
        f"time        {stopwatch(summary.duration_ns / 1e9)}, {summary.requests_per_s:.2f} requests/s, "
        f"{summary.output_tokens_per_s:.1f} output tokens/s",
        _latency("TTFT", summary.ttft, intervals),
        _latency("TPOT", summary.tpot, intervals),
        _latency("E2E", summary.e2e, intervals),
    ]
    for name, found in sorted(summary.ttft_by_residency.items()):
        lines.append(_latency(f"TTFT {name}", found, intervals))
    for kind, number in sorted(summary.errors.items(), key=lambda item: -item[1]):
        lines.append(f"error       {count(number)} x {kind}")
    if summary.reason:
        lines.append(f"ended       {summary.outcome}: {summary.reason}")
    if summary.client_lag_p99_ms is not None:
        lines.append(f"client lag  p99 {milliseconds(summary.client_lag_p99_ms)}")
    return lines


def setting_lines(run: Run) -> list[str]:
    """What was asked for, and what it ran on."""
    spec = run.spec
    facts = msgspec.json.decode(run.environment_json)
    machine, engine = facts.get("machine", {}), facts.get("engine", {})
    memory = f"{machine['memory_bytes'] / GIB:.0f} GiB" if "memory_bytes" in machine else DASH
    changed = departures(spec)
    return [
        *([f"* departs   {', '.join(changed)}"] if changed else []),
        f"asked for   {spec.requests} requests, {spec.workers} workers, {adapter_words(spec)}, "
        f"{spec.assignment.replace('_', ' ')}, {spec.max_tokens} tokens, temperature {spec.temperature:g}, "
        f"seed {spec.seed}",
        f"engine      {run.engine} {engine.get('version', '')}, {run.model}, {engine.get('dtype', '')} on "
        f"{engine.get('device_name', DASH)}, {engine.get('threads', DASH)} thread(s), "
        f"{engine.get('products', DASH)}, {engine.get('num_pages', DASH)} pages",
        f"machine     {machine.get('system', DASH)}, {machine.get('cores', DASH)} cores, {memory}",
    ]


def _latency(name: str, found: Distribution, intervals: bool) -> str:
    if not found.count:
        return f"{name:<11} {DASH}"
    parts = []
    for quantile in found.quantiles:
        value = f"p{quantile.q * 100:.0f} {milliseconds(quantile.value_ms):>7}"
        high = "?" if quantile.high_ms is None else milliseconds(quantile.high_ms)
        low = "?" if quantile.low_ms is None else milliseconds(quantile.low_ms)
        parts.append(f"{value} [{low}, {high}]" if intervals else value)
    return f"{name:<11} " + "  ".join(parts) + f"  n={found.count}"
