"""Figures from records: pure functions.

A percentile is an order statistic (the smallest value with at least that share of the sample at or below it,
numpy's ``inverted_cdf``): always a latency that some request had. Its 95 % interval is exact, from the binomial
distribution of how many of n values lie below the true quantile, free of any assumption on the shape of the
tail (Hahn and Meeker, Statistical Intervals, 1991, section 5.2). Below ``minimum_sample(q)`` no upper bound exists.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from stress.metrics import Distribution, Outcome, Quantile, RequestRecord, StressSummary

QUANTILES = (0.5, 0.9, 0.95, 0.99)
_MISS = 0.025  # on either side of a 95 % interval


def rank_of(q: float, n: int) -> int:
    """The 1-based rank of quantile ``q`` in ``n`` sorted values. Rounded first: 0.07 * 100 is 7.000000000000001."""
    return min(n, max(1, math.ceil(round(q * n, 9))))


def percentile(ordered: Sequence[float], q: float) -> float | None:
    """Of values in ascending order; None without any."""
    return ordered[rank_of(q, len(ordered)) - 1] if ordered else None


def minimum_sample(q: float) -> int:
    """The smallest n whose percentile ``q`` has a finite upper 95 % bound: 36 at P90, 72 at P95, 368 at P99."""
    return math.ceil(math.log(_MISS) / math.log(q))


def rank_interval(q: float, n: int) -> tuple[int | None, int | None]:
    """1-based ranks of the order statistics that enclose the true quantile ``q`` with 95 % confidence.

    None on a side where the sample is too small for a bound.
    """
    low: int | None = None
    below = 0.0  # P(at most k of n values lie below the quantile)
    # Further left than this there is no mass worth adding.
    first = max(0, int(n * q - 10 * math.sqrt(n * q * (1 - q))) - 10)
    for k in range(first, n + 1):
        below += _binomial(k, n, q)
        if below <= _MISS:
            low = k + 1
        if below >= 1 - _MISS:
            return low, k + 1 if k < n else None
    return low, None


def _binomial(k: int, n: int, p: float) -> float:
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(choices + k * math.log(p) + (n - k) * math.log1p(-p))


def distribution(values_ns: Iterable[float], failures: int = 0) -> Distribution:
    """Of latencies in ns; ``failures`` further requests count as infinitely late."""
    ordered = sorted(values_ns)
    n = len(ordered) + failures

    def at(rank: int | None) -> float | None:
        return ordered[rank - 1] / 1e6 if rank is not None and rank <= len(ordered) else None

    quantiles = []
    for q in QUANTILES:
        if n:
            low, high = rank_interval(q, n)
            quantiles.append(Quantile(q, at(rank_of(q, n)), at(low), at(high)))
    return Distribution(
        count=n,
        mean_ms=sum(ordered) / len(ordered) / 1e6 if ordered and not failures else None,
        min_ms=at(1),
        max_ms=ordered[-1] / 1e6 if ordered and not failures else None,
        quantiles=tuple(quantiles),
    )


def span_ns(records: Sequence[RequestRecord]) -> int:
    """From the first request sent to the last one ended; 0 without records."""
    if not records:
        return 0
    return max(record.end_ns for record in records) - min(record.sent_ns for record in records)


def per_second(count: int, duration_ns: int) -> float:
    return count * 1e9 / duration_ns if duration_ns > 0 else 0.0


def summarize(
    records: Iterable[RequestRecord],
    offered: int,
    outcome: Outcome,
    reason: str = "",
    lag_p99_ms: float | None = None,
    lag_max_ms: float | None = None,
) -> StressSummary:
    """``offered``: how many requests the run was to send, the denominator of what failed or never went out."""
    measured = [record for record in records if record.phase == "measured"]
    ended = [record for record in measured if record.error_kind != "cancelled"]
    good = [record for record in ended if record.ok]
    duration_ns = span_ns(ended)
    tokens = sum(record.output_tokens for record in ended)
    residencies = sorted({record.residency for record in good})
    e2e = [record.e2e_ns for record in good]
    return StressSummary(
        outcome=outcome,
        reason=reason,
        offered=offered,
        ok=len(good),
        failed=len(ended) - len(good),
        cancelled=len(measured) - len(ended),
        duration_ns=duration_ns,
        requests_per_s=per_second(len(good), duration_ns),
        output_tokens_per_s=per_second(tokens, duration_ns),
        output_tokens=tokens,
        ttft=distribution(record.ttft_ns for record in good if record.ttft_ns is not None),
        tpot=distribution(record.tpot_ns for record in good if record.tpot_ns is not None),
        e2e=distribution(e2e),
        e2e_with_failures=distribution(e2e, len(ended) - len(good)),
        ttft_by_residency={
            residency: distribution(
                record.ttft_ns for record in good if record.residency == residency and record.ttft_ns is not None
            )
            for residency in residencies
        },
        errors=dict(Counter(record.error_kind for record in ended if not record.ok)),
        client_lag_p99_ms=lag_p99_ms,
        client_lag_max_ms=lag_max_ms,
    )
