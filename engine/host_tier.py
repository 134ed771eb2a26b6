"""The budget of page images in host memory."""

from __future__ import annotations

from engine.adapters import Adapter, AdapterTable, Place


class HostTier:
    """Counts bytes of images that are there or being read. Dropping one costs a later read from disk, no more."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0

    def take(self, adapter: Adapter) -> None:
        self.used_bytes += adapter.layout.image_bytes

    def give_back(self, adapter: Adapter) -> None:
        self.used_bytes -= adapter.layout.image_bytes

    def victims_for(self, adapter: Adapter, order: int, table: AdapterTable) -> list[Adapter] | None:
        """Images to drop so that ``adapter``'s fits; None while too many are in use. ``order``: its place in the line.

        Longest unused first. An image is in use while it is copied and while it is wanted in the pool by someone
        before ``order``. An image larger than the whole budget may exist alone: it could never be served otherwise.
        """
        over = self.used_bytes + adapter.layout.image_bytes - self.budget_bytes
        droppable = [
            other
            for other in table
            if other.host is Place.HERE and other.pool is not Place.COMING and (not other.wanted or other.order > order)
        ]
        droppable.sort(key=lambda other: (other.wanted, other.last_used_ns, other.serial))
        victims: list[Adapter] = []
        freed = 0
        for other in droppable:
            if freed >= over:
                break
            victims.append(other)
            freed += other.layout.image_bytes
        return victims if freed >= over or freed == self.used_bytes else None

    def check_integrity(self, table: AdapterTable) -> None:
        images = sum(adapter.layout.image_bytes for adapter in table if adapter.host is not Place.ABSENT)
        assert images == self.used_bytes, "host bytes and images differ"
