"""The engine's state rebuilt from its telemetry: what the server answers and the console draws."""

from __future__ import annotations

from collections import deque

from engine.messages import (
    AdapterRow,
    EngineEvent,
    EngineInfo,
    Gauges,
    PageOwner,
    PageState,
    RequestRow,
    Snapshot,
    TelemetryDelta,
)

EVENTS_KEPT = 500


class TelemetryGapError(Exception):
    """A delta is missing: only a fresh snapshot helps."""


class TelemetryState:
    """Starts with all pages free and no adapter, at sequence number 0: an engine's first delta has number 1.

    ``requests`` are those of the newest delta: the engine sends them whole (a bounded number, running ones first).
    """

    def __init__(self, info: EngineInfo) -> None:
        self.info = info
        self.seq = 0
        self.t_ns = info.started_ns
        self.gauges = Gauges(free_pages=info.num_pages)
        self.pages = [PageState(page, PageOwner.FREE, -1, 0) for page in range(info.num_pages)]
        self.adapters: dict[int, AdapterRow] = {}
        self.events: deque[EngineEvent] = deque(maxlen=EVENTS_KEPT)
        self.requests: tuple[RequestRow, ...] = ()

    def apply(self, delta: TelemetryDelta) -> None:
        """Raises TelemetryGapError and changes nothing when ``delta`` is not the next one."""
        if delta.seq != self.seq + 1:
            raise TelemetryGapError(f"telemetry {delta.seq} follows {self.seq}")
        self.seq = delta.seq
        self.t_ns = delta.t_ns
        self.gauges = delta.gauges
        for page in delta.pages:
            self.pages[page.page] = page
        for row in delta.adapters:
            self.adapters[row.serial] = row
        for serial in delta.removed:
            self.adapters.pop(serial, None)
        self.events.extend(delta.events)
        self.requests = delta.requests

    def snapshot(self) -> Snapshot:
        return Snapshot(
            seq=self.seq,
            t_ns=self.t_ns,
            info=self.info,
            gauges=self.gauges,
            pages=tuple(self.pages),
            adapters=tuple(self.adapters.values()),
            events=tuple(self.events),
            requests=self.requests,
        )

    def load(self, snapshot: Snapshot) -> None:
        """Forget everything and continue from ``snapshot``."""
        self.info = snapshot.info
        self.seq = snapshot.seq
        self.t_ns = snapshot.t_ns
        self.gauges = snapshot.gauges
        self.pages = list(snapshot.pages)
        self.adapters = {row.serial: row for row in snapshot.adapters}
        self.events = deque(snapshot.events, maxlen=EVENTS_KEPT)
        self.requests = snapshot.requests
