"""Rates out of counters: what the last seconds and the last five minutes looked like."""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from console.draw.bars import Column
from console.draw.quantiles import quantile
from console.format import NS_PER_MS, NS_PER_S
from engine.messages import EngineEvent, Gauges

WINDOW_S = 300
_KEPT_S = 2 * WINDOW_S  # a chart shows whole seconds a column, so it may show up to twice the window
_RECENT_S = 60.0
_RECENT_STEP_NS = NS_PER_S // 4  # a finer trail would not change a rate over two seconds


@dataclass(slots=True)
class Second:
    """What happened in one second of the engine's clock."""

    decode_tokens: int = 0
    prefill_tokens: int = 0
    swaps_ms: list[float] = field(default_factory=list)  # sorted


class Rates:
    """Fed with every gauge and event once; answers for the panels. All times are the engine's clock."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, Gauges]] = deque()
        self._seconds: dict[int, Second] = {}
        self._last: Gauges | None = None
        self._now_ns = 0
        self._first_s: int | None = None
        self._last_event_seq = -1
        self.last_swap: EngineEvent | None = None

    def push(self, t_ns: int, gauges: Gauges) -> None:
        self._now_ns = max(self._now_ns, t_ns)
        if self._first_s is None:
            self._first_s = t_ns // NS_PER_S
        if self._last is not None:
            second = self._second(t_ns)
            second.decode_tokens += max(gauges.generated_tokens_total - self._last.generated_tokens_total, 0)
            second.prefill_tokens += max(gauges.prompt_tokens_total - self._last.prompt_tokens_total, 0)
        self._last = gauges
        if not self._recent or t_ns - self._recent[-1][0] >= _RECENT_STEP_NS:
            self._recent.append((t_ns, gauges))
        while self._recent and t_ns - self._recent[0][0] > _RECENT_S * NS_PER_S:
            self._recent.popleft()

    def event(self, event: EngineEvent) -> None:
        """Only finished loads count; an event seen before is skipped, so that a snapshot may repeat some."""
        if event.seq <= self._last_event_seq:
            return
        self._last_event_seq = event.seq
        if event.kind == "load" and event.duration_ns > 0:
            insort(self._second(event.t_ns).swaps_ms, event.duration_ns / NS_PER_MS)
            self.last_swap = event

    def per_second(self, counter: str, over_s: float = 2.0) -> float | None:
        """Growth of a ``*_total`` gauge per second over about the last ``over_s``; None before two samples."""
        pair = self._pair(over_s)
        if pair is None:
            return None
        (old_ns, old), (new_ns, new) = pair
        growth: int = getattr(new, counter) - getattr(old, counter)
        return max(growth, 0) * NS_PER_S / (new_ns - old_ns)

    def per_minute(self, counter: str) -> float | None:
        rate = self.per_second(counter, _RECENT_S)
        return None if rate is None else rate * 60

    def hit_rate(self) -> float | None:
        """Share of adapter uses that found the adapter in the pool, over the last minute; None without a use."""
        pair = self._pair(_RECENT_S)
        if pair is None:
            return None
        (_, old), (_, new) = pair
        hits, misses = new.hits_total - old.hits_total, new.misses_total - old.misses_total
        return hits / (hits + misses) if hits + misses > 0 else None

    def swap_quantiles(self) -> tuple[int, float | None, float | None, float | None]:
        """Number of swaps, P50, P95 and P99 in milliseconds over the window."""
        ordered = sorted(ms for second in self._window().values() for ms in second.swaps_ms)
        return len(ordered), quantile(ordered, 0.5), quantile(ordered, 0.95), quantile(ordered, 0.99)

    def column_s(self, n: int) -> int:
        """Seconds a column of a chart with ``n`` columns: one until the window has filled it once."""
        known_s = self._now_ns // NS_PER_S - self._first_s if self._first_s is not None else 0
        return 1 if known_s < n else max(-(-WINDOW_S // n), 1)

    def swap_columns(self, n: int) -> list[Column]:
        """P50 and P95 of the swaps in each column, oldest first."""
        columns: list[Column] = []
        for bucket in self._buckets(n):
            ordered = sorted(ms for second in bucket for ms in second.swaps_ms)
            p50, p95 = quantile(ordered, 0.5), quantile(ordered, 0.95)
            columns.append(None if p50 is None or p95 is None else (p50, p95))
        return columns

    def token_columns(self, n: int) -> list[Column]:
        """Decode, and decode plus prefill, in tokens a second for each column, oldest first."""
        columns: list[Column] = []
        for bucket in self._buckets(n):
            decode = sum(second.decode_tokens for second in bucket)
            prefill = sum(second.prefill_tokens for second in bucket)
            columns.append((decode / len(bucket), (decode + prefill) / len(bucket)) if bucket else None)
        return columns

    def _pair(self, over_s: float) -> tuple[tuple[int, Gauges], tuple[int, Gauges]] | None:
        if self._last is None or len(self._recent) < 2:
            return None
        newest = (self._now_ns, self._last)
        since_ns = self._now_ns - int(over_s * NS_PER_S)
        oldest = next((sample for sample in self._recent if sample[0] >= since_ns), self._recent[-1])
        return (oldest, newest) if newest[0] > oldest[0] else (self._recent[-2], newest)

    def _second(self, t_ns: int) -> Second:
        key = t_ns // NS_PER_S
        found = self._seconds.get(key)
        if found is None:
            found = self._seconds[key] = Second()
            for old in [k for k in self._seconds if k < key - _KEPT_S]:
                del self._seconds[old]
        return found

    def _window(self) -> dict[int, Second]:
        first = self._now_ns // NS_PER_S - WINDOW_S
        return {key: second for key, second in self._seconds.items() if key > first}

    def _buckets(self, n: int) -> list[list[Second]]:
        """``n`` columns of seconds up to the last complete one.

        Columns start at multiples of their length: sliding borders would make the bars of the past flicker.
        """
        step = self.column_s(n)
        end = self._now_ns // NS_PER_S
        newest = (end - 1) // step
        buckets: list[list[Second]] = []
        for column in range(newest - n + 1, newest + 1):
            keys = range(column * step, min((column + 1) * step, end))
            buckets.append([self._seconds[key] for key in keys if key in self._seconds])
        return buckets
