from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.kv_cache import KVCache
from engine.pool import PagePool


class KVMachine(RuleBasedStateMachine):
    """Tables against a plain model: every token stays where it was written, whatever is compacted."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(num_pages=12, page_bytes=1 << 20, block_bytes=1 << 17)  # 8 blocks a page
        self.kv = KVCache(self.pool, block_tokens=4)
        self.tokens: dict[str, int] = {}
        self.content: dict[int, tuple[str, int]] = {}  # block -> what was written there

    @rule(name=st.sampled_from("abcdefgh"), more=st.integers(1, 40))
    def grow(self, name: str, more: int) -> None:
        wanted = self.tokens.get(name, 0) + more
        if self.kv.can_grow(name, wanted):
            self.kv.grow(name, wanted)
            self.tokens[name] = wanted
            for index, block in enumerate(self.kv.table(name)):
                self.content[block] = name, index

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tokens)))
        self.kv.free(name)
        del self.tokens[name]

    @rule(pages=st.integers(1, 5), most=st.integers(1, 20))
    def compact(self, pages: int, most: int) -> None:
        chosen = self.kv.plan_compaction(pages, most)
        free_before = self.pool.free_pages
        moves = self.kv.compact(chosen)
        assert len(moves) <= most
        for source, destination in moves:
            assert destination // 8 not in chosen
            self.content[destination] = self.content[source]
        self.kv.check_integrity(sources=len(moves))
        self.kv.free_sources(moves)
        assert self.pool.free_pages == free_before + len(chosen)

    @invariant()
    def whole(self) -> None:
        self.kv.check_integrity()
        self.pool.check_integrity()
        for name, tokens in self.tokens.items():
            table = self.kv.table(name)
            assert len(table) == -(-tokens // 4)
            assert [self.content[block] for block in table] == [(name, index) for index in range(len(table))]

    def teardown(self) -> None:
        for name in list(self.tokens):
            self.kv.free(name)
        assert self.pool.free_pages == 12


TestKVMachine = KVMachine.TestCase
TestKVMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
