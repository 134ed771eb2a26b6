"""A stress run under way, in words."""

from __future__ import annotations

from console.format import milliseconds, stopwatch
from stress.metrics import Progress


def progress_words(progress: Progress) -> str:
    eta = f"  ETA {stopwatch(progress.eta_s)}" if progress.eta_s is not None else ""
    failed = f"  {progress.failed} FAILED" if progress.failed else ""
    return (
        f"{progress.requests_per_s:.1f} req/s  TTFT p50 {milliseconds(progress.ttft_p50_ms)} "
        f"p99 {milliseconds(progress.ttft_p99_ms)}{failed}{eta}"
    )
