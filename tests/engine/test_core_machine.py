"""Random histories of requests, aborts, commands and time, with every invariant checked after each step."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.adapters import Place
from engine.messages import AbortRequest
from tests.engine.core_harness import Harness

NAMES = [f"tenant-{number}" for number in range(8)]
RANKS = st.sampled_from([1, 4, 8, 16, 16, 32])
ADAPTERS = st.sampled_from(["", *NAMES])


class EngineMachine(RuleBasedStateMachine):
    @initialize(
        num_pages=st.integers(8, 24),
        kv_floor=st.sampled_from([0.1, 0.25, 0.5]),
        eviction=st.sampled_from(["cost", "lru", "lfu"]),
        host_mib=st.sampled_from([1, 30, 1000]),
        max_batch_tokens=st.sampled_from([7, 64, 512]),
        max_seqs=st.sampled_from([1, 4, 64]),
        starvation_ms=st.sampled_from([0, 50, 2000]),
        ranks=st.lists(RANKS, min_size=4, max_size=8),
    )
    def start(self, num_pages: int, ranks: list[int], **config: object) -> None:
        self.h = Harness(num_pages=num_pages, **config)
        self.count = 0
        self.aborted: set[str] = set()
        limit = self.h.core.sizes.adapter_limit_pages
        for name, rank in zip(NAMES, ranks, strict=False):
            adapter = self.h.register(name, rank)
            if adapter.layout.most_pages > limit:  # the registry refuses such
                self.h.core.table.remove(adapter)

    @rule(adapter=ADAPTERS, prompt=st.integers(1, 120), max_tokens=st.integers(1, 56))
    def request(self, adapter: str, prompt: int, max_tokens: int) -> None:
        self.count += 1
        self.h.request(f"r{self.count}", adapter, prompt, max_tokens)

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        live = [rid for rid, answer in self.h.answers.items() if not (answer.finish or answer.failed)]
        if live:
            request_id = data.draw(st.sampled_from(live))
            self.aborted.add(request_id)
            self.h.core.handle(AbortRequest(request_id))

    @rule(action=st.sampled_from(["load", "evict", "pin", "unpin", "unload"]), name=st.sampled_from(NAMES))
    def command(self, action: str, name: str) -> None:
        assert self.h.command(action, name) in self.h.results  # type: ignore[arg-type]

    @rule(name=st.sampled_from(NAMES), rank=RANKS)
    def register(self, name: str, rank: int) -> None:
        if self.h.core.table.find(name) is None:
            adapter = self.h.register(name, rank)
            if adapter.layout.most_pages > self.h.core._commands.pages_left():
                self.h.core.table.remove(adapter)

    @rule(ticks=st.integers(1, 30))
    def tick(self, ticks: int) -> None:
        for _ in range(ticks):
            self.h.core.tick()
            self.h.core.check_integrity()

    @rule(ms=st.integers(1, 3000))
    def let_time_pass(self, ms: int) -> None:
        self.h.executor.sleep_until(self.h.executor.now_ns() + ms * 1_000_000)

    @invariant()
    def whole(self) -> None:
        self.h.core.check_integrity()

    def teardown(self) -> None:
        if not hasattr(self, "h"):
            return
        h = self.h
        h.run()
        h.core.check_integrity()
        for request_id, answer in h.answers.items():
            assert (answer.finish is None) != (answer.failed is None), f"{request_id}: not ended exactly once"
            if answer.finish == "abort":
                assert request_id in self.aborted
        assert h.core.pool.kv_pages == 0
        for adapter in list(h.core.table):
            assert adapter.pool is Place.HERE or not adapter.pinned, "a pinned adapter is not there"
            h.command("evict", adapter.name)
            h.command("unload", adapter.name)
        assert len(h.core.table) == 0
        assert h.core.pool.free_pages == h.core.pool.num_pages
        assert h.core._host.used_bytes == 0
        h.flush_telemetry()
        assert h.state.pages == [h.core.pool.page_state(page) for page in range(h.core.pool.num_pages)]


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
