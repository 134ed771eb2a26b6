"""One engine event as a line: what, whom, and why."""

from __future__ import annotations

from console.draw.parts import Part
from console.format import NS_PER_MS, milliseconds, size
from console.words import on_gpu
from engine.messages import EngineEvent, EngineInfo, EventKind

_STYLES: dict[EventKind, str] = {
    "load": "$primary",
    "read": "$secondary",
    "evict": "$accent",
    "pin": "bold $foreground",
    "unpin": "$foreground",
    "register": "$secondary",
    "unload": "$dim",
    "preempt": "$warning",
    "abort": "$warning",
    "refuse": "$warning",
    "error": "bold $error",
}


def event_parts(event: EngineEvent, info: EngineInfo | None, wide: bool) -> list[Part]:
    """``wide`` adds the phases of a swap and who asked."""
    parts: list[Part] = [(f"{event.kind:<8} ", _STYLES[event.kind])]
    if event.adapter:
        parts.append((f"{event.adapter}  ", "$foreground"))
    parts += [(f"{text}  ", "$dim") for text in _facts(event, info, wide)]
    if event.kind in ("load", "read") and event.duration_ns:
        parts.append((milliseconds(event.duration_ns / NS_PER_MS), "bold $foreground"))
    return parts


def _facts(event: EngineEvent, info: EngineInfo | None, wide: bool) -> list[str]:
    facts = []
    if event.kind == "load":
        source = "disk" if event.disk_ns else "host"
        facts.append(f"{source} to {'HBM' if on_gpu(info) else 'pool'}")
    if event.bytes:
        facts.append(size(event.bytes))
    if event.pages:
        facts.append(f"{event.pages} {'page' if event.pages == 1 else 'pages'}")
    if event.beneficiary:
        facts.append(f"for {event.beneficiary}")
    if event.detail:
        facts.append(event.detail)
    if wide and event.kind == "load" and event.duration_ns:
        phases = (("wait", event.queue_ns), ("read", event.disk_ns), ("copy", event.copy_ns))
        spent = [f"{name} {milliseconds(ns / NS_PER_MS)}" for name, ns in phases if ns]
        facts.append(" + ".join(spent))
    if wide and event.by:
        facts.append(f"by {event.by}")
    return [fact for fact in facts if fact]
