"""The top of every screen: which screen this is, how the engine is, and how fast it goes."""

from __future__ import annotations

from console.draw.engine_status import EngineStatus
from console.draw.parts import Part, spread
from console.format import DASH, age, clip, per_second, stopwatch
from console.state import ConsoleState

SCREENS = (("1", "Overview"), ("2", "Stress"), ("3", "History"), ("4", "Engine"))
BRAND = "loraconsole"
_NARROW = 100


def header_rows(
    state: ConsoleState, status: EngineStatus, pid: int | None, screen: str, notes: list[str], width: int, tall: bool
) -> list[list[Part]]:
    """One row, or two on a ``tall`` screen: the tabs get the first, the engine the second."""
    engine = _engine_row(state, status, pid, width)
    if not tall:
        return [engine]
    right: list[Part] = [(f" {note} ", "$dim") for note in notes]
    return [spread(_tabs(screen), right, width), engine]


def _tabs(screen: str) -> list[Part]:
    row: list[Part] = [(f" {BRAND}  ", "bold $primary")]
    for key, name in SCREENS:
        here = name == screen
        row.append((f" {key} {name} ", "bold $background on $primary" if here else "$dim"))
        row.append((" ", "$foreground"))
    return row


def _engine_row(state: ConsoleState, status: EngineStatus, pid: int | None, width: int) -> list[Part]:
    bad = status.tone == "$error"
    left: list[Part] = [(f" {status.lamp} {status.word} ", f"bold {'$background on $error' if bad else status.tone}")]
    if status.detail:
        left.append((f" {status.detail} ", status.tone))
    info = state.info
    if status.frozen and info is not None:
        left.append((f" FROZEN last frame {age(state.silent_s())} ago ", "bold $error"))
    elif info is not None:
        facts = [f"up {stopwatch(state.uptime_s())}", clip(info.model, 30 if width >= _NARROW else 22)]
        facts.append(f"{info.device} {clip(info.device_name, 28)}" if width >= _NARROW else info.device)
        if width >= _NARROW and pid is not None:
            facts.append(f"pid {pid}")
        left += [(f" {fact} ", "$foreground" if i == 1 else "$dim") for i, fact in enumerate(facts)]
    live = info is not None and not status.frozen
    decode = state.rates.per_second("generated_tokens_total") if live else None
    right: list[Part] = [("decode ", "$dim"), (per_second(decode, "tok") if live else DASH, "bold $primary")]
    if width >= _NARROW:
        prefill = state.rates.per_second("prompt_tokens_total") if live else None
        right += [("  prefill ", "$dim"), (per_second(prefill, "tok") if live else DASH, "$secondary")]
    return spread(left, [*right, (" ", "$foreground")], width)
