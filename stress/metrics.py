"""What one request and one run measured, and what the load generator's process says about them.

All ``*_ns`` stamps are CLOCK_MONOTONIC nanoseconds, comparable with those of an engine on the same machine.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Residency: TypeAlias = Literal["base", "hit", "warm", "cold", "unknown"]
ErrorKind: TypeAlias = Literal[
    "", "connect", "disconnected", "timeout", "http", "stream_error", "truncated", "short_output", "protocol",
    "engine_dead", "cancelled",
]  # fmt: skip
Phase: TypeAlias = Literal["warm-up", "measured"]
TokenSource: TypeAlias = Literal["usage", "chunks", "none"]
Outcome: TypeAlias = Literal["finished", "interrupted", "failed"]


class RequestRecord(Struct, frozen=True, kw_only=True):
    """One request as the client saw it. A stamp that never came is 0.

    ``ok`` means: status 200, no error event, a finish reason, the terminator, and under ignore_eos as many
    tokens as asked for. ``output_tokens`` comes from the server's usage when it sends one, else it counts
    chunks that carried text; ``token_source`` says which. ``residency`` and ``switch_ns`` are the engine's
    word about the adapter at admission, ``queue_ns`` its time from arrival to the first step; ``unknown`` and None
    from an engine that does not tell.
    """

    seq: int
    adapter: str  # empty: the base model
    phase: Phase
    sent_ns: int
    end_ns: int
    ok: bool
    first_token_ns: int = 0
    last_token_ns: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    chunks: int = 0
    token_source: TokenSource = "none"
    finish_reason: str = ""
    http_status: int = 0
    error_kind: ErrorKind = ""
    error_text: str = ""
    residency: Residency = "unknown"
    switch_ns: int | None = None
    queue_ns: int | None = None

    @property
    def ttft_ns(self) -> int | None:
        """From sending to the first non-empty piece of text."""
        return self.first_token_ns - self.sent_ns if self.first_token_ns else None

    @property
    def tpot_ns(self) -> float | None:
        """Mean time of a token after the first; None with fewer than two."""
        if not self.first_token_ns or self.output_tokens < 2:
            return None
        return (self.last_token_ns - self.first_token_ns) / (self.output_tokens - 1)

    @property
    def e2e_ns(self) -> int:
        return self.end_ns - self.sent_ns


class Quantile(Struct, frozen=True):
    """An order statistic in ms with its exact 95 % interval; ``high_ms`` is None when the sample is too small for one.

    ``value_ms`` is None when it falls on a request that never ended (failures count as infinitely late).
    """

    q: float
    value_ms: float | None
    low_ms: float | None
    high_ms: float | None


class Distribution(Struct, frozen=True):
    count: int
    mean_ms: float | None
    min_ms: float | None
    max_ms: float | None
    quantiles: tuple[Quantile, ...]

    def value_ms(self, q: float) -> float | None:
        """The quantile ``q`` of those that were computed, None without data."""
        return next((quantile.value_ms for quantile in self.quantiles if quantile.q == q), None)


class StressSummary(Struct, frozen=True):
    """A run in figures. Warm-up requests and those cut off by a cancel are in no distribution.

    Latencies are of successful requests; ``e2e_with_failures`` counts every failure as infinitely late.
    ``duration_ns`` is from the first request sent to the last one ended.
    """

    outcome: Outcome
    reason: str
    offered: int
    ok: int
    failed: int
    cancelled: int
    duration_ns: int
    requests_per_s: float
    output_tokens_per_s: float
    output_tokens: int
    ttft: Distribution
    tpot: Distribution
    e2e: Distribution
    e2e_with_failures: Distribution
    ttft_by_residency: dict[str, Distribution]
    errors: dict[str, int]
    client_lag_p99_ms: float | None
    client_lag_max_ms: float | None


# --- load generator -> runner, JSON lines -------------------------------------


class Started(Struct, frozen=True, tag=True):
    pid: int
    t_ns: int
    wall_ns: int
    plan_hash: str


class RecordBatch(Struct, frozen=True, tag=True):
    records: tuple[RequestRecord, ...]


class Progress(Struct, frozen=True, tag=True):
    """Several times a second. Rates are over the whole run so far; latencies are of successful requests.

    ``lag_ms`` is how late the load generator's own loop woke, at worst since the last report.
    """

    t_ns: int
    phase: Phase
    requests: int
    finished: int
    failed: int
    in_flight: int
    elapsed_ns: int
    requests_per_s: float
    output_tokens_per_s: float
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    e2e_p50_ms: float | None
    e2e_p99_ms: float | None
    eta_s: float | None
    lag_ms: float
    last_error: str = ""


class Done(Struct, frozen=True, tag=True):
    """The last line. ``reason`` is empty when all requests were sent."""

    outcome: Outcome
    reason: str
    lag_p99_ms: float | None
    lag_max_ms: float | None


StressMessage: TypeAlias = Started | RecordBatch | Progress | Done
