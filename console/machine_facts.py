"""What a run ran on and with: kept beside its figures, so that two runs can be compared years later."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import msgspec
import psutil

from engine import __version__
from engine.messages import Snapshot
from stress.spec import StressSpec

_PACKAGES = ("torch", "transformers", "vllm", "httpx", "httpx-aiohttp", "aiohttp", "uvicorn", "msgspec", "numpy")


def environment(snapshot: Snapshot, spec: StressSpec) -> dict[str, Any]:
    """``snapshot`` is the engine's at the start of the run: its adapters' ranks and sizes, its counters before."""
    wanted = set(spec.adapters)
    return {
        "machine": {
            "system": platform.platform(),
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
        },
        "versions": {"loraconsole": __version__, "python": platform.python_version()} | _versions(),
        "engine": msgspec.to_builtins(snapshot.info),
        "gauges_before": msgspec.to_builtins(snapshot.gauges),
        "adapters": [
            {"name": row.name, "rank": row.rank, "bytes": row.bytes, "pages": row.pages, "tier": row.tier,
             "content_hash": row.content_hash}
            for row in snapshot.adapters
            if row.name in wanted
        ],
    }  # fmt: skip


def _versions() -> dict[str, str]:
    """From the packages' metadata: to import torch here would cost seconds."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
