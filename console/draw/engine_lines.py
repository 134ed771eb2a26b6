"""The engine screen's rows: condition, start phases, settings, log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from console.draw.bars import progress
from console.draw.engine_status import EngineStatus, exit_words
from console.draw.parts import Part
from console.format import DASH, clip_left, count, percent, size, stopwatch
from console.state import ConsoleState
from console.words import pool_words
from engine.messages import EngineInfo, PhaseName, StartPhase
from engine.supervisor import SupervisorStatus

PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
_PHASE_WORDS: dict[PhaseName, str] = {
    "importing": "import the libraries",
    "weights": "read the base weights",
    "pool": "allocate the page pool",
    "adapters": "register the adapters",
    "warm-up": "warm up",
    "ready": "serve requests",
}
_NAME_WIDTH = 20


def state_rows(
    state: ConsoleState, status: EngineStatus, supervised: SupervisorStatus | None, url: str
) -> list[list[Part]]:
    pid = DASH if supervised is None or supervised.pid is None else str(supervised.pid)
    rows = [
        [(f"{status.lamp} {status.word}", f"bold {status.tone}"), (f"  {status.detail}", status.tone)],
        _fact("address", url),
        _fact("uptime", stopwatch(state.uptime_s())),
    ]
    if supervised is None:
        return [*rows, _fact("owner", "someone else: not started or stopped from here")]
    rows += [_fact("server pid", pid), _fact("restarts", count(supervised.restarts))]
    last_exit = exit_words(supervised)
    if last_exit:
        rows.append(_fact("last exit", f"{last_exit}  {supervised.reason}".rstrip()))
    return rows


def phase_rows(phase: StartPhase | None, is_ready: bool, width: int, ascii_only: bool = False) -> list[list[Part]]:
    """The start as a list of steps: done, under way with its progress, still to come."""
    reached = len(PHASES) if is_ready else PHASES.index(phase.phase) if phase is not None else -1
    done_mark, now_mark, open_mark = ("x", ">", ".") if ascii_only else ("✔", "▸", "·")
    rows: list[list[Part]] = []
    for index, name in enumerate(PHASES):
        words = f"{_PHASE_WORDS[name]:<{_NAME_WIDTH + 4}}"
        if index < reached:
            rows.append([(f"{done_mark} ", "bold $success"), (words, "$foreground")])
        elif index > reached or phase is None:
            rows.append([(f"{open_mark} ", "$dim"), (words, "$dim")])
        else:
            mark: list[Part] = [(f"{now_mark} ", "bold $warning"), (words, "bold $foreground")]
            rows.append(mark + _under_way(phase, width, ascii_only))
    return rows


def _under_way(phase: StartPhase, width: int, ascii_only: bool) -> list[Part]:
    if not phase.total:
        return [(phase.detail, "$dim")]
    share = phase.done / phase.total
    done, rest = progress(share, max(min(width - _NAME_WIDTH - 30, 30), 5), ascii_only)
    return [(done, "$warning"), (rest, "$free"), (f" {percent(share)} {phase.detail}", "$dim")]


def setting_rows(info: EngineInfo | None, width: int) -> list[list[Part]]:
    if info is None:
        return [[("not known until the engine is ready", "$dim")]]
    pool_bytes = info.num_pages * info.page_bytes
    threads = f"  {info.threads} {'thread' if info.threads == 1 else 'threads'}" if info.device == "cpu" else ""
    facts = [
        ("engine", f"{info.engine} {info.version}"),
        ("model", info.model),
        ("model folder", info.model_path or DASH),
        ("architecture", f"{info.architecture}, {info.dtype}, weights {size(info.weights_bytes)}"),
        ("device", f"{info.device}  {info.device_name}{threads}"),
        ("matrix products", info.products),
        ("way into the pool", info.link),
        (pool_words(info), f"{size(pool_bytes)} = {count(info.num_pages)} pages of {size(info.page_bytes)}"),
        ("KV block", f"{info.block_tokens} tokens, {size(info.block_bytes)}"),
        ("KV floor", f"{count(info.kv_floor_pages)} pages that adapters never take"),
        ("host copies", f"up to {size(info.host_budget_bytes)}"),
        ("eviction", f"{info.eviction}, pool policy {info.pool_policy}"),
        ("longest request", f"{count(info.max_model_len)} tokens"),
        ("requests at a time", f"{count(info.max_requests)}, running and waiting"),
        ("core pid", str(info.core_pid)),
    ]
    return [_fact(name, clip_left(value, max(width - _NAME_WIDTH, 10))) for name, value in facts]


def log_rows(tail: Sequence[str], height: int) -> list[list[Part]]:
    if not tail:
        return [[("nothing logged yet", "$dim")]]
    return [[(line.expandtabs(4), _log_style(line))] for line in tail[-max(height, 1) :]]


def _log_style(line: str) -> str:
    lowered = line.lower()
    if "error" in lowered or "traceback" in lowered:
        return "$error"
    return "$warning" if "warn" in lowered else "$foreground"


def _fact(name: str, value: str) -> list[Part]:
    return [(f"{name:<{_NAME_WIDTH}}", "$dim"), (value, "$foreground")]
