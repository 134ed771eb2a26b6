"""An EngineCore on virtual time: what the tests of the scheduler and of the adapters drive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.adapters import Adapter
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.messages import (
    AdapterAction,
    AdapterCommand,
    AddRequest,
    CommandResult,
    CoreMessage,
    EngineEvent,
    FinishReason,
    RequestFailed,
    RequestTiming,
    SamplingParams,
    StepOutputs,
    TelemetryDelta,
)
from engine.modelled_executor import MODELLED_SHAPE, ModelledExecutor
from engine.packing import pack
from engine.peft import AdapterManifest
from engine.telemetry import TelemetryState
from tests.engine.synthetic import make_manifest


@dataclass(slots=True)
class Answer:
    tokens: list[int] = field(default_factory=list)
    finish: FinishReason | None = None
    failed: RequestFailed | None = None
    timing: RequestTiming | None = None


class Harness:
    """Pages of 4 MiB: rank 4 takes 3 of a page's 4 units, rank 16 takes 2 and a half, rank 64 takes 10."""

    def __init__(self, num_pages: int = 20, **config: object) -> None:
        values = {"engine": "sim", "page_mib": 4, "pool_mib": 4 * num_pages, "host_mib": 200, "max_model_len": 176}
        self.config = EngineConfig(**(values | config))  # type: ignore[arg-type]
        self.executor = ModelledExecutor(self.config, realtime=False)
        self.messages: list[CoreMessage] = []
        self.answers: dict[str, Answer] = {}
        self.results: dict[int, CommandResult] = {}
        self.events: list[EngineEvent] = []
        self.core = EngineCore(self.config, self.executor, self._take)
        self.core.open()
        self.state = TelemetryState(self.core.info)
        self._commands = 0

    def _take(self, message: CoreMessage) -> None:
        self.messages.append(message)
        match message:
            case StepOutputs():
                for delta in message.deltas:
                    answer = self.answers[delta.request_id]
                    assert answer.finish is None, "tokens after the end"
                    answer.tokens += delta.token_ids
                    answer.finish = delta.finish_reason
                    answer.timing = delta.timing
            case RequestFailed():
                assert self.answers[message.request_id].failed is None
                self.answers[message.request_id].failed = message
            case CommandResult():
                assert message.command_id not in self.results, "answered twice"
                self.results[message.command_id] = message
            case TelemetryDelta():
                self.state.apply(message)
                self.events += message.events

    def register(self, name: str, rank: int = 16) -> Adapter:
        manifest: AdapterManifest = make_manifest(name, MODELLED_SHAPE, rank)
        return self.core.table.register(name, manifest, pack(manifest, 2, self.core.pool.page_bytes))

    def request(
        self, request_id: str, adapter: str = "", prompt: int = 8, max_tokens: int = 4, seed: int | None = None
    ) -> Answer:
        self.answers[request_id] = Answer()
        sampling = SamplingParams(max_tokens=max_tokens, temperature=0, seed=seed)
        ids = tuple(range(1, prompt + 1))
        self.core.handle(AddRequest(request_id, ids, adapter, sampling, self.executor.now_ns()))
        return self.answers[request_id]

    def command(self, action: AdapterAction, name: str, path: str = "", wait_host: bool = False) -> int:
        self._commands += 1
        self.core.handle(AdapterCommand(self._commands, action, name, path, wait_host=wait_host))
        return self._commands

    def code(self, action: AdapterAction, name: str, path: str = "") -> str:
        """The error code of a command that is answered at once; empty on success."""
        return self.results[self.command(action, name, path)].code

    def run(self, until: Callable[[], bool] | None = None, most_ticks: int = 20_000) -> None:
        """Tick until ``until`` or, without it, until drained."""
        for _ in range(most_ticks):
            if until() if until else self.core.drained():
                return
            self.core.tick()
        raise AssertionError(f"not reached within {most_ticks} ticks")

    def flush_telemetry(self) -> None:
        self.executor.sleep_until(self.executor.now_ns() + 2_000_000_000)
        self.core.tick()

    def events_of(self, kind: str) -> list[EngineEvent]:
        self.flush_telemetry()
        return [event for event in self.events if event.kind == kind]
