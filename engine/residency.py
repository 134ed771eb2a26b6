"""Brings adapters from disk to host memory to the pool, and decides who leaves for whom.

Nothing here waits: ``advance`` starts what can start now, ``on_transfer`` takes up what ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.adapters import Adapter, AdapterTable, Place
from engine.event_log import EventLog
from engine.eviction import Policy, ReloadCost, fewest_victims, victims_in_order
from engine.executor import Executor, TransferDone
from engine.host_tier import HostTier
from engine.messages import PageOwner
from engine.pool import PagePool, Room

# A read that no request waits for comes after all that requests wait for.
_LAST = 1 << 62


def _order(adapter: Adapter) -> int:
    return adapter.order if adapter.wanted else _LAST


@dataclass(slots=True)
class SwapCounters:
    loads: int = 0
    load_bytes: int = 0
    reads: int = 0
    evictions: int = 0


class Residency:
    """``limit_pages``: what all adapters together may hold; the rest of the pool is KV's alone (the KV floor)."""

    def __init__(
        self,
        table: AdapterTable,
        pool: PagePool,
        host: HostTier,
        limit_pages: int,
        policy: Policy,
        executor: Executor,
        events: EventLog,
    ) -> None:
        self._table = table
        self._pool = pool
        self._host = host
        self._limit_pages = limit_pages
        self._policy = policy
        self._executor = executor
        self._events = events
        self._cost = ReloadCost()
        self._wanted: dict[int, None] = {}  # in the pool
        self._unread: dict[int, None] = {}  # in host memory
        self.counters = SwapCounters()
        self.missing_pages = 0  # what the first in line lacks though all idle adapters left: a reason to compact

    # --- wishes ---------------------------------------------------------------

    def want(self, adapter: Adapter, by: str, now_ns: int) -> None:
        """Bring it to the pool. Its read starts with the next ``advance``, long before a request is scheduled."""
        if adapter.pool is not Place.ABSENT or adapter.serial in self._wanted:
            return
        adapter.error = adapter.error_code = ""  # the folder may be whole again: try
        adapter.wanted_ns, adapter.wanted_by, adapter.read_ns = now_ns, by, 0
        self._wanted[adapter.serial] = None
        self.want_image(adapter)
        self._table.mark_dirty(adapter)

    def want_image(self, adapter: Adapter) -> None:
        if adapter.host is Place.ABSENT:
            self._unread[adapter.serial] = None

    def forget(self, adapter: Adapter) -> None:
        """Nobody waits for it any more."""
        self._wanted.pop(adapter.serial, None)
        self._unread.pop(adapter.serial, None)
        adapter.want_order = None

    @property
    def waiting_for_room(self) -> int:
        return len(self._wanted) + len(self._unread)

    # --- progress -------------------------------------------------------------

    def advance(self, now_ns: int) -> None:
        """Start every read and copy that finds room, first come first served: a large adapter is never overtaken
        by smaller ones while it waits for pages."""
        self._start_reads()
        self.missing_pages = 0
        for adapter in self._by_order(self._wanted):
            if not adapter.wanted:  # whoever asked has left; an image on its way is kept
                del self._wanted[adapter.serial]
                continue
            if adapter.host is Place.ABSENT:
                self.want_image(adapter)
            if adapter.host is not Place.HERE:
                continue
            if not self._start_copy(adapter, now_ns):
                break

    def on_transfer(self, done: TransferDone) -> Adapter:
        """Book a transfer that ended. On an error ``error_code`` of the adapter is set and it is wanted no more."""
        adapter = self._table[done.serial]
        self._table.mark_dirty(adapter)
        if done.kind == "read":
            self._read_ended(adapter, done)
        else:
            self._copy_ended(adapter, done)
        return adapter

    # --- leaving --------------------------------------------------------------

    def evict(self, adapter: Adapter, by: str, why: str, beneficiary: str = "") -> None:
        """HBM to host: the host copy is there already, so nothing moves."""
        assert not adapter.busy
        assert adapter.pool is Place.HERE
        freed = self._pool.free_adapter(adapter.serial)
        self._executor.retire(adapter.serial)
        adapter.pool = Place.ABSENT
        adapter.evictions += 1
        self.counters.evictions += 1
        self._table.mark_dirty(adapter)
        size = adapter.layout.image_bytes
        self._events.add("evict", adapter.name, by, why, beneficiary=beneficiary, bytes=size, pages=freed)
        if adapter.queue:  # its requests wait again, from now on
            self.want(adapter, "request", self._executor.now_ns())

    def drop_image(self, adapter: Adapter) -> None:
        assert adapter.host is Place.HERE
        assert adapter.pool is not Place.COMING
        self._executor.drop_host(adapter.serial)
        adapter.host = Place.ABSENT
        self._host.give_back(adapter)
        self._table.mark_dirty(adapter)

    def make_kv_room(self, blocks: int, order: int, beneficiary: str, now_ns: int) -> bool:
        """Whether ``blocks`` KV blocks can be had, after evicting idle adapters where that helps."""
        short = blocks - self._pool.available_blocks
        if short <= 0:
            return True
        pages = -(-short // self._pool.blocks_per_page)
        candidates = self._candidates(order, now_ns)

        def enough(serials: list[int]) -> bool:
            return self._pool.room_after_evicting(serials).freed_pages >= pages

        victims = fewest_victims(candidates, enough)
        if victims is None:
            return False
        for victim in victims:
            self.evict(victim, "policy", f"{self._policy}: its pages are needed for KV", beneficiary)
        return True

    def mark(self, adapter: Adapter) -> None:
        """Show its pages as what it is now."""
        if adapter.pool is Place.HERE:
            self._pool.mark(adapter.serial, PageOwner.PINNED if adapter.pinned else PageOwner.ADAPTER)

    # --- private --------------------------------------------------------------

    def _by_order(self, serials: Iterable[int]) -> list[Adapter]:
        return sorted((self._table[serial] for serial in serials), key=_order)

    def _start_reads(self) -> None:
        for adapter in self._by_order(self._unread):
            victims = self._host.victims_for(adapter, _order(adapter), self._table)
            if victims is None:
                return
            for victim in victims:
                self.drop_image(victim)
            del self._unread[adapter.serial]
            adapter.host = Place.COMING
            self._host.take(adapter)
            self._table.mark_dirty(adapter)
            self._executor.begin_read(adapter.serial, adapter.manifest, adapter.layout)

    def _start_copy(self, adapter: Adapter, now_ns: int) -> bool:
        victims = self._victims_for(adapter, now_ns)
        if victims is None:
            return False
        for victim in victims:
            self.evict(victim, "policy", f"{self._policy}: least worth keeping of the idle ones", adapter.name)
        locations = self._pool.alloc_adapter(adapter.serial, adapter.layout)
        adapter.pool = Place.COMING
        adapter.want_order = None
        adapter.copy_asked_ns = now_ns
        del self._wanted[adapter.serial]
        self._table.mark_dirty(adapter)
        self._executor.begin_copy(adapter.serial, locations)
        return True

    def _victims_for(self, adapter: Adapter, now_ns: int) -> list[Adapter] | None:
        def missing(room: Room) -> int:
            held = self._pool.adapter_pages - room.freed_pages
            over_limit = held + room.needed_pages - self._limit_pages
            return max(room.needed_pages - self._pool.free_pages - room.freed_pages, over_limit)

        if missing(Room(0, self._pool.pages_needed(adapter.layout))) <= 0:
            return []
        order = self._candidates(adapter.order, now_ns)
        victims = fewest_victims(
            order, lambda serials: missing(self._pool.room_after_evicting(serials, adapter.layout)) <= 0
        )
        if victims is None:
            room = self._pool.room_after_evicting([victim.serial for victim in order], adapter.layout)
            self.missing_pages = room.needed_pages - self._pool.free_pages - room.freed_pages
        return victims

    def _candidates(self, order: int, now_ns: int) -> list[Adapter]:
        """Best victim first. Never one of the running batch, nor one that somebody before ``order`` waits for."""
        idle = (
            adapter
            for adapter in self._table
            if adapter.pool is Place.HERE
            and not adapter.busy
            and not adapter.pinned
            and (adapter.queue.smallest is None or adapter.queue.smallest > order)
        )
        return victims_in_order(self._policy, idle, self._cost, now_ns)

    def _read_ended(self, adapter: Adapter, done: TransferDone) -> None:
        adapter.read_ns = done.ended_ns - done.started_ns
        if done.error_code:
            self._host.give_back(adapter)
            adapter.host = Place.ABSENT
            adapter.error_code, adapter.error = done.error_code, done.error
            self.forget(adapter)
            self._events.add("error", adapter.name, "engine", done.error)
            return
        adapter.host = Place.HERE
        self.counters.reads += 1
        self._cost.saw_read(adapter.read_ns, done.bytes)
        detail = ""
        if adapter.content_hash and adapter.content_hash != done.content_hash:
            detail = "its files changed since the last read"
        adapter.content_hash = done.content_hash
        self._events.add(
            "read", adapter.name, "engine", detail,
            bytes=done.bytes, duration_ns=adapter.read_ns, disk_ns=adapter.read_ns,
        )  # fmt: skip

    def _copy_ended(self, adapter: Adapter, done: TransferDone) -> None:
        adapter.pool = Place.HERE
        self.mark(adapter)
        copy_ns = done.ended_ns - done.started_ns
        duration_ns = done.ended_ns - adapter.wanted_ns
        adapter.loads += 1
        adapter.swaps_ms.append(duration_ns / 1e6)
        self.counters.loads += 1
        self.counters.load_bytes += done.bytes
        self._cost.saw_copy(copy_ns, done.bytes)
        self._events.add(
            "load", adapter.name, adapter.wanted_by,
            bytes=done.bytes, pages=self._pool.pages_of([adapter.serial]), duration_ns=duration_ns,
            queue_ns=max(0, duration_ns - adapter.read_ns - copy_ns), disk_ns=adapter.read_ns, copy_ns=copy_ns,
        )  # fmt: skip

    def check_integrity(self) -> None:
        self._host.check_integrity(self._table)
        in_pool = {adapter.serial for adapter in self._table if adapter.pool is not Place.ABSENT}
        assert all(serial in self._pool for serial in in_pool)
        assert self._pool.adapter_pages <= self._limit_pages, "adapters took pages of the KV floor"
        for adapter in self._table:
            assert adapter.pool is not Place.COMING or adapter.host is Place.HERE, f"{adapter.name}: has no image"
            assert not adapter.running or adapter.pool is Place.HERE, f"{adapter.name}: runs but is not there"
            if adapter.wanted:
                assert adapter.serial in self._wanted, f"{adapter.name}: wanted, but nobody sees to it"
