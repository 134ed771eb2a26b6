"""The adapters table: who is registered, where each one's weights are, and who is waiting for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from engine.errors import AdapterExistsError, AdapterNotFoundError
from engine.messages import AdapterRow, AdapterState, Tier
from engine.min_set import MinSet
from engine.packing import AdapterLayout
from engine.peft import AdapterManifest

# Enough for a P95 of what an operator looks at now, few enough to sort with every telemetry message.
_SWAPS_KEPT = 256
# A use counts half after this long: the chance of being wanted soon fades with it.
_USE_HALF_LIFE_NS = 30_000_000_000


class Place(Enum):
    """Of the host image and of the pool copy alike."""

    ABSENT = 0
    COMING = 1
    HERE = 2


@dataclass(slots=True, eq=False)
class Adapter:
    """``want_order``: place in the line of a load that an operator asked for; requests have places of their own.

    ``queue`` holds the order numbers of its waiting requests, ``running`` counts those that own KV blocks. While
    either copy is COMING or ``running`` is not 0 the adapter is busy: it can neither be evicted nor forgotten.
    """

    serial: int
    name: str
    manifest: AdapterManifest
    layout: AdapterLayout
    host: Place = Place.ABSENT
    pool: Place = Place.ABSENT
    pinned: bool = False
    error_code: str = ""
    error: str = ""
    content_hash: str = ""
    queue: MinSet = field(default_factory=MinSet)
    running: int = 0
    want_order: int | None = None
    wanted_ns: int = 0
    wanted_by: str = ""
    read_ns: int = 0  # of the swap under way: how long its read took
    copy_asked_ns: int = 0
    hits: int = 0
    misses: int = 0
    loads: int = 0
    evictions: int = 0
    last_used_ns: int = 0
    swaps_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_SWAPS_KEPT))
    _uses: float = 0.0
    _uses_ns: int = 0

    @property
    def wanted(self) -> bool:
        """Whether it should come to the pool, and is not there or on its way yet."""
        return self.pool is Place.ABSENT and (self.want_order is not None or len(self.queue) > 0)

    @property
    def order(self) -> int:
        """Its place in the line: that of its oldest waiting request, or of the operator's wish. Only while wanted."""
        orders = [order for order in (self.queue.smallest, self.want_order) if order is not None]
        return min(orders)

    @property
    def busy(self) -> bool:
        return self.running > 0 or self.pool is Place.COMING or self.host is Place.COMING

    @property
    def tier(self) -> Tier:
        if self.pool is Place.HERE:
            return "hbm"
        return "host" if self.host is Place.HERE else "disk"

    @property
    def state(self) -> AdapterState:
        if self.pool is Place.COMING:
            return "copying"
        if self.host is Place.COMING:
            return "reading"
        if self.running:
            return "active"
        return "failed" if self.error else "idle"

    def touch(self, now_ns: int) -> None:
        """A request uses it."""
        self._uses = self.recent_uses(now_ns) + 1
        self._uses_ns = self.last_used_ns = now_ns

    def recent_uses(self, now_ns: int) -> float:
        """Uses, each halved every 30 seconds: an exponential average in proportion to the rate of its requests."""
        age = max(0, now_ns - self._uses_ns)
        return self._uses * float(2.0 ** (-age / _USE_HALF_LIFE_NS))

    def row(self, pages: int) -> AdapterRow:
        swaps = sorted(self.swaps_ms)
        return AdapterRow(
            serial=self.serial,
            name=self.name,
            path=str(self.manifest.folder),
            tier=self.tier,
            state=self.state,
            pinned=self.pinned,
            rank=self.manifest.rank,
            modules=self.manifest.modules,
            bytes=self.layout.payload_bytes,
            pages=pages,
            running=self.running,
            waiting=len(self.queue),
            hits=self.hits,
            misses=self.misses,
            loads=self.loads,
            evictions=self.evictions,
            last_used_ns=self.last_used_ns,
            swap_p50_ms=nearest_rank(swaps, 0.50),
            swap_p95_ms=nearest_rank(swaps, 0.95),
            last_swap_ms=self.swaps_ms[-1] if self.swaps_ms else None,
            content_hash=self.content_hash,
            error=self.error,
        )


def nearest_rank(ascending: list[float], q: float) -> float | None:
    """The smallest value that at least a share ``q`` of all reaches; None of nothing."""
    return ascending[max(0, -int(-q * len(ascending) // 1) - 1)] if ascending else None


class AdapterTable:
    """Names are unique, serials are never used twice."""

    def __init__(self) -> None:
        self._by_serial: dict[int, Adapter] = {}
        self._by_name: dict[str, Adapter] = {}
        self._next_serial = 0
        self._dirty: set[int] = set()
        self._removed: list[int] = []

    def register(self, name: str, manifest: AdapterManifest, layout: AdapterLayout) -> Adapter:
        """Known, on disk. Raises AdapterExistsError."""
        if name in self._by_name:
            path = self._by_name[name].manifest.folder
            raise AdapterExistsError(f"adapter {name!r} is registered already, from {path}")
        adapter = Adapter(self._next_serial, name, manifest, layout)
        self._next_serial += 1
        self._by_serial[adapter.serial] = self._by_name[name] = adapter
        self._dirty.add(adapter.serial)
        return adapter

    def remove(self, adapter: Adapter) -> None:
        assert not adapter.busy
        assert not adapter.queue
        assert adapter.host is adapter.pool is Place.ABSENT
        del self._by_serial[adapter.serial], self._by_name[adapter.name]
        self._dirty.discard(adapter.serial)
        self._removed.append(adapter.serial)

    def get(self, name: str) -> Adapter:
        """Raises AdapterNotFoundError."""
        try:
            return self._by_name[name]
        except KeyError:
            raise AdapterNotFoundError(f"no adapter is called {name!r}") from None

    def find(self, name: str) -> Adapter | None:
        return self._by_name.get(name)

    def __getitem__(self, serial: int) -> Adapter:
        return self._by_serial[serial]

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._by_serial.values())

    def __len__(self) -> int:
        return len(self._by_serial)

    def mark_dirty(self, adapter: Adapter) -> None:
        """Its row changed."""
        self._dirty.add(adapter.serial)

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty or self._removed)

    def drain_dirty(self) -> tuple[list[Adapter], tuple[int, ...]]:
        """Adapters whose rows changed and serials that were removed since the last call."""
        dirty = [self._by_serial[serial] for serial in sorted(self._dirty)]
        removed = tuple(self._removed)
        self._dirty.clear()
        self._removed.clear()
        return dirty, removed


Residency = Literal["base", "hit", "warm", "cold"]


def residency_of(adapter: Adapter | None) -> Residency:
    """Where a request that arrives now finds its adapter: in the pool, in host memory, or on disk."""
    if adapter is None:
        return "base"
    if adapter.pool is Place.HERE:
        return "hit"
    return "warm" if adapter.host is Place.HERE else "cold"
