"""A run as a row of a table: of ``runs list`` and of the history screen."""

from __future__ import annotations

import time

from console.format import DASH, clip, count, milliseconds, stopwatch
from store.queries import Run

RUN_COLUMNS = ("run", "started", "scenario", "model", "requests", "time", "tok/s", "TTFT p95", "result")
_NARROW = tuple(name for name in RUN_COLUMNS if name != "model")


# Beside a scenario's name, where a run departs from its numbers.
DEPARTS = "* not as its scenario is defined"


def run_columns(narrow: bool) -> tuple[str, ...]:
    return _NARROW if narrow else RUN_COLUMNS


def run_cells(run: Run, narrow: bool = False) -> tuple[str, ...]:
    """One for each of ``run_columns(narrow)``."""
    cells = _cells(run)
    return tuple(cell for name, cell in zip(RUN_COLUMNS, cells, strict=True) if name in run_columns(narrow))


def _cells(run: Run) -> tuple[str, ...]:
    started = time.strftime("%m-%d %H:%M:%S", time.localtime(run.started_wall_ns / 1e9))
    scenario = f"{run.scenario}*" if run.spec.asked else run.scenario
    head = (str(run.number), started, scenario, clip(run.model, 24))
    summary = run.summary
    if summary is None:
        return (*head, DASH, DASH, DASH, DASH, run.status)
    result = f"{summary.failed} failed" if summary.failed and run.status == "finished" else run.status
    return (
        *head,
        f"{count(summary.ok)}/{count(summary.offered)}",
        stopwatch(summary.duration_ns / 1e9),
        f"{summary.output_tokens_per_s:.1f}",
        milliseconds(summary.ttft.value_ms(0.95)),
        f"{result}, partial" if run.partial else result,
    )
