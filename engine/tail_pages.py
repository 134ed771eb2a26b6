"""Pages that several adapters share: each holds the tails of some, in contiguous runs of units."""

from __future__ import annotations

from collections.abc import Container


class TailPages:
    """Tails of 1 to ``units_per_page - 1`` units.

    A tail goes to the fullest page with a long enough run, and there into the tightest run. Pages are kept by
    (free units, longest run), at most units_per_page squared / 2 keys, so that the cost does not grow with the
    number of pages.
    """

    def __init__(self, units_per_page: int) -> None:
        assert units_per_page >= 1
        self.units_per_page = units_per_page
        self.free_units = 0
        self._free_mask: dict[int, int] = {}
        self._by_room: dict[tuple[int, int], dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._free_mask)

    def __contains__(self, page: int) -> bool:
        return page in self._free_mask

    def find(self, units: int, excluding: Container[int] = ()) -> int | None:
        """The fullest page that can take ``units`` in one run."""
        for room in sorted(self._by_room):
            if room[1] >= units:
                for page in reversed(self._by_room[room]):
                    if page not in excluding:
                        return page
        return None

    def add_page(self, page: int) -> None:
        """Take over an empty page. The caller allocates from it at once."""
        assert page not in self._free_mask
        self._set(page, (1 << self.units_per_page) - 1)

    def alloc_in(self, page: int, units: int) -> int:
        """First unit of the tightest run of ``page`` that takes ``units``; it must have one."""
        mask = self._free_mask[page]
        length, start = min(run for run in _runs(mask) if run[0] >= units)
        assert length >= units
        self._set(page, mask & ~(((1 << units) - 1) << start))
        return start

    def free(self, page: int, start: int, units: int) -> bool:
        """Give a tail back. True when that emptied the page, which then no longer belongs here."""
        freed = ((1 << units) - 1) << start
        mask = self._free_mask[page]
        assert not mask & freed, f"units {start}..{start + units - 1} of page {page} are free already"
        if (mask | freed).bit_count() == self.units_per_page:
            self._forget(page)
            return True
        self._set(page, mask | freed)
        return False

    def fits_after_freeing(self, page: int, freed: list[tuple[int, int]], units: int) -> bool:
        """Whether ``units`` would fit once the tails ``freed`` (start, units) had left ``page``."""
        mask = self._free_mask[page]
        for start, length in freed:
            mask |= ((1 << length) - 1) << start
        return any(length >= units for length, _ in _runs(mask))

    def used_units(self, page: int) -> int:
        return self.units_per_page - self._free_mask[page].bit_count()

    def _set(self, page: int, mask: int) -> None:
        if page in self._free_mask:
            self._forget(page)
        self._free_mask[page] = mask
        self.free_units += mask.bit_count()
        self._by_room.setdefault(_room(mask), {})[page] = None

    def _forget(self, page: int) -> None:
        mask = self._free_mask.pop(page)
        self.free_units -= mask.bit_count()
        room = _room(mask)
        del self._by_room[room][page]
        if not self._by_room[room]:
            del self._by_room[room]

    def check_integrity(self) -> None:
        assert self.free_units == sum(mask.bit_count() for mask in self._free_mask.values())
        assert sum(map(len, self._by_room.values())) == len(self._free_mask)
        for page, mask in self._free_mask.items():
            assert mask.bit_count() < self.units_per_page, f"page {page}: kept although empty"
            assert page in self._by_room[_room(mask)], f"page {page}: kept under the wrong room"


def _runs(mask: int) -> list[tuple[int, int]]:
    """Runs of free units as (length, first unit)."""
    runs = []
    start = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        start, mask = start + gap, mask >> gap
        length = (~mask & (mask + 1)).bit_length() - 1
        runs.append((length, start))
        start, mask = start + length, mask >> length
    return runs


def _room(mask: int) -> tuple[int, int]:
    """(free units, longest run)."""
    return mask.bit_count(), max((length for length, _ in _runs(mask)), default=0)
