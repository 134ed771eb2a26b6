"""A stress test with everything around it written to the history: the screen and the command line call this."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from console.machine_facts import environment
from engine.client import EngineUnreachableError
from engine.errors import EngineError
from engine.messages import Snapshot, StartPhase, TelemetryDelta
from store.errors import HistoryError
from store.runs import NewRun
from store.writer import HistoryWriter
from stress.metrics import RecordBatch, RequestRecord, StressMessage, StressSummary
from stress.runner import run_stress
from stress.spec import StressSpec
from stress.statistics import summarize

_SWAPS = frozenset({"load", "evict", "read"})
_FIRST_SNAPSHOT_S = 10.0
# A busy engine may answer late; one that is gone for this long is gone.
_GIVE_UP_S = 5.0
_RETRY_S = 0.5
# An engine with nothing to do sends telemetry once a second.
_LAST_WORDS_S = 2.0


class RecordingTrouble(msgspec.Struct, frozen=True):
    """The history takes no more rows; the run goes on."""

    text: str


RecorderMessage: TypeAlias = StressMessage | RecordingTrouble


class TelemetrySource(Protocol):
    """The part of EngineClient that is needed here."""

    def telemetry(self) -> AsyncIterator[StartPhase | Snapshot | TelemetryDelta]: ...


async def record_stress(
    spec: StressSpec,
    client: TelemetrySource,
    database_path: Path,
    on_progress: Callable[[RecorderMessage], None],
    cancel: asyncio.Event,
) -> str:
    """Runs ``spec`` and returns the id of the run; ``cancel`` ends it early and keeps what there is.

    Raises SpecError, EngineUnreachableError or HistoryError before anything was sent, and HistoryError at the end
    when the run could not be closed in the file. When the engine dies the run ends as interrupted.
    """
    spec = spec.checked()
    loop = asyncio.get_running_loop()

    def on_error(error: HistoryError) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may have closed in the meantime
            loop.call_soon_threadsafe(on_progress, RecordingTrouble(str(error)))

    listener = _Listener(client)
    writer = HistoryWriter(database_path, on_error)
    async with listener.running():
        snapshot = await listener.first()
        try:
            await asyncio.wrap_future(writer.start())
            info = snapshot.info
            new = NewRun(spec=spec, engine=info.engine, model=info.model, environment=environment(snapshot, spec))
            run = await asyncio.wrap_future(writer.begin_run(new))
            listener.record(writer, run.number)
            await _run(spec, writer, run.number, listener, on_progress, cancel)
            return run.id
        finally:
            await asyncio.to_thread(writer.close)


async def _run(
    spec: StressSpec,
    writer: HistoryWriter,
    number: int,
    listener: _Listener,
    on_progress: Callable[[RecorderMessage], None],
    cancel: asyncio.Event,
) -> None:
    records: list[RequestRecord] = []
    stop = asyncio.Event()

    def on_message(message: StressMessage) -> None:
        if isinstance(message, RecordBatch):
            records.extend(message.records)
            writer.add_requests(number, message.records)
        on_progress(message)

    watchers = [asyncio.create_task(_set_after(event, stop)) for event in (cancel, listener.lost)]
    summary: StressSummary | None = None
    try:
        summary = await run_stress(spec, on_message, stop)
        if listener.lost.is_set() and not cancel.is_set():
            summary = msgspec.structs.replace(summary, outcome="interrupted", reason=listener.why)
        elif summary.outcome != "interrupted" or cancel.is_set():
            await listener.last_words()
    finally:
        for watcher in watchers:
            watcher.cancel()
        if summary is None:
            summary = summarize(records, spec.requests, "interrupted", "the program that ran it was stopped")
        await asyncio.shield(asyncio.wrap_future(writer.end_run(number, summary)))


async def _set_after(event: asyncio.Event, stop: asyncio.Event) -> None:
    await event.wait()
    stop.set()


class _Listener:
    """Follows the engine's telemetry, through a broken line too, and notices when the engine itself is gone."""

    def __init__(self, client: TelemetrySource) -> None:
        self.lost = asyncio.Event()
        self.why = ""
        self._client = client
        self._first: asyncio.Future[Snapshot] = asyncio.get_running_loop().create_future()
        self._heard = asyncio.Condition()
        self._heard_ns = 0
        self._writer: HistoryWriter | None = None
        self._number = 0
        self._since_ns = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._first.cancel()

    async def first(self) -> Snapshot:
        """Raises EngineUnreachableError; an engine that still starts counts as unreachable."""
        try:
            async with asyncio.timeout(_FIRST_SNAPSHOT_S):
                return await asyncio.shield(self._first)
        except TimeoutError as error:
            raise EngineUnreachableError("the engine is not ready") from error

    def record(self, writer: HistoryWriter, number: int) -> None:
        self._writer, self._number, self._since_ns = writer, number, time.monotonic_ns()

    async def last_words(self) -> None:
        """Wait until telemetry tells what happened up to now: the last swaps belong to the run."""
        now_ns = time.monotonic_ns()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S), self._heard:
                await self._heard.wait_for(lambda: self._heard_ns >= now_ns)

    async def _follow(self) -> None:
        gone_since_ns = 0
        while not self.lost.is_set():
            why = "the engine closed the line"
            try:
                async for message in self._client.telemetry():
                    gone_since_ns = 0
                    await self._take(message)
            except (EngineUnreachableError, EngineError) as error:
                why = str(error)
            if not self._first.done():
                self._first.set_exception(EngineUnreachableError(why))
                return
            gone_since_ns = gone_since_ns or time.monotonic_ns()
            if time.monotonic_ns() - gone_since_ns > _GIVE_UP_S * 1e9:
                self._lose(f"the engine is gone: {why}")
            await asyncio.sleep(_RETRY_S)

    async def _take(self, message: StartPhase | Snapshot | TelemetryDelta) -> None:
        if isinstance(message, StartPhase):
            if self._first.done():
                self._lose("the engine was restarted")
            return
        if isinstance(message, Snapshot):
            if not self._first.done():
                self._first.set_result(message)
            elif message.info.started_ns != self._first.result().info.started_ns:
                self._lose("the engine was restarted")
                return
        if self._writer is not None:
            swaps = [event for event in message.events if event.kind in _SWAPS and event.t_ns >= self._since_ns]
            self._writer.add_swaps(self._number, swaps)
            self._writer.add_sample(self._number, message.t_ns, message.gauges)
        async with self._heard:
            self._heard_ns = message.t_ns
            self._heard.notify_all()

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            self.why = why
            self.lost.set()
