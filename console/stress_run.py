"""The stress test of this console, at most one at a time. It goes on while other screens are in sight."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

from console.recorder import RecorderMessage, RecordingTrouble, record_stress
from engine.client import EngineClient, EngineUnreachableError
from engine.errors import EngineError
from engine.messages import Gauges
from store.errors import HistoryError
from stress.metrics import Progress
from stress.scenarios import adapter_words, departures
from stress.spec import SpecError, StressSpec

_LOG_LINES = 100


class StressRun:
    """``begun``: the engine's counters when it started, so that the screen can show what this run did to them."""

    def __init__(self, client: EngineClient, database_path: Path) -> None:
        self._client = client
        self._database_path = database_path
        self._cancel = asyncio.Event()
        self.running = False
        self.spec: StressSpec | None = None
        self.progress: Progress | None = None
        self.begun: Gauges | None = None
        self.last_run_id = ""
        self.log: deque[str] = deque(maxlen=_LOG_LINES)

    async def run(self, spec: StressSpec, gauges: Gauges | None) -> None:
        """Until it ended or was stopped. Errors end in ``log``."""
        assert not self.running, "one stress test at a time"
        self.running = True
        self._cancel = asyncio.Event()
        self.progress = None
        self.begun = gauges
        self.spec = spec
        preset = spec.scenario
        self.log.append(f"{preset}: {spec.requests} requests, {spec.workers} workers, {adapter_words(spec)}")
        if changed := departures(spec):
            self.log.append(f"{preset}: not as it is defined: {', '.join(changed)}")
        try:
            self.last_run_id = await record_stress(spec, self._client, self._database_path, self._hear, self._cancel)
            self.log.append(f"{preset}: recorded as {self.last_run_id}")
        except (SpecError, HistoryError, EngineUnreachableError, EngineError) as error:
            self.log.append(f"{preset}: {error}")
        finally:
            self.running = False

    def stop(self) -> None:
        """What was measured is kept, marked partial."""
        if self.running and not self._cancel.is_set():
            self._cancel.set()
            self.log.append("stopping")

    @property
    def stopping(self) -> bool:
        return self.running and self._cancel.is_set()

    def _hear(self, message: RecorderMessage) -> None:
        if isinstance(message, Progress):
            if message.last_error and (self.progress is None or message.last_error != self.progress.last_error):
                self.log.append(f"request failed: {message.last_error}")
            self.progress = message
        elif isinstance(message, RecordingTrouble):
            self.log.append(f"history: {message.text}")
