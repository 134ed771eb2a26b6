"""What the keys do to an adapter, in words: what will happen, and what happened."""

from __future__ import annotations

from dataclasses import dataclass

from console.format import milliseconds, size
from console.words import on_gpu
from engine.client import EngineClient, EngineUnreachableError
from engine.errors import EngineError
from engine.messages import AdapterAction, AdapterRow, EngineInfo


@dataclass(frozen=True, slots=True)
class Outcome:
    """``ok`` False: nothing changed, ``text`` says why."""

    ok: bool
    text: str


_DONE: dict[AdapterAction, str] = {
    "add": "{} is registered",
    "load": "{} is on its way into the pool",
    "evict": "{} left the pool, its host copy stays",
    "pin": "{} is pinned: never evicted by policy",
    "unpin": "{} may be evicted again",
    "unload": "{} is forgotten",
}


async def act(client: EngineClient, action: AdapterAction, name: str, path: str = "") -> Outcome:
    """Asks the engine. Never raises for what the engine or the line to it can answer."""
    try:
        await client.adapter(action, name, path)
    except (EngineError, EngineUnreachableError) as error:
        return Outcome(False, f"{action} {name}: {error}")
    return Outcome(True, _DONE[action].format(name))


def evict_asks(row: AdapterRow) -> bool:
    """Whether an eviction could surprise someone."""
    return row.pinned or row.running > 0 or row.waiting > 0


def evict_consequence(row: AdapterRow | None, info: EngineInfo | None) -> list[str]:
    """What an eviction means now, read from the live row."""
    if row is None:
        return ["The engine does not know this adapter any more."]
    if row.tier != "hbm":
        return ["It holds no pages now."]
    lines = [f"Frees {row.pages} {'page' if row.pages == 1 else 'pages'} ({size(row.bytes)})."]
    if row.pinned:
        lines.append("It is PINNED: someone wanted it to stay.")
    if row.running:
        lines.append(f"{_requests(row.running)} running on it: the engine refuses until they end.")
    if row.waiting:
        lines.append(f"{_requests(row.waiting)} waiting for it: it comes back as soon as there is room.")
    if row.swap_p50_ms is not None:
        lines.append(f"The next request waits about {milliseconds(row.swap_p50_ms)} for the reload.")
    else:
        lines.append(f"The next request waits for a reload from host memory{' over the link' if on_gpu(info) else ''}.")
    return lines


def _requests(n: int) -> str:
    return "1 request is" if n == 1 else f"{n} requests are"
