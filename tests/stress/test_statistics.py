from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stress.metrics import ErrorKind, Phase, RequestRecord
from stress.statistics import QUANTILES, distribution, minimum_sample, percentile, rank_interval, summarize

MS = 1_000_000


def record(
    seq: int, e2e_ms: int = 100, kind: ErrorKind = "", phase: Phase = "measured", sent_ms: int = 0
) -> RequestRecord:
    sent_ns = (1000 + sent_ms) * MS
    return RequestRecord(
        seq=seq, adapter="a", phase=phase, sent_ns=sent_ns, end_ns=sent_ns + e2e_ms * MS, ok=not kind, error_kind=kind,
        first_token_ns=sent_ns + 10 * MS, last_token_ns=sent_ns + 50 * MS, output_tokens=5, residency="hit",
    )  # fmt: skip


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300), st.sampled_from(QUANTILES))
def test_percentile_is_numpys_inverted_cdf(values: list[int], q: float) -> None:
    assert percentile(sorted(values), q) == np.percentile(values, q * 100, method="inverted_cdf")


def test_percentile_of_nothing() -> None:
    assert percentile([], 0.5) is None
    assert distribution([]).quantiles == ()


@pytest.mark.parametrize(("q", "n", "ranks"), [
    (0.99, 500, (490, 500)), (0.99, 5000, (4936, 4964)), (0.99, 100, (97, None)), (0.99, 367, (359, None)),
    (0.99, 368, (360, 368)), (0.5, 1, (None, None)),
])  # fmt: skip
def test_rank_interval_is_the_exact_binomial_one(q: float, n: int, ranks: tuple[int | None, int | None]) -> None:
    assert rank_interval(q, n) == ranks


@pytest.mark.parametrize(("q", "n"), [(0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)])
def test_smallest_sample_with_an_upper_bound(q: float, n: int) -> None:
    assert minimum_sample(q) == n
    assert rank_interval(q, n)[1] is not None
    assert rank_interval(q, n - 1)[1] is None


def test_interval_covers_the_true_quantile_as_often_as_it_says() -> None:
    rng = random.Random(7)
    low, high = rank_interval(0.9, 200)
    assert low is not None
    assert high is not None
    hits = 0
    for _ in range(1000):
        ordered = sorted(rng.expovariate(1.0) for _ in range(200))
        hits += ordered[low - 1] <= -math.log(0.1) <= ordered[high - 1]
    assert 940 <= hits <= 1000


def test_failures_are_infinitely_late() -> None:
    plain = distribution([10 * MS] * 98)
    failing = distribution([10 * MS] * 98, failures=2)
    assert plain.value_ms(0.99) == 10
    assert failing.value_ms(0.95) == 10
    assert failing.value_ms(0.99) is None
    assert failing.mean_ms is None
    assert failing.count == 100


def test_summary() -> None:
    records = [
        record(0, phase="warm-up", e2e_ms=9999),
        record(0, e2e_ms=100),
        record(1, e2e_ms=300, sent_ms=100),
        record(2, kind="http", sent_ms=200),
        record(3, kind="cancelled", e2e_ms=5000),
    ]
    summary = summarize(records, 10, "interrupted", "stopped")
    assert (summary.ok, summary.failed, summary.cancelled, summary.offered) == (2, 1, 1, 10)
    assert summary.duration_ns == 400 * MS
    assert summary.requests_per_s == pytest.approx(5.0)
    assert summary.output_tokens_per_s == pytest.approx(15 / 0.4)
    assert summary.e2e.max_ms == 300
    assert summary.e2e_with_failures.count == 3
    assert summary.ttft.value_ms(0.5) == 10
    assert summary.tpot.value_ms(0.5) == 10
    assert set(summary.ttft_by_residency) == {"hit"}
    assert summary.errors == {"http": 1}


def test_summary_of_nothing() -> None:
    summary = summarize([], 5, "interrupted")
    assert (summary.ok, summary.requests_per_s, summary.duration_ns) == (0, 0.0, 0)
    assert summary.e2e.value_ms(0.99) is None
