"""Whom to evict: the order of victims under each policy, and the fewest of them that make enough room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from engine.adapters import Adapter, Place

Policy = Literal["cost", "lru", "lfu"]


class ReloadCost:
    """What bringing an adapter back would take, learned from the swaps seen: an exponential average of ns per byte.

    Starts at 0.1 ns (10 GB/s) for a copy and 1 ns (1 GB/s) for a read from disk.
    """

    _WEIGHT = 0.2

    def __init__(self) -> None:
        self.copy_ns_per_byte = 0.1
        self.read_ns_per_byte = 1.0

    def saw_copy(self, ns: int, size: int) -> None:
        self.copy_ns_per_byte += self._WEIGHT * (ns / max(size, 1) - self.copy_ns_per_byte)

    def saw_read(self, ns: int, size: int) -> None:
        self.read_ns_per_byte += self._WEIGHT * (ns / max(size, 1) - self.read_ns_per_byte)

    def ns_per_byte(self, adapter: Adapter) -> float:
        """Of one byte of this adapter, were it evicted now: without an image in host memory the disk counts too."""
        return self.copy_ns_per_byte + (0 if adapter.host is Place.HERE else self.read_ns_per_byte)


def victims_in_order(policy: Policy, candidates: Iterable[Adapter], cost: ReloadCost, now_ns: int) -> list[Adapter]:
    """Best victim first. Adapters that requests wait for come after all others, the youngest wait first.

    ``cost``: expected reload time per byte freed, after GreedyDual-Size with frequency (Cherkasova, 1998): time to
    bring it back x recent rate of use / bytes. ``lru``: longest unused first. ``lfu``: fewest recent uses first.
    """

    def key(adapter: Adapter) -> tuple[int, float, int, int]:
        if policy == "lru":
            value = 0.0
        elif policy == "lfu":
            value = adapter.recent_uses(now_ns)
        else:
            value = cost.ns_per_byte(adapter) * adapter.recent_uses(now_ns)
        oldest = adapter.queue.smallest
        if oldest is not None:
            return 1, -oldest, adapter.last_used_ns, adapter.serial
        return 0, value, adapter.last_used_ns, adapter.serial

    return sorted(candidates, key=key)


def fewest_victims(order: Sequence[Adapter], enough: Callable[[list[int]], bool]) -> list[Adapter] | None:
    """The shortest prefix of ``order`` that is ``enough`` (of serials), without those who turn out needless.

    None when even all of them are not. ``enough`` must be monotone.
    """
    low, high = 0, len(order)
    if not enough([adapter.serial for adapter in order]):
        return None
    while low < high:
        middle = (low + high) // 2
        if enough([adapter.serial for adapter in order[:middle]]):
            high = middle
        else:
            low = middle + 1
    chosen = list(order[:low])
    # The best victims were taken first: who is spared must be the one worth most, so look from the end.
    for adapter in reversed(chosen[:-1]):
        rest = [other for other in chosen if other is not adapter]
        if enough([other.serial for other in rest]):
            chosen = rest
    return chosen
