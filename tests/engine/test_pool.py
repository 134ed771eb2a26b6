"""The pool against random histories, with every invariant checked after every step."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from engine.errors import ConfigError
from engine.messages import PageOwner, PageState
from engine.packing import AdapterLayout
from engine.pool import PagePool

UNIT = 1024
PAGE = 8 * UNIT
BLOCK = 1200  # six a page, with a rest


def layout_of(whole_pages: int, tail_units: int) -> AdapterLayout:
    tail = (tail_units * UNIT,) if tail_units else ()
    return AdapterLayout(PAGE, UNIT, (PAGE,) * whole_pages + tail, (), 0)


def layouts() -> st.SearchStrategy[AdapterLayout]:
    sizes = st.tuples(st.integers(0, 4), st.integers(0, 7)).filter(any)
    return sizes.map(lambda size: layout_of(*size))


class PoolMachine(RuleBasedStateMachine):
    """A model beside the pool: the set of blocks and the layout of each adapter."""

    blocks = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(12, PAGE, BLOCK, UNIT)
        self.used: set[int] = set()
        self.adapters: dict[int, AdapterLayout] = {}
        self.shown = {page: PageState(page, PageOwner.FREE, -1, 0) for page in range(12)}
        self.serial = 0

    @precondition(lambda self: self.pool.can_alloc_block())
    @rule(target=blocks)
    def alloc_block(self) -> int:
        before, partial = self.pool.free_pages, self.pool.partial_kv_pages
        block = self.pool.alloc_block()
        assert block not in self.used
        assert self.pool.free_pages == before - (partial == 0), "partly filled pages come first"
        self.used.add(block)
        return block

    @rule(block=consumes(blocks))
    def free_block(self, block: int) -> None:
        self.pool.free_block(block)
        self.used.remove(block)

    @rule(layout=layouts())
    def alloc_adapter(self, layout: AdapterLayout) -> None:
        needed, free = self.pool.pages_needed(layout), self.pool.free_pages
        assert self.pool.can_alloc_adapter(layout) == (needed <= free)
        if needed > free:
            return
        self.serial += 1
        locations = self.pool.alloc_adapter(self.serial, layout)
        assert len(locations) == len(layout.extent_bytes)
        assert self.pool.free_pages == free - needed
        self.adapters[self.serial] = layout

    @precondition(lambda self: self.adapters)
    @rule(data=st.data())
    def free_adapter(self, data: st.DataObject) -> None:
        serial = data.draw(st.sampled_from(sorted(self.adapters)))
        room = self.pool.room_after_evicting([serial])
        free = self.pool.free_pages
        assert self.pool.free_adapter(serial) == room.freed_pages
        assert self.pool.free_pages == free + room.freed_pages
        del self.adapters[serial]

    @precondition(lambda self: self.adapters)
    @rule(data=st.data(), layout=layouts())
    def evict_for(self, data: st.DataObject, layout: AdapterLayout) -> None:
        """What room_after_evicting promises is what happens."""
        serials = data.draw(st.lists(st.sampled_from(sorted(self.adapters)), unique=True))
        room = self.pool.room_after_evicting(serials, layout)
        free = self.pool.free_pages
        for serial in serials:
            self.pool.free_adapter(serial)
            del self.adapters[serial]
        assert self.pool.free_pages == free + room.freed_pages
        assert self.pool.pages_needed(layout) == room.needed_pages

    @precondition(lambda self: self.adapters)
    @rule(data=st.data(), owner=st.sampled_from([PageOwner.ADAPTER, PageOwner.PINNED, PageOwner.COPYING]))
    def mark(self, data: st.DataObject, owner: PageOwner) -> None:
        self.pool.mark(data.draw(st.sampled_from(sorted(self.adapters))), owner)

    @rule()
    def publish(self) -> None:
        """A reader that hears only of changed pages knows them all."""
        for page in self.pool.drain_dirty():
            self.shown[page] = self.pool.page_state(page)
        assert self.shown == {page: self.pool.page_state(page) for page in range(12)}

    @invariant()
    def integrity(self) -> None:
        pool = self.pool
        pool.check_integrity()
        assert pool.kv_blocks_used == len(self.used)
        assert pool.free_pages + pool.kv_pages + pool.adapter_pages == 12
        held = sum(sum(layout.extent_bytes) for layout in self.adapters.values())
        assert pool.adapter_pages * PAGE >= held
        waste = pool.adapter_pages * PAGE - held + pool.kv_pages * (PAGE - 6 * BLOCK)
        assert pool.tail_waste_bytes == waste

    def teardown(self) -> None:
        for block in self.used:
            self.pool.free_block(block)
        for serial in self.adapters:
            self.pool.free_adapter(serial)
        self.pool.check_integrity()
        assert self.pool.free_pages == 12


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_blocks_come_from_the_fullest_page() -> None:
    pool = PagePool(4, PAGE, BLOCK, UNIT)
    blocks = [pool.alloc_block() for _ in range(12)]
    for block in (*blocks[:4], blocks[6]):  # page 0 keeps 2, page 1 keeps 5
        pool.free_block(block)
    assert pool.alloc_block() // pool.blocks_per_page == 1
    assert pool.alloc_block() // pool.blocks_per_page == 0


def test_tails_share_the_fullest_page_that_fits() -> None:
    pool = PagePool(4, PAGE, BLOCK, UNIT)
    for serial, units in enumerate((6, 3, 2)):
        pool.alloc_adapter(serial, layout_of(0, units))
    assert [pool.locations(serial)[0].page for serial in range(3)] == [0, 1, 0]
    assert pool.adapter_pages == 2
    assert pool.page_state(0) == PageState(0, PageOwner.COPYING, 0, 1000)


def test_a_shared_page_is_free_after_its_last_tail() -> None:
    pool = PagePool(2, PAGE, BLOCK, UNIT)
    pool.alloc_adapter(1, layout_of(1, 3))
    pool.alloc_adapter(2, layout_of(0, 3))
    assert pool.free_adapter(1) == 1
    assert pool.free_adapter(2) == 1
    assert pool.page_state(1) == PageState(1, PageOwner.FREE, -1, 0)


def test_a_pinned_tail_shows_on_a_shared_page() -> None:
    pool = PagePool(2, PAGE, BLOCK, UNIT)
    for serial in (1, 2):
        pool.alloc_adapter(serial, layout_of(0, serial))
        pool.mark(serial, PageOwner.ADAPTER)
    pool.mark(1, PageOwner.PINNED)
    assert pool.page_state(0) == PageState(0, PageOwner.PINNED, 1, 375)
    assert pool.pages_of([1, 2]) == 1


def test_a_page_must_hold_one_block() -> None:
    with pytest.raises(ConfigError, match="one KV block takes 9000 bytes, a page has 8192"):
        PagePool(4, PAGE, 9000, UNIT)
