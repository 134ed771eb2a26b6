"""A set of numbers that knows its smallest."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class MinSet:
    """Add, discard and ``smallest`` in O(log n) amortised: a heap that drops removed members when they surface."""

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._heap: list[int] = []

    def add(self, number: int) -> None:
        if number not in self._members:
            self._members.add(number)
            heapq.heappush(self._heap, number)

    def discard(self, number: int) -> None:
        self._members.discard(number)

    @property
    def smallest(self) -> int | None:
        while self._heap and self._heap[0] not in self._members:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    def __contains__(self, number: int) -> bool:
        return number in self._members
