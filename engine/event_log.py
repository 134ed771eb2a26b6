"""What happened and why, numbered, until the telemetry takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from engine.messages import EngineEvent, EventKind

# The telemetry takes events several times a second; this only bounds a flood between two of its turns.
_MOST_KEPT = 20_000


class EventLog:
    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._seq = 0
        self._events: deque[EngineEvent] = deque(maxlen=_MOST_KEPT)

    def add(self, kind: EventKind, adapter: str, by: str, detail: str = "", **numbers: Any) -> None:
        """``numbers``: the other fields of EngineEvent."""
        self._seq += 1
        self._events.append(EngineEvent(self._seq, self._now_ns(), kind, adapter, by, detail, **numbers))

    def drain(self) -> tuple[EngineEvent, ...]:
        events = tuple(self._events)
        self._events.clear()
        return events

    def __len__(self) -> int:
        return len(self._events)
