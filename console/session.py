"""What the screens share: the engine's state, the way to it, and where runs are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from console.draw.engine_status import EngineStatus, engine_status
from console.options import ConsoleOptions
from console.state import ConsoleState, Link
from console.stress_run import StressRun
from engine.client import EngineClient
from engine.supervisor import EngineSupervisor, SupervisorState, SupervisorStatus

_DOWN = (SupervisorState.STOPPED, SupervisorState.BACKOFF, SupervisorState.FATAL)


@dataclass(slots=True)
class Session:
    """``supervisor`` is None where the engine is someone else's: it is then neither started nor stopped here."""

    client: EngineClient
    supervisor: EngineSupervisor | None
    database_path: Path
    state_dir: Path
    options: ConsoleOptions
    state: ConsoleState = field(default_factory=ConsoleState)
    letters: bool = False
    api_key: str = ""
    open_run: str = ""  # the run that the history screen shows when it comes up
    stress: StressRun = field(init=False)

    def __post_init__(self) -> None:
        self.stress = StressRun(self.client, self.database_path)

    @property
    def supervised(self) -> SupervisorStatus | None:
        return None if self.supervisor is None else self.supervisor.status

    @property
    def status(self) -> EngineStatus:
        return engine_status(self.state, self.supervised)

    @property
    def live(self) -> bool:
        return self.state.link is Link.LIVE

    def can_start(self) -> bool:
        return self.supervised is not None and self.supervised.state in _DOWN

    def can_stop(self) -> bool:
        return self.supervised is not None and self.supervised.state not in (
            SupervisorState.STOPPED,
            SupervisorState.STOPPING,
            SupervisorState.FATAL,
        )
