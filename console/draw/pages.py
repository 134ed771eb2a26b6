"""The pages as the map draws them: one look and one letter a page, and which pages changed since the last frame."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

from console.hues import COPYING_LETTER, FREE_LETTER, KV_LETTER, RESERVED_LETTER, hue_of, letter_of
from engine.messages import PageOwner, PageState

LEVELS = 4
"""Shades of an owner's colour: how full the page is, in quarters."""


def look(owner: int, hue: int, level: int) -> int:
    """A drawable state as one small integer, so that equal neighbours compare in one step."""
    return owner << 8 | hue << 4 | level


def owner_of(code: int) -> PageOwner:
    return PageOwner(code >> 8)


def hue_in(code: int) -> int:
    return code >> 4 & 15


def level_in(code: int) -> int:
    return code & 15


def level_of(used_permille: int) -> int:
    return min(used_permille * LEVELS // 1000, LEVELS - 1)


def letter_for(owner: int, adapter: int) -> str:
    if owner == PageOwner.FREE:
        return FREE_LETTER
    if owner == PageOwner.KV:
        return KV_LETTER
    if owner == PageOwner.COPYING:
        return COPYING_LETTER
    if owner == PageOwner.RESERVED:
        return RESERVED_LETTER
    return letter_of(max(adapter, 0), pinned=owner == PageOwner.PINNED)


FREE_LOOK = look(PageOwner.FREE, 0, 0)


class PageModel:
    """``num_pages`` pages, all free until told otherwise. ``dirty`` collects changed pages until ``drain()``."""

    def __init__(self, num_pages: int = 0) -> None:
        self.num_pages = num_pages
        self.states: list[PageState] = [PageState(page, PageOwner.FREE, -1, 0) for page in range(num_pages)]
        self.looks = array("H", [FREE_LOOK]) * num_pages
        self.letters = bytearray(FREE_LETTER.encode() * num_pages)
        self._dirty: set[int] = set(range(num_pages))

    def update(self, states: Iterable[PageState]) -> None:
        for state in states:
            page = state.page
            if not 0 <= page < self.num_pages:
                continue
            self.states[page] = state
            has_level = state.owner in (PageOwner.KV, PageOwner.ADAPTER, PageOwner.PINNED)
            hue = hue_of(state.adapter) if state.adapter >= 0 and state.owner != PageOwner.KV else 0
            self.looks[page] = look(state.owner, hue, level_of(state.used_permille) if has_level else 0)
            self.letters[page] = ord(letter_for(state.owner, state.adapter))
            self._dirty.add(page)

    def drain(self) -> set[int]:
        """The pages that changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def summary(self, first: int, last: int) -> tuple[int, str]:
        """Look and letter of pages ``first`` to ``last`` - 1 drawn as one tile.

        A copy in flight wins over all; otherwise the commonest owner. Free pages under it dim the shade.
        """
        if last - first == 1:
            return self.looks[first], chr(self.letters[first])
        letters = self.letters[first:last]
        if ord(COPYING_LETTER) in letters:
            return look(PageOwner.COPYING, 0, 0), COPYING_LETTER
        owners = Counter(code & ~15 for code in self.looks[first:last])
        free = owners.pop(FREE_LOOK, 0)
        if not owners:
            return FREE_LOOK, FREE_LETTER
        base = max(owners, key=owners.__getitem__)
        pages = [page for page in range(first, last) if self.looks[page] & ~15 == base]
        used_permille = sum(self.states[page].used_permille for page in pages) // (len(pages) + free)
        return base | level_of(used_permille), chr(self.letters[pages[0]])
