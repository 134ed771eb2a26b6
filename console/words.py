"""Words that depend on where the engine runs: a CPU has no HBM and no PCIe link, so they are never claimed."""

from __future__ import annotations

from engine.messages import AdapterRow, EngineInfo, Tier

TIER_ORDER: dict[Tier, int] = {"hbm": 0, "host": 1, "disk": 2}


def on_gpu(info: EngineInfo | None) -> bool:
    return info is not None and info.device.startswith("cuda")


def tier_word(tier: Tier, info: EngineInfo | None) -> str:
    if tier == "hbm":
        return "HBM" if on_gpu(info) else "pool"
    return tier


def pool_words(info: EngineInfo | None) -> str:
    """What the pool is made of."""
    if info is None:
        return "Pool"
    if info.device.startswith("cuda"):
        return "HBM pool"
    return "CPU memory pool" if info.device == "cpu" else "Modelled pool"


def load_words(info: EngineInfo | None) -> str:
    """What a load moves: ``host copy`` on the CPU."""
    if info is None:
        return "host to pool"
    return f"host to HBM, {info.link}" if on_gpu(info) else info.link


def state_word(row: AdapterRow, info: EngineInfo | None) -> str:
    """One word for the state column: what the adapter is doing, or where it rests."""
    if row.state == "failed":
        return "FAILED"
    if row.state in ("reading", "copying"):
        return row.state
    if row.pinned:
        return "PINNED"
    if row.running or row.state == "active":
        return "active"
    return {"hbm": "ready", "host": "warm", "disk": "cold"}[row.tier]
