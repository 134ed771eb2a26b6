"""The engine core: one loop that takes messages in, decides, and gives steps and copies to an executor.

It never waits for anything but the executor, knows neither sockets nor threads, and runs on the executor's clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from engine import __version__
from engine.adapters import Adapter, AdapterTable
from engine.commands import Commands
from engine.config import EngineConfig
from engine.errors import EngineError, OverloadedError, PromptTooLongError, RequestError
from engine.event_log import EventLog
from engine.executor import Executor, StepBatch, StepResult
from engine.host_tier import HostTier
from engine.kv_cache import KVCache
from engine.machine import memory_bytes
from engine.messages import (
    AbortRequest,
    AdapterCommand,
    AddRequest,
    CommandResult,
    CoreMessage,
    CoreReady,
    EngineInfo,
    FinishReason,
    RequestFailed,
    ServerMessage,
    Shutdown,
    StartPhase,
    StepOutputs,
    TokenDelta,
    TokenLogprob,
)
from engine.pool import PagePool
from engine.publisher import Publisher, StepCounters
from engine.registry import Registry
from engine.residency import Residency
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.sizing import resolve_sizes

# While the executor works, messages wait at most this long.
_BUSY_WAIT_S = 0.002


class EngineCore:
    """Order of calls: ``open``, then ``handle`` and ``tick`` in any order, then ``close``."""

    def __init__(self, config: EngineConfig, executor: Executor, publish: Callable[[CoreMessage], None]) -> None:
        self._config = config
        self._executor = executor
        self._publish = publish
        self._in_flight: StepBatch | None = None
        self._moved: list[tuple[int, int]] = []  # block moves whose sources the next step's end frees
        self._counters = StepCounters()
        self._fresh = True  # something arrived or ended since ``_advance`` last looked
        self.stopping = False

    def open(self) -> None:
        """Load the model, allocate the pool, register the adapters, publish CoreReady.

        Raises ConfigError, of which ModelFolderError is one.
        """
        config, executor = self._config, self._executor
        shape = executor.shape
        self.sizes = sizes = resolve_sizes(config, shape, memory_bytes())
        executor.open(sizes.num_pages, sizes.page_bytes, sizes.block_tokens, self._publish)
        info = executor.info
        served_name = config.served_model_name or info.model_name
        self._eos = frozenset(info.eos_token_ids)
        self._events = events = EventLog(executor.now_ns)
        self.pool = PagePool(sizes.num_pages, sizes.page_bytes, sizes.block_bytes)
        self.kv = KVCache(self.pool, sizes.block_tokens)
        self.table = AdapterTable()
        self._host = HostTier(sizes.host_budget_bytes)
        self.residency = Residency(
            self.table, self.pool, self._host, sizes.adapter_limit_pages, config.eviction, executor, events
        )
        self.scheduler = Scheduler(sizes, config.starvation_ms * 1_000_000, self.kv, self.residency, self.table, events)
        registry = Registry(
            self.table, self.pool, shape, config.adapter_dirs, served_name, lambda: self._commands.pages_left(), events
        )
        self._commands = Commands(
            self.table, self.pool, self.residency, self.scheduler, registry, sizes.adapter_limit_pages, events,
            executor.now_ns, self._answer,
        )  # fmt: skip
        self._publisher = Publisher(
            self.table, self.pool, self._host, self.residency, self.scheduler, self._counters, events,
            config.telemetry_hz, self._publish,
        )  # fmt: skip
        started_ns = executor.now_ns()
        registry.add_found(
            lambda name, done, total: self._publish(StartPhase("adapters", name, done, total, executor.now_ns()))
        )
        self.info = EngineInfo(
            engine=config.engine,
            version=__version__,
            model=served_name,
            model_path=info.model_path,
            architecture=shape.architecture,
            device=info.device,
            device_name=info.device_name,
            link=info.link,
            dtype=info.dtype,
            threads=info.threads,
            products=info.products,
            max_model_len=sizes.max_model_len,
            max_requests=sizes.max_seqs + config.max_waiting,
            page_bytes=sizes.page_bytes,
            num_pages=sizes.num_pages,
            block_tokens=sizes.block_tokens,
            block_bytes=sizes.block_bytes,
            kv_floor_pages=sizes.kv_floor_pages,
            host_budget_bytes=sizes.host_budget_bytes,
            weights_bytes=info.weights_bytes,
            eviction=config.eviction,
            pool_policy=config.pool_policy,
            core_pid=os.getpid(),
            started_ns=started_ns,
            started_wall_ns=time.time_ns(),
            eos_token_ids=info.eos_token_ids,
        )
        self._publish(CoreReady(self.info))

    # --- messages ---------------------------------------------------------------

    def handle(self, message: ServerMessage) -> None:
        """Take one message. Never raises for what a client could have sent."""
        self._fresh = True
        match message:
            case AddRequest():
                try:
                    self._add(message)
                except EngineError as error:
                    self._fail(message.request_id, error.code, str(error))
            case AbortRequest(request_id):
                self._abort(request_id)
            case AdapterCommand():
                self._commands.run(message)
            case Shutdown():
                self.stopping = True

    def _add(self, request: AddRequest) -> None:
        adapter = self.table.get(request.adapter) if request.adapter else None
        if not request.prompt_ids:
            raise RequestError("the prompt is empty")
        total = len(request.prompt_ids) + request.sampling.max_tokens
        if total > self.sizes.max_model_len:
            raise PromptTooLongError(
                f"the longest sequence here is {self.sizes.max_model_len} tokens; this request asks for {total}: "
                f"{len(request.prompt_ids)} in the prompt and {request.sampling.max_tokens} to generate"
            )
        if self.scheduler.num_waiting >= self._config.max_waiting:
            raise OverloadedError(f"{self.scheduler.num_waiting} requests are waiting already: try again later")
        assert self.scheduler.find(request.request_id) is None, "request ids are unique"
        self.scheduler.add(request, adapter, self._executor.now_ns())

    def _abort(self, request_id: str) -> None:
        sequence = self.scheduler.find(request_id)
        if sequence is not None and self.scheduler.abort(sequence):
            self._aborted(sequence)

    def _aborted(self, sequence: Sequence) -> None:
        self._counters.aborted += 1
        now_ns = self._executor.now_ns()
        delta = TokenDelta(sequence.id, (), "abort", timing=sequence.timing(now_ns))
        self._publish(StepOutputs(self._counters.steps, now_ns, (delta,)))

    def _answer(self, result: CommandResult) -> None:
        # Who asked may look at once, and must see what was done.
        self._publisher.publish(self._executor.now_ns())
        self._publish(result)

    def _fail(self, request_id: str, code: str, message: str) -> None:
        self._counters.failed += 1
        self._publish(RequestFailed(request_id, code, message))

    # --- the loop ---------------------------------------------------------------

    def tick(self) -> bool:
        """One iteration. False when there is nothing to do before the next message or ``idle_wait_s``.

        Waits for the executor for up to 2 ms when that is all there is to do.
        """
        for done in self._executor.transfers():
            self._fresh = True
            adapter = self.residency.on_transfer(done)
            if adapter.error_code:
                self._fail_waiting(adapter)
            if done.kind == "read":
                self._commands.read_ended(adapter)
        if self._in_flight and (result := self._executor.collect()) is not None:
            self._fresh = True
            self._step_ended(result)
        if self._fresh:
            self._advance()
        self._publisher.publish_if_due(self._executor.now_ns())
        if self._fresh:
            return True
        if busy := self._executor.busy():
            self._executor.wait(_BUSY_WAIT_S)
        return busy

    def _advance(self) -> None:
        self._fresh = False
        now_ns = self._executor.now_ns()
        if self._in_flight:
            self.residency.advance(now_ns)
            return
        self._free_moved()
        batch = self.scheduler.schedule(now_ns)
        self.residency.advance(now_ns)  # after the batch was chosen: its adapters are safe
        if batch is None:
            return
        if self.residency.missing_pages:
            self._compact(self.residency.missing_pages)
        self._counters.batch_tokens = sum(len(part.token_ids) for part in batch.slices)
        self._in_flight = batch
        self._executor.submit(batch)

    def _compact(self, pages: int) -> None:
        """Empty KV pages for an adapter that lacks them. The step to be submitted reads the moved blocks."""
        if chosen := self.kv.plan_compaction(pages):
            self._moved = self.kv.compact(chosen)
            self._executor.copy_blocks(self._moved)

    def _free_moved(self) -> None:
        self.kv.free_sources(self._moved)
        self._moved = []

    def _step_ended(self, result: StepResult) -> None:
        counters = self._counters
        self._in_flight = None
        counters.steps += 1
        counters.step_ms = (result.ended_ns - result.started_ns) / 1e6
        for aborted in self.scheduler.step_ended():
            self._aborted(aborted)
        for request_id in result.failed:
            if (sequence := self.scheduler.find(request_id)) is not None:
                self.scheduler.finish(sequence)
                name = sequence.adapter.name if sequence.adapter else ""
                self._events.add("error", name, "engine", f"{request_id}: logits are not finite")
                self._fail(request_id, EngineError.code, "the model's logits are not finite numbers for this request")
        deltas = []
        for token in result.tokens:
            if (sequence := self.scheduler.find(token.request_id)) is not None:
                deltas.append(self._append(sequence, token.token_id, token.logprob, result.ended_ns))
        if deltas:
            self._publish(StepOutputs(counters.steps, result.ended_ns, tuple(deltas)))

    def _append(self, sequence: Sequence, token_id: int, logprob: TokenLogprob | None, now_ns: int) -> TokenDelta:
        sequence.tokens.append(token_id)
        if not sequence.first_token_ns:
            sequence.first_token_ns = now_ns
            self._counters.prompt_tokens += sequence.prompt_tokens
        self._counters.generated_tokens += 1
        reason: FinishReason | None = sequence.finish_reason(token_id, self._eos)
        timing = None
        if reason is not None:
            self.scheduler.finish(sequence)
            self._counters.finished += 1
            timing = sequence.timing(now_ns)
        return TokenDelta(sequence.id, (token_id,), reason, (logprob,) if logprob else (), timing)

    def _fail_waiting(self, adapter: Adapter) -> None:
        for sequence in [seq for seq in self.scheduler.in_line() if seq.adapter is adapter]:
            self.scheduler.abort(sequence)
            self._fail(sequence.id, adapter.error_code, f"adapter {adapter.name!r}: {adapter.error}")

    # --- rest -------------------------------------------------------------------

    def idle_wait_s(self) -> float:
        """How long nothing will happen unless a message comes."""
        return max(0.0, (self._publisher.next_ns() - self._executor.now_ns()) / 1e9)

    def drained(self) -> bool:
        """No request is known, no step or copy is under way."""
        idle = not self._in_flight and not self._executor.busy() and not self._fresh
        return idle and self.scheduler.num_running + self.scheduler.num_waiting == 0

    def check_integrity(self) -> None:
        self.pool.check_integrity()
        self.kv.check_integrity(sources=len(self._moved))
        self.residency.check_integrity()
        self.scheduler.check_integrity()

    def close(self) -> None:
        self._executor.close()
