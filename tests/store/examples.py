"""Records to write."""

from __future__ import annotations

from engine.messages import EngineEvent, Gauges
from store.runs import NewRun
from stress.metrics import RequestRecord
from stress.spec import StressSpec

MS = 1_000_000


def new_run() -> NewRun:
    spec = StressSpec(
        scenario="article-cpu", requests=100, workers=4, max_tokens=8, base_url="http://127.0.0.1:8000", model="base",
        api_key="secret",
    )  # fmt: skip
    return NewRun(spec=spec, engine="sim", model="base", environment={"machine": {"cores": 2}})


def request(seq: int, adapter: str = "tenant-0", **changes: object) -> RequestRecord:
    values: dict[str, object] = {
        "seq": seq, "adapter": adapter, "phase": "measured", "sent_ns": seq * MS, "end_ns": (seq + 50) * MS, "ok": True,
        "first_token_ns": (seq + 10) * MS, "last_token_ns": (seq + 50) * MS, "output_tokens": 8, "prompt_tokens": 20,
        "chunks": 8, "token_source": "usage", "finish_reason": "length", "http_status": 200, "residency": "hit",
        "switch_ns": 1000, "queue_ns": None,
    } | changes  # fmt: skip
    return RequestRecord(**values)  # type: ignore[arg-type]


def swap(seq: int, t_ns: int = 0) -> EngineEvent:
    t_ns = t_ns or seq * MS
    return EngineEvent(seq, t_ns, "load", "tenant-0", "request", bytes=1 << 20, pages=1, duration_ns=5, copy_ns=3)


def gauges(loads: int) -> Gauges:
    return Gauges(running=3, step_ms=1.5, loads_total=loads)
