"""Hands telemetry to any number of listeners; a slow one loses deltas and gets a fresh snapshot instead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from engine.messages import Snapshot, StartPhase, TelemetryDelta
from engine.telemetry import TelemetryState

_MOST_QUEUED = 100  # ten seconds of telemetry
TelemetryItem = StartPhase | Snapshot | TelemetryDelta


class Listener:
    def __init__(self) -> None:
        self.queue: deque[StartPhase | TelemetryDelta] = deque()
        self.needs_snapshot = True
        self.closed = False
        self.arrived = asyncio.Event()

    def put(self, item: StartPhase | TelemetryDelta) -> None:
        if len(self.queue) >= _MOST_QUEUED:
            self.queue.clear()
            self.needs_snapshot = True
        self.queue.append(item)
        self.arrived.set()


class TelemetryHub:
    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._state: TelemetryState | None = None
        self._phase: StartPhase | None = None

    def publish(self, item: StartPhase | TelemetryDelta) -> None:
        if isinstance(item, StartPhase):
            self._phase = item
        for listener in self._listeners:
            listener.put(item)

    def ready(self, state: TelemetryState) -> None:
        self._state = state
        for listener in self._listeners:
            listener.arrived.set()

    def close(self) -> None:
        """Every listener's iteration ends."""
        for listener in self._listeners:
            listener.closed = True
            listener.arrived.set()

    @contextmanager
    def listen(self) -> Iterator[AsyncIterator[TelemetryItem]]:
        """Phases until the engine is ready, then one snapshot, then deltas that follow it without a gap."""
        listener = Listener()
        if self._phase is not None and self._state is None:
            listener.put(self._phase)
        self._listeners.add(listener)
        try:
            yield self._items(listener)
        finally:
            self._listeners.discard(listener)

    async def _items(self, listener: Listener) -> AsyncIterator[TelemetryItem]:
        while not listener.closed:
            if listener.needs_snapshot and self._state is not None:
                listener.needs_snapshot = False
                # What is queued is in the snapshot already.
                listener.queue.clear()
                yield self._state.snapshot()
                continue
            if listener.queue:
                yield listener.queue.popleft()
                continue
            listener.arrived.clear()
            await listener.arrived.wait()
