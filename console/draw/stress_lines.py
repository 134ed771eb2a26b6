"""A stress run under way: one line for the command line, rows for the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from console.draw.bars import progress as bar
from console.draw.parts import Part
from console.format import DASH, count, milliseconds, percent, stopwatch
from engine.messages import Gauges
from stress.metrics import Progress
from stress.scenarios import departures
from stress.spec import StressSpec

_LABEL = 16


def progress_words(progress: Progress) -> str:
    eta = f"  ETA {stopwatch(progress.eta_s)}" if progress.eta_s is not None else ""
    failed = f"  {progress.failed} FAILED" if progress.failed else ""
    return (
        f"{progress.requests_per_s:.1f} req/s  TTFT p50 {milliseconds(progress.ttft_p50_ms)} "
        f"p99 {milliseconds(progress.ttft_p99_ms)}{failed}{eta}"
    )


def plan_rows(preset: StressSpec, changes: Mapping[str, Any], note: str, adapters: Sequence[str]) -> list[list[Part]]:
    """What a preset would do; what was changed about it stands out, and so does what the engine lacks for it.

    ``adapters``: the names that the engine knows.
    """
    rows: list[list[Part]] = [[(note, "$dim")], []]
    for field, label in (
        ("requests", "requests"), ("workers", "workers"), ("adapter_count", "adapters"), ("max_tokens", "max tokens"),
        ("temperature", "temperature"), ("seed", "seed"),
    ):  # fmt: skip
        changed = changes.get(field)
        value = getattr(preset, field) if changed is None else changed
        style = "$foreground" if changed is None else "bold $accent"
        rows.append([(f"{label:<{_LABEL}}", "$dim"), (f"{value:,}" if isinstance(value, int) else str(value), style)])
        if field == "adapter_count" and (only := changes.get("only")):
            rows[-1].append((f"  named like {only}", "bold $accent"))
        if field == "adapter_count" and (known := known_adapters(adapters, changes)) < value:
            rows[-1].append((f"  the engine knows {known:,}", "$warning"))
    return rows


def known_adapters(adapters: Sequence[str], changes: Mapping[str, Any]) -> int:
    """How many there are to pick from."""
    only = changes.get("only") or "*"
    return sum(fnmatchcase(name, only) for name in adapters)


def progress_rows(progress: Progress, spec: StressSpec, width: int, ascii_only: bool) -> list[list[Part]]:
    share = progress.finished / progress.requests if progress.requests else 0.0
    done, rest = bar(share, max(10, min(50, width - 40)), ascii_only)
    failed_style = "bold $error" if progress.failed else "$foreground"
    phase = "warming up" if progress.phase == "warm-up" else spec.scenario
    elapsed = stopwatch(progress.elapsed_ns / 1e9)
    return [
        [
            (f"{phase}  ", "bold $primary"), (done, "$primary"), (rest, "$free"),
            (f" {percent(share)}", "bold $foreground"), (f"   {elapsed}   ETA {stopwatch(progress.eta_s)}", "$dim"),
        ],
        [(f"not as defined: {', '.join(changed)}", "$warning")] if (changed := departures(spec)) else [],
        _fact(
            "requests", f"{count(progress.finished)} of {count(progress.requests)}", f"{progress.in_flight} in flight",
            (f"{count(progress.failed)} failed", failed_style),
        ),
        _fact("rate", f"{progress.requests_per_s:.2f} requests/s", f"{progress.output_tokens_per_s:.1f} tok/s"),
        _fact("TTFT", f"p50 {milliseconds(progress.ttft_p50_ms)}", f"p99 {milliseconds(progress.ttft_p99_ms)}"),
        _fact("E2E", f"p50 {milliseconds(progress.e2e_p50_ms)}", f"p99 {milliseconds(progress.e2e_p99_ms)}"),
    ]  # fmt: skip


def engine_rows(begun: Gauges | None, now: Gauges | None, swap_words: str) -> list[list[Part]]:
    """What the run did to the engine so far: differences of its counters."""
    if begun is None or now is None:
        return []
    hits, misses = now.hits_total - begun.hits_total, now.misses_total - begun.misses_total
    rate = percent(hits / (hits + misses)) if hits + misses else DASH
    return [
        _fact("hit rate", rate, f"{count(hits)} hits, {count(misses)} misses"),
        _fact(
            "swaps", f"{count(now.loads_total - begun.loads_total)} loads",
            f"{count(now.evictions_total - begun.evictions_total)} evictions",
        ),
        _fact("swap latency", swap_words),
        _fact("preempted", count(now.preemptions_total - begun.preemptions_total)),
    ]  # fmt: skip


def _fact(label: str, *values: str | Part) -> list[Part]:
    parts: list[Part] = [(f"{label:<{_LABEL}}", "$dim")]
    for number, value in enumerate(values):
        if number:
            parts.append(("   ", "$dim"))
        parts.append((value, "$foreground") if isinstance(value, str) else value)
    return parts
