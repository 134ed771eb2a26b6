"""Turns what changed in the core into telemetry, a few times a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice

from engine.adapters import AdapterTable
from engine.event_log import EventLog
from engine.host_tier import HostTier
from engine.messages import Gauges, RequestRow, TelemetryDelta
from engine.pool import PagePool
from engine.residency import Residency
from engine.scheduler import Scheduler

_MOST_REQUEST_ROWS = 64
# Without any change the console still wants to know that the engine lives.
_HEARTBEAT_NS = 1_000_000_000


@dataclass(slots=True)
class StepCounters:
    """Of all steps so far, and the newest one's time and size."""

    steps: int = 0
    step_ms: float = 0.0
    batch_tokens: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    finished: int = 0
    failed: int = 0
    aborted: int = 0


class Publisher:
    """``publish_if_due`` sends at most ``hz`` deltas a second and only what changed; one a second when nothing did."""

    def __init__(
        self,
        table: AdapterTable,
        pool: PagePool,
        host: HostTier,
        residency: Residency,
        scheduler: Scheduler,
        counters: StepCounters,
        events: EventLog,
        hz: float,
        publish: Callable[[TelemetryDelta], None],
    ) -> None:
        self._table = table
        self._pool = pool
        self._host = host
        self._residency = residency
        self._scheduler = scheduler
        self._counters = counters
        self._events = events
        self._period_ns = int(1e9 / hz)
        self._publish = publish
        self._seq = 0
        self._sent_ns = -_HEARTBEAT_NS
        self._sent = Gauges()

    def next_ns(self) -> int:
        """When the next delta is due if nothing else changes."""
        return self._sent_ns + (self._period_ns if self._changed() else _HEARTBEAT_NS)

    def publish_if_due(self, now_ns: int) -> None:
        age = now_ns - self._sent_ns
        if age >= self._period_ns and (age >= _HEARTBEAT_NS or self._changed()):
            self.publish(now_ns)

    def publish(self, now_ns: int) -> None:
        pages = tuple(self._pool.page_state(page) for page in self._pool.drain_dirty())
        changed, removed = self._table.drain_dirty()
        self._seq += 1
        self._sent_ns = now_ns
        self._sent = self._gauges()
        self._publish(
            TelemetryDelta(
                seq=self._seq,
                t_ns=now_ns,
                gauges=self._sent,
                pages=pages,
                adapters=tuple(
                    adapter.row(self._pool.pages_of([adapter.serial]) if adapter.serial in self._pool else 0)
                    for adapter in changed
                ),
                removed=removed,
                events=self._events.drain(),
                requests=self._requests(now_ns),
            )
        )

    def _changed(self) -> bool:
        dirty = self._pool.is_dirty or self._table.is_dirty or len(self._events) > 0
        return dirty or self._gauges() != self._sent

    def _gauges(self) -> Gauges:
        swaps, steps = self._residency.counters, self._counters
        return Gauges(
            running=self._scheduler.num_running,
            waiting=self._scheduler.num_waiting,
            free_pages=self._pool.free_pages,
            kv_pages=self._pool.kv_pages,
            adapter_pages=self._pool.adapter_pages,
            partial_kv_pages=self._pool.partial_kv_pages,
            kv_blocks_used=self._pool.kv_blocks_used,
            kv_tokens=sum(sequence.computed for sequence in self._scheduler.running),
            tail_waste_bytes=self._pool.tail_waste_bytes,
            host_bytes=self._host.used_bytes,
            steps_total=steps.steps,
            step_ms=steps.step_ms,
            batch_tokens=steps.batch_tokens,
            prompt_tokens_total=steps.prompt_tokens,
            generated_tokens_total=steps.generated_tokens,
            finished_total=steps.finished,
            failed_total=steps.failed,
            aborted_total=steps.aborted,
            preemptions_total=self._scheduler.preemptions,
            hits_total=self._scheduler.hits,
            misses_total=self._scheduler.misses,
            loads_total=swaps.loads,
            load_bytes_total=swaps.load_bytes,
            reads_total=swaps.reads,
            evictions_total=swaps.evictions,
        )

    def _requests(self, now_ns: int) -> tuple[RequestRow, ...]:
        running = (sequence.row(now_ns, running=True) for sequence in self._scheduler.running)
        waiting = (sequence.row(now_ns, running=False) for sequence in self._scheduler.in_line())
        return tuple(islice(chain(running, waiting), _MOST_REQUEST_ROWS))
