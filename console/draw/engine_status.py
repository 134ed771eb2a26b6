"""The engine's condition in one word, out of what the supervisor says and how the line to it is."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass

from console.format import stopwatch
from console.state import ConsoleState, Link
from engine.messages import StartPhase
from engine.supervisor import SupervisorState, SupervisorStatus

STALE_AFTER_S = 3.0


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """``tone`` is a theme variable; ``lamp`` says the same without colour."""

    lamp: str
    word: str
    detail: str
    tone: str
    frozen: bool = False

    @property
    def text(self) -> str:
        return f"{self.lamp} {self.word} {self.detail}".rstrip()


def engine_status(state: ConsoleState, status: SupervisorStatus | None) -> EngineStatus:
    """``status`` is None where the engine is someone else's."""
    if status is None:
        return _line_status(state, "ATTACHED")
    if status.state is SupervisorState.STOPPED:
        return EngineStatus("○", "STOPPED", "s starts it", "$dim", frozen=state.info is not None)
    if status.state is SupervisorState.STARTING:
        waited_s = (time.time_ns() - status.started_wall_ns) / 1e9 if status.started_wall_ns else None
        phase = state.phase or status.phase
        return EngineStatus("◌", "STARTING", f"{phase_words(phase)} {stopwatch(waited_s)}".strip(), "$warning")
    if status.state is SupervisorState.STOPPING:
        return EngineStatus("◌", "STOPPING", status.reason, "$warning", frozen=True)
    if status.state is SupervisorState.BACKOFF:
        wait = f"restart in {status.next_start_s:.0f} s" if status.next_start_s else ""
        return EngineStatus("✖", "CRASHED", f"{exit_words(status)}  {wait}".strip(), "$error", frozen=True)
    if status.state is SupervisorState.FATAL:
        return EngineStatus("✖", "FAILED", status.reason or exit_words(status), "$error", frozen=True)
    return _line_status(state, "READY")


def phase_words(phase: StartPhase | None) -> str:
    if phase is None:
        return ""
    if not phase.total:
        return phase.phase
    return f"{phase.phase} {100 * phase.done // phase.total}%"


def exit_words(status: SupervisorStatus) -> str:
    if status.exit_signal:
        try:
            return signal.Signals(status.exit_signal).name
        except ValueError:
            return f"signal {status.exit_signal}"
    return "" if status.exit_code is None else f"exit code {status.exit_code}"


def _line_status(state: ConsoleState, word: str) -> EngineStatus:
    if state.link is Link.LIVE:
        silent_s = state.silent_s()
        if silent_s > STALE_AFTER_S:
            return EngineStatus("●", word, f"stale {silent_s:.0f} s", "$warning")
        return EngineStatus("●", word, "", "$success")
    if state.link is Link.STARTING:
        return EngineStatus("◌", "STARTING", phase_words(state.phase), "$warning")
    if state.link is Link.LOST:
        return EngineStatus("✖", "LOST", state.error, "$error", frozen=True)
    return EngineStatus("◌", "CONNECTING", state.error, "$warning")
