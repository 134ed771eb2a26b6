"""Continuous batching (Orca, Yu et al., 2022) with chunked prefill (Sarathi, Agrawal et al., 2023), over adapters.

Every step takes all running sequences, decodes first, and fills what is left of its token budget with prompts.
First come, first served, with one exception: a request whose adapter is on its way is overtaken by those who can run,
until it has waited for ``starvation_ns``. When KV runs out the youngest sequence is preempted and recomputed later.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter

from engine.adapters import Adapter, AdapterTable, Place, residency_of
from engine.event_log import EventLog
from engine.executor import SequenceSlice, StepBatch
from engine.kv_cache import KVCache
from engine.messages import AddRequest
from engine.residency import Residency
from engine.sequence import Sequence
from engine.sizing import Sizes


class Scheduler:
    """Only one step is in flight at a time: ``schedule`` is called after the one before was taken back."""

    def __init__(
        self, sizes: Sizes, starvation_ns: int, kv: KVCache, residency: Residency, table: AdapterTable, events: EventLog
    ) -> None:
        self._sizes = sizes
        self._starvation_ns = starvation_ns
        self._kv = kv
        self._residency = residency
        self._table = table
        self._events = events
        self._next_order = 0
        self._steps = 0
        self._running: dict[str, Sequence] = {}
        self._waiting: dict[str, Sequence] = {}  # by arrival
        self._preempted: list[Sequence] = []  # by arrival
        self.preemptions = 0
        self.hits = 0  # requests that found their adapter in the pool when they arrived
        self.misses = 0

    # --- the line -------------------------------------------------------------

    def next_order(self) -> int:
        """A place at the end of the line."""
        self._next_order += 1
        return self._next_order

    def add(self, request: AddRequest, adapter: Adapter | None, now_ns: int) -> Sequence:
        """Queue a request and have its adapter fetched at once."""
        sequence = Sequence(request, adapter, self.next_order(), residency_of(adapter), list(request.prompt_ids))
        self._waiting[sequence.id] = sequence
        if adapter is not None:
            if sequence.residency == "hit":
                adapter.hits += 1
                self.hits += 1
            else:
                adapter.misses += 1
                self.misses += 1
            adapter.queue.add(sequence.order)
            adapter.touch(now_ns)
            self._table.mark_dirty(adapter)
            self._residency.want(adapter, "request", now_ns)
        return sequence

    def find(self, request_id: str) -> Sequence | None:
        found = self._running.get(request_id) or self._waiting.get(request_id)
        return found or next((seq for seq in self._preempted if seq.id == request_id), None)

    def in_line(self) -> Iterator[Sequence]:
        """Everything that does not run, by arrival."""
        return heapq.merge(self._preempted, self._waiting.values(), key=attrgetter("order"))

    @property
    def running(self) -> list[Sequence]:
        return list(self._running.values())

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting) + len(self._preempted)

    # --- a step ---------------------------------------------------------------

    def schedule(self, now_ns: int) -> StepBatch | None:
        """The next step, or None when nobody can run. Adapters of its members are protected before any leaves."""
        budget = self._sizes.max_batch_tokens
        preempted = self.preemptions
        slices: list[SequenceSlice] = []
        for decoding in (True, False):
            for sequence in [seq for seq in self._running.values() if seq.decoding is decoding]:
                if sequence.id not in self._running or not budget:
                    continue  # preempted a moment ago, or no tokens are left
                count = min(sequence.missing, budget)
                if self._grow_or_preempt(sequence, sequence.computed + count, now_ns):
                    budget -= count
        if preempted == self.preemptions:
            budget = self._admit(budget, now_ns)
        for sequence in self._running.values():
            if sequence.in_flight:
                slices.append(self._slice(sequence))
                if sequence.adapter is not None:
                    sequence.adapter.touch(now_ns)
        if not slices:
            return None
        self._steps += 1
        return StepBatch(self._steps, tuple(slices))

    def _admit(self, budget: int, now_ns: int) -> int:
        for sequence in list(self.in_line()):
            if not budget or len(self._running) >= self._sizes.max_seqs:
                break
            if sequence.adapter is not None and sequence.adapter.pool is not Place.HERE:
                if now_ns - sequence.request.arrival_ns > self._starvation_ns:
                    break
                continue
            # Room for its whole prompt and one more block for everybody, or it would soon be preempted again.
            blocks = self._kv.blocks_for(sequence.missing + 1) + len(self._running)
            if not self._room_for(blocks, sequence, now_ns):
                break
            self._start(sequence, now_ns)
            sequence.in_flight = min(sequence.missing, budget)
            self._kv.grow(sequence.id, sequence.in_flight)
            budget -= sequence.in_flight
        return budget

    def _room_for(self, blocks: int, sequence: Sequence, now_ns: int) -> bool:
        if not self._running:
            blocks = self._kv.blocks_for(sequence.missing + 1)
        name = sequence.adapter.name if sequence.adapter else ""
        return self._residency.make_kv_room(blocks, sequence.order, name, now_ns)

    def _start(self, sequence: Sequence, now_ns: int) -> None:
        if self._waiting.pop(sequence.id, None) is None:
            self._preempted.remove(sequence)
        self._running[sequence.id] = sequence
        sequence.scheduled_ns = sequence.scheduled_ns or now_ns
        if (adapter := sequence.adapter) is not None:
            adapter.queue.discard(sequence.order)
            adapter.running += 1
            self._table.mark_dirty(adapter)

    def _grow_or_preempt(self, sequence: Sequence, tokens: int, now_ns: int) -> bool:
        """Whether the sequence got its blocks; it may be the one that had to give way."""
        name = sequence.adapter.name if sequence.adapter else ""
        while not self._kv.can_grow(sequence.id, tokens):
            missing = self._kv.blocks_missing(sequence.id, tokens)
            if self._residency.make_kv_room(missing, sequence.order, name, now_ns):
                break
            youngest = max(self._running.values(), key=lambda other: other.order)
            self._preempt(youngest, beneficiary=name)
            if youngest is sequence:
                return False
        self._kv.grow(sequence.id, tokens)
        sequence.in_flight = tokens - sequence.computed
        return True

    def _preempt(self, sequence: Sequence, beneficiary: str) -> None:
        self.preemptions += 1
        sequence.preemptions += 1
        name = sequence.adapter.name if sequence.adapter else ""
        detail = f"{sequence.id}: KV of {sequence.computed} tokens given up, to be recomputed"
        self._events.add("preempt", name, "scheduler", detail, beneficiary=beneficiary)
        self._leave(sequence)
        sequence.computed = sequence.in_flight = 0
        self._preempted.append(sequence)
        self._preempted.sort(key=lambda other: other.order)
        if sequence.adapter is not None:
            sequence.adapter.queue.add(sequence.order)

    def _slice(self, sequence: Sequence) -> SequenceSlice:
        end = sequence.computed + sequence.in_flight
        return SequenceSlice(
            request_id=sequence.id,
            adapter=sequence.adapter.serial if sequence.adapter else -1,
            token_ids=sequence.tokens[sequence.computed : end],
            start=sequence.computed,
            block_table=self._kv.table(sequence.id),
            sample=end == len(sequence.tokens),
            sampling=sequence.request.sampling,
            output_index=sequence.output_tokens,
        )

    # --- the end of a step and of a request -------------------------------------

    def step_ended(self) -> list[Sequence]:
        """Count the step's tokens as computed. Returns the members who were aborted meanwhile, now ended."""
        aborted = []
        for sequence in list(self._running.values()):
            sequence.computed += sequence.in_flight
            sequence.in_flight = 0
            if sequence.aborted:
                self._leave(sequence)
                aborted.append(sequence)
        return aborted

    def finish(self, sequence: Sequence) -> None:
        """It leaves the running batch and gives its blocks back."""
        assert not sequence.in_flight
        self._leave(sequence)

    def abort(self, sequence: Sequence) -> bool:
        """Whether it is gone at once; a step in flight still reads its blocks, so then it ends with that step."""
        if sequence.in_flight:
            sequence.aborted = True
            return False
        if sequence.id in self._running:
            self._leave(sequence)
        else:
            if self._waiting.pop(sequence.id, None) is None:
                self._preempted.remove(sequence)
            if sequence.adapter is not None:
                sequence.adapter.queue.discard(sequence.order)
                self._table.mark_dirty(sequence.adapter)
        return True

    def _leave(self, sequence: Sequence) -> None:
        del self._running[sequence.id]
        self._kv.free(sequence.id)
        if sequence.adapter is not None:
            sequence.adapter.running -= 1
            self._table.mark_dirty(sequence.adapter)

    def check_integrity(self) -> None:
        line = list(self.in_line())
        assert [seq.order for seq in line] == sorted(seq.order for seq in line), "the line is out of order"
        assert len(self._kv) == len(self._running), "KV is held by others than the running sequences"
        for adapter in self._table:
            mine = [seq for seq in self._running.values() if seq.adapter is adapter]
            assert adapter.running == len(mine), f"{adapter.name}: running"
            assert set(adapter.queue) == {seq.order for seq in line if seq.adapter is adapter}, f"{adapter.name}: queue"
        for sequence in self._running.values():
            assert sequence.computed + sequence.in_flight <= len(sequence.tokens)
            held = self._kv.blocks_missing(sequence.id, sequence.computed + sequence.in_flight)
            assert held == 0, f"{sequence.id}: computes tokens that have no block"
