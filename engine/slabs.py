"""Slots of one size in pages: which page gives the next slot, and when a page is empty again."""

from __future__ import annotations


class SlabPages:
    """KV pages, each cut into ``slots_per_page`` slots.

    The next slot always comes from the fullest page that has one, so that the emptiest pages drain and go back
    to the pool. Every operation is O(1) in the number of pages: pages are kept in buckets by their used slots, and
    one integer has a bit for each bucket of partly filled pages that holds any.
    """

    def __init__(self, slots_per_page: int) -> None:
        assert slots_per_page >= 1
        self.slots_per_page = slots_per_page
        self.used_slots = 0
        self.partial_pages = 0
        self._free_mask: dict[int, int] = {}
        self._used: dict[int, int] = {}
        self._buckets: list[dict[int, None]] = [{} for _ in range(slots_per_page + 1)]
        self._partial_bits = 0

    def __len__(self) -> int:
        return len(self._used)

    def __contains__(self, page: int) -> bool:
        return page in self._used

    @property
    def free_slots(self) -> int:
        """Slots in the pages held now."""
        return len(self._used) * self.slots_per_page - self.used_slots

    def used_in(self, page: int) -> int:
        return self._used[page]

    def is_used(self, page: int, slot: int) -> bool:
        return not self._free_mask[page] >> slot & 1

    def add_page(self, page: int) -> None:
        """Take over an empty page. The caller allocates from it at once: an empty page is never kept."""
        assert page not in self._used
        self._free_mask[page] = (1 << self.slots_per_page) - 1
        self._used[page] = 0
        self._buckets[0][page] = None

    def alloc_in(self, page: int) -> int:
        """The lowest free slot of ``page``, which must have one."""
        mask = self._free_mask[page]
        assert mask, "the page is full"
        slot = (mask & -mask).bit_length() - 1
        self._free_mask[page] = mask & (mask - 1)
        self._move(page, self._used[page], self._used[page] + 1)
        self.used_slots += 1
        return slot

    def fullest(self) -> int | None:
        """The partly filled page with the most used slots."""
        if not self._partial_bits:
            return None
        return next(reversed(self._buckets[self._partial_bits.bit_length() - 1]))

    def free(self, page: int, slot: int) -> bool:
        """Give a slot back. True when that emptied the page, which then no longer belongs here."""
        assert not self._free_mask[page] >> slot & 1, f"slot {slot} of page {page} is free already"
        self._free_mask[page] |= 1 << slot
        self._move(page, self._used[page], self._used[page] - 1)
        self.used_slots -= 1
        if self._used[page]:
            return False
        del self._buckets[0][page], self._used[page], self._free_mask[page]
        return True

    def emptiest_first(self) -> list[int]:
        """Partly filled pages by ascending use: what a compactor empties first."""
        return [page for bucket in self._buckets[1:-1] for page in bucket]

    def slots_of(self, page: int) -> list[int]:
        """Used slots of one page, ascending."""
        return [slot for slot in range(self.slots_per_page) if self.is_used(page, slot)]

    def _move(self, page: int, old: int, new: int) -> None:
        del self._buckets[old][page]
        self._buckets[new][page] = None
        self._used[page] = new
        self.partial_pages += self._is_partial(new) - self._is_partial(old)
        for count in (old, new):
            if self._is_partial(count) and self._buckets[count]:
                self._partial_bits |= 1 << count
            else:
                self._partial_bits &= ~(1 << count)

    def _is_partial(self, count: int) -> bool:
        return 0 < count < self.slots_per_page

    def check_integrity(self) -> None:
        total = partial = 0
        for page, used in self._used.items():
            assert used == self.slots_per_page - self._free_mask[page].bit_count(), f"page {page}: mask"
            assert used > 0, f"page {page}: kept although empty"
            assert page in self._buckets[used], f"page {page}: in the wrong bucket"
            total += used
            partial += self._is_partial(used)
        assert total == self.used_slots
        assert partial == self.partial_pages
        assert sum(map(len, self._buckets)) == len(self._used)
        bits = sum(1 << count for count, bucket in enumerate(self._buckets) if bucket and self._is_partial(count))
        assert bits == self._partial_bits
