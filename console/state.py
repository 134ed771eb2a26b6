"""What the console knows of the engine: its last telemetry, the rates in it, and how the line to it is.

The feed writes, the panels read; nobody else holds state of the engine. What was heard before the line broke
stays, so that the panels can show the last frame.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from enum import Enum

from console.draw.pages import PageModel
from console.rates import Rates
from engine.messages import (
    AdapterRow,
    EngineEvent,
    EngineInfo,
    Gauges,
    RequestRow,
    Snapshot,
    StartPhase,
    TelemetryDelta,
)

KEPT_EVENTS = 500


class Link(Enum):
    """How the line to the engine is. LOST: it answered before and does not now."""

    CONNECTING = "connecting"
    STARTING = "starting"
    LIVE = "live"
    LOST = "lost"


class ConsoleState:
    """``version`` grows with everything heard, ``events_seen`` with every event, so that a panel knows to redraw."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.link = Link.CONNECTING
        self.error = ""
        self.version = 0
        self.events_seen = 0
        self.heard_s = clock()
        self.phase: StartPhase | None = None
        self.info: EngineInfo | None = None
        self.gauges: Gauges | None = None
        self.adapters: dict[int, AdapterRow] = {}
        self.events: deque[EngineEvent] = deque(maxlen=KEPT_EVENTS)
        self.requests: tuple[RequestRow, ...] = ()
        self.pages = PageModel()
        self.rates = Rates()
        self.t_ns = 0
        self._last_event_seq = -1

    def hear(self, item: StartPhase | Snapshot | TelemetryDelta) -> None:
        self.heard_s = self._clock()
        self.version += 1
        self.error = ""
        if isinstance(item, StartPhase):
            self.phase = item
            self.link = Link.STARTING
        elif isinstance(item, Snapshot):
            self._load(item)
            self.link = Link.LIVE
        else:
            self._apply(item)
            self.link = Link.LIVE

    def lose(self, reason: str) -> None:
        """The engine does not answer. What it said last stays on the screen."""
        self.link = Link.LOST if self.info is not None else Link.CONNECTING
        self.error = reason
        self.version += 1

    def adapter_named(self, name: str) -> AdapterRow | None:
        return next((row for row in self.adapters.values() if row.name == name), None)

    def silent_s(self) -> float:
        """Seconds since anything was heard."""
        return self._clock() - self.heard_s

    def uptime_s(self) -> float | None:
        return None if self.info is None else max(self.t_ns - self.info.started_ns, 0) / 1e9

    def wall_ns(self, t_ns: int) -> int:
        """The engine's clock as Unix time."""
        return 0 if self.info is None else self.info.started_wall_ns + t_ns - self.info.started_ns

    def _load(self, snapshot: Snapshot) -> None:
        if self.info is None or self.info.started_ns != snapshot.info.started_ns:
            self.rates = Rates()
            self._last_event_seq = -1
            self.events.clear()
        self.info = snapshot.info
        self.pages = PageModel(snapshot.info.num_pages)
        self.pages.update(snapshot.pages)
        self.adapters = {row.serial: row for row in snapshot.adapters}
        self._common(snapshot.t_ns, snapshot.gauges, snapshot.events, snapshot.requests)

    def _apply(self, delta: TelemetryDelta) -> None:
        self.pages.update(delta.pages)
        for row in delta.adapters:
            self.adapters[row.serial] = row
        for serial in delta.removed:
            self.adapters.pop(serial, None)
        self._common(delta.t_ns, delta.gauges, delta.events, delta.requests)

    def _common(
        self, t_ns: int, gauges: Gauges, events: tuple[EngineEvent, ...], requests: tuple[RequestRow, ...]
    ) -> None:
        self.t_ns = t_ns
        self.gauges = gauges
        self.requests = requests
        self.rates.push(t_ns, gauges)
        for event in events:
            if event.seq > self._last_event_seq:
                self._last_event_seq = event.seq
                self.events.append(event)
                self.events_seen += 1
                self.rates.event(event)
