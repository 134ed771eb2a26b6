"""The page pool: which page belongs to whom. It moves no byte and knows no device.

Unified paging after S-LoRA (Sheng et al., 2023, arXiv:2311.03285), with larger pages that are cut like slabs
(Bonwick, 1994): a page is free, or holds KV blocks, or belongs to one adapter, or holds the tails of several.
A page whose last byte is freed is free again and may become the other kind.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from engine.errors import ConfigError
from engine.executor import Location
from engine.messages import PageOwner, PageState
from engine.packing import AdapterLayout
from engine.slabs import SlabPages
from engine.tail_pages import TailPages


class Room(NamedTuple):
    """An eviction that was thought through: pages it frees, and pages that the newcomer needs after it."""

    freed_pages: int
    needed_pages: int


@dataclass(slots=True)
class _Resident:
    """One adapter in the pool. ``tail_units`` is 0 when it has no shared page."""

    locations: list[Location]
    tail_units: int
    owner: PageOwner


class PagePool:
    """Allocates KV blocks and adapters out of ``num_pages`` pages.

    ``block_bytes``: KV of one block, all layers; a KV page holds ``page_bytes // block_bytes`` of them, and block
    ``b`` is slot ``b % blocks_per_page`` of page ``b // blocks_per_page``. ``unit_bytes``: granularity of tails.
    Every ``can_x`` leaves the pool as it is, every ``alloc_x`` assumes a yes and asserts it. ``version`` grows with
    every page that becomes free, so that who waits for pages need not ask again before.
    """

    def __init__(self, num_pages: int, page_bytes: int, block_bytes: int, unit_bytes: int = 1 << 20) -> None:
        if block_bytes > page_bytes:
            raise ConfigError(
                f"one KV block takes {block_bytes} bytes, a page has {page_bytes}: "
                "use a larger --page-mib or fewer tokens a block"
            )
        self.num_pages = num_pages
        self.page_bytes = page_bytes
        self.block_bytes = block_bytes
        self.unit_bytes = min(unit_bytes, page_bytes)
        self.blocks_per_page = page_bytes // block_bytes
        self.version = 0
        self.adapter_pages = 0
        self._free = list(range(num_pages))  # a heap: the lowest page first keeps the page map readable
        self._slabs = SlabPages(self.blocks_per_page)
        self._tails = TailPages(page_bytes // self.unit_bytes)
        self._residents: dict[int, _Resident] = {}
        self._tenants: dict[int, dict[int, int]] = {}  # page -> serial -> bytes there
        self._dirty: set[int] = set()

    # --- counts ---------------------------------------------------------------

    @property
    def free_pages(self) -> int:
        return len(self._free)

    @property
    def kv_pages(self) -> int:
        return len(self._slabs)

    @property
    def kv_blocks_used(self) -> int:
        return self._slabs.used_slots

    @property
    def partial_kv_pages(self) -> int:
        return self._slabs.partial_pages

    @property
    def available_blocks(self) -> int:
        """Blocks that could be allocated now: in partly filled KV pages and in free pages."""
        return self._slabs.free_slots + len(self._free) * self.blocks_per_page

    @property
    def tail_waste_bytes(self) -> int:
        """Bytes in held pages that nobody owns: free units of shared pages, and what blocks leave of a KV page."""
        kv_rest = self.page_bytes - self.blocks_per_page * self.block_bytes
        return self._tails.free_units * self.unit_bytes + self.kv_pages * kv_rest

    # --- KV blocks ------------------------------------------------------------

    def can_alloc_block(self) -> bool:
        return self.available_blocks > 0

    def alloc_block(self) -> int:
        page = self._slabs.fullest()
        if page is None:
            page = self._take_page()
            self._slabs.add_page(page)
        slot = self._slabs.alloc_in(page)
        self._dirty.add(page)
        return page * self.blocks_per_page + slot

    def alloc_block_in(self, page: int) -> int:
        """A block in a partly filled KV page of the caller's choice: for compaction."""
        slot = self._slabs.alloc_in(page)
        self._dirty.add(page)
        return page * self.blocks_per_page + slot

    def free_block(self, block: int) -> None:
        page, slot = divmod(block, self.blocks_per_page)
        assert page in self._slabs, f"block {block} lies in no KV page"
        self._dirty.add(page)
        if self._slabs.free(page, slot):
            self._return_page(page)

    def partial_pages_emptiest_first(self) -> list[int]:
        return self._slabs.emptiest_first()

    def used_blocks_in(self, page: int) -> list[int]:
        return [page * self.blocks_per_page + slot for slot in self._slabs.slots_of(page)]

    # --- adapters -------------------------------------------------------------

    def pages_needed(self, layout: AdapterLayout) -> int:
        """Free pages that ``alloc_adapter`` would take now: its tail may find room in a shared page."""
        tail_page = layout.tail_units > 0 and self._tails.find(layout.tail_units) is None
        return layout.whole_pages + tail_page

    def can_alloc_adapter(self, layout: AdapterLayout) -> bool:
        return self.pages_needed(layout) <= len(self._free)

    def alloc_adapter(self, serial: int, layout: AdapterLayout) -> list[Location]:
        """One location per extent of ``layout``, in its order. The adapter's pages start as COPYING."""
        assert serial not in self._residents, f"adapter {serial} is in the pool already"
        assert layout.page_bytes == self.page_bytes
        assert layout.unit_bytes == self.unit_bytes
        assert self.can_alloc_adapter(layout)
        locations = [Location(self._take_page(), 0) for _ in range(layout.whole_pages)]
        self.adapter_pages += len(locations)
        if units := layout.tail_units:
            page = self._tails.find(units)
            if page is None:
                page = self._take_page()
                self.adapter_pages += 1
                self._tails.add_page(page)
            locations.append(Location(page, self._tails.alloc_in(page, units) * self.unit_bytes))
        for location, size in zip(locations, layout.extent_bytes, strict=True):
            self._tenants.setdefault(location.page, {})[serial] = size
            self._dirty.add(location.page)
        self._residents[serial] = _Resident(locations, layout.tail_units, PageOwner.COPYING)
        return locations

    def free_adapter(self, serial: int) -> int:
        """Pages that became free: those that nobody else had a tail in."""
        resident = self._residents.pop(serial)
        freed = 0
        for location in resident.locations:
            self._dirty.add(location.page)
            tenants = self._tenants[location.page]
            del tenants[serial]
            if location.page in self._tails:
                self._tails.free(location.page, location.offset // self.unit_bytes, resident.tail_units)
            if not tenants:
                del self._tenants[location.page]
                self._return_page(location.page)
                freed += 1
        self.adapter_pages -= freed
        return freed

    def mark(self, serial: int, owner: PageOwner) -> None:
        """Show the adapter's pages as ADAPTER, COPYING or PINNED."""
        resident = self._residents[serial]
        if resident.owner != owner:
            resident.owner = owner
            self._dirty.update(location.page for location in resident.locations)

    def __contains__(self, serial: int) -> bool:
        return serial in self._residents

    def locations(self, serial: int) -> list[Location]:
        return self._residents[serial].locations

    def pages_of(self, serials: Iterable[int]) -> int:
        """Distinct pages in which any of these adapters lies."""
        return len({location.page for serial in serials for location in self._residents[serial].locations})

    def room_after_evicting(self, serials: Collection[int], layout: AdapterLayout | None = None) -> Room:
        """What evicting all of ``serials`` would give, and what ``layout`` would then need. Changes nothing."""
        leaving: dict[int, list[tuple[int, int]]] = {}  # page -> tails that leave it
        count: dict[int, int] = {}
        for serial in serials:
            resident = self._residents[serial]
            for location in resident.locations:
                count[location.page] = count.get(location.page, 0) + 1
                if location.page in self._tails:
                    tail = (location.offset // self.unit_bytes, resident.tail_units)
                    leaving.setdefault(location.page, []).append(tail)
        freed = {page for page, tenants in count.items() if tenants == len(self._tenants[page])}
        if layout is None:
            return Room(len(freed), 0)
        units = layout.tail_units
        shares = units > 0 and (
            self._tails.find(units, excluding=freed) is not None
            or any(
                self._tails.fits_after_freeing(page, tails, units)
                for page, tails in leaving.items()
                if page not in freed
            )
        )
        return Room(len(freed), layout.whole_pages + (units > 0 and not shares))

    # --- telemetry ------------------------------------------------------------

    def page_state(self, page: int) -> PageState:
        if page in self._slabs:
            return PageState(page, PageOwner.KV, -1, 1000 * self._slabs.used_in(page) // self.blocks_per_page)
        tenants = self._tenants.get(page)
        if not tenants:
            return PageState(page, PageOwner.FREE, -1, 0)
        owners = {self._residents[serial].owner for serial in tenants}
        shown = next(o for o in (PageOwner.COPYING, PageOwner.PINNED, PageOwner.ADAPTER) if o in owners)
        largest = max(
            (serial for serial in tenants if self._residents[serial].owner == shown),
            key=lambda serial: (tenants[serial], -serial),
        )
        return PageState(page, shown, largest, 1000 * sum(tenants.values()) // self.page_bytes)

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty)

    def drain_dirty(self) -> list[int]:
        """Pages that changed since the last call, ascending."""
        dirty = sorted(self._dirty)
        self._dirty.clear()
        return dirty

    # --- private --------------------------------------------------------------

    def _take_page(self) -> int:
        assert self._free, "the pool is full"
        return heapq.heappop(self._free)

    def _return_page(self, page: int) -> None:
        heapq.heappush(self._free, page)
        self.version += 1

    def check_integrity(self) -> None:
        """Every page has exactly one kind of owner, no two extents overlap, and all counts match the tables."""
        self._slabs.check_integrity()
        self._tails.check_integrity()
        free = set(self._free)
        kv = {page for page in range(self.num_pages) if page in self._slabs}
        owned = set(self._tenants)
        assert len(free) == len(self._free), "a page is free twice"
        assert len(free) + len(kv) + len(owned) == self.num_pages, "a page is lost or owned twice"
        assert free | kv | owned == set(range(self.num_pages))
        assert len(owned) == self.adapter_pages
        extents: dict[int, list[tuple[int, int, int]]] = {page: [] for page in owned}
        for serial, resident in self._residents.items():
            for location in resident.locations:
                size = self._tenants[location.page][serial]
                extents[location.page].append((location.offset, size, serial))
        for page, found in extents.items():
            assert {serial for _, _, serial in found} == set(self._tenants[page]), f"page {page}: tenants differ"
            assert (page in self._tails) == (found[0][1] < self.page_bytes), f"page {page}: of the wrong kind"
            end = 0
            for offset, size, serial in sorted(found):
                assert offset >= end, f"page {page}: adapter {serial} overlaps its neighbour"
                end = offset + size
            assert end <= self.page_bytes, f"page {page}: an extent passes its end"
            if page in self._tails:
                used = sum(size for _, size, _ in found)
                assert used == self._tails.used_units(page) * self.unit_bytes, f"page {page}: units and tails differ"
