"""Quantiles of a handful of samples, for panels that redraw a few times a second."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Nearest-rank quantile of sorted samples; None of none."""
    if not ordered:
        return None
    return ordered[min(max(-int(-share * len(ordered) // 1) - 1, 0), len(ordered) - 1)]
