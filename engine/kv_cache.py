"""Block tables: which KV blocks hold the tokens of which sequence, and how to empty nearly empty pages."""

from __future__ import annotations

from engine.pool import PagePool

# A block is a few MiB at most and a device copies hundreds of GB a second: 256 moves stay below a step's time.
MOST_MOVES = 256


class KVCache:
    """Sequences are known by their request id and own their blocks alone."""

    def __init__(self, pool: PagePool, block_tokens: int) -> None:
        self._pool = pool
        self.block_tokens = block_tokens
        self._tables: dict[str, list[int]] = {}
        self._owner: dict[int, tuple[str, int]] = {}  # block -> (request id, index in its table)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def blocks_missing(self, request_id: str, tokens: int) -> int:
        """Blocks that the sequence lacks to hold ``tokens`` tokens."""
        return max(0, self.blocks_for(tokens) - len(self._tables.get(request_id, ())))

    def can_grow(self, request_id: str, tokens: int) -> bool:
        return self.blocks_missing(request_id, tokens) <= self._pool.available_blocks

    def grow(self, request_id: str, tokens: int) -> None:
        """Make the sequence's table long enough for ``tokens`` tokens. A no-op when it is."""
        table = self._tables.setdefault(request_id, [])
        for _ in range(self.blocks_missing(request_id, tokens)):
            block = self._pool.alloc_block()
            self._owner[block] = request_id, len(table)
            table.append(block)

    def table(self, request_id: str) -> list[int]:
        """The sequence's own table, not a copy: compaction changes it in place."""
        return self._tables[request_id]

    def free(self, request_id: str) -> None:
        """A no-op for a sequence without blocks."""
        for block in self._tables.pop(request_id, ()):
            del self._owner[block]
            self._pool.free_block(block)

    def plan_compaction(self, pages: int, max_moves: int = MOST_MOVES) -> list[int]:
        """Up to ``pages`` KV pages, the emptiest, whose blocks all find room in the other partly filled pages."""
        size = self._pool.blocks_per_page
        partial = self._pool.partial_pages_emptiest_first()
        used = {page: len(self._pool.used_blocks_in(page)) for page in partial}
        room = sum(size - count for count in used.values())
        chosen: list[int] = []
        moves = 0
        for page in partial:
            room -= size - used[page]
            moves += used[page]
            if len(chosen) == pages or moves > max_moves or moves > room:
                break
            chosen.append(page)
        return chosen

    def compact(self, pages: list[int]) -> list[tuple[int, int]]:
        """Move every block out of ``pages`` (from ``plan_compaction``): (source, destination) pairs to be copied.

        The tables name the destinations from now on. The sources stay allocated until ``free_sources``, because a
        step in flight may still read them.
        """
        leaving = set(pages)
        targets = [page for page in self._pool.partial_pages_emptiest_first() if page not in leaving]
        moves: list[tuple[int, int]] = []
        for page in pages:
            for source in self._pool.used_blocks_in(page):
                while len(self._pool.used_blocks_in(targets[-1])) == self._pool.blocks_per_page:
                    targets.pop()
                destination = self._pool.alloc_block_in(targets[-1])
                request_id, index = self._owner.pop(source)
                self._owner[destination] = request_id, index
                self._tables[request_id][index] = destination
                moves.append((source, destination))
        return moves

    def free_sources(self, moves: list[tuple[int, int]]) -> None:
        for source, _ in moves:
            self._pool.free_block(source)

    def __len__(self) -> int:
        """Sequences that have blocks."""
        return len(self._tables)

    def check_integrity(self, sources: int = 0) -> None:
        """``sources``: blocks that were moved away from and not freed yet."""
        owned = {block: (rid, index) for rid, table in self._tables.items() for index, block in enumerate(table)}
        assert owned == self._owner, "tables and owners differ"
        assert len(owned) == sum(map(len, self._tables.values())), "a block is in two tables"
        assert len(owned) + sources == self._pool.kv_blocks_used, "a block is lost"
