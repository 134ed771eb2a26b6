"""Canned telemetry: a small engine that is made up, the same every time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from engine.config import GIB, MIB
from engine.messages import (
    AdapterRow,
    EngineEvent,
    EngineInfo,
    Gauges,
    PageOwner,
    PageState,
    Snapshot,
    TelemetryDelta,
)

STARTED_NS = 1_000_000_000_000
STARTED_WALL_NS = 1_796_083_200_000_000_000


def info(num_pages: int = 256, device: str = "cpu") -> EngineInfo:
    on_gpu = device.startswith("cuda")
    return EngineInfo(
        engine="unified",
        version="0.1.0",
        model="SmolLM2-135M-Instruct",
        model_path="/models/SmolLM2-135M-Instruct",
        architecture="LlamaForCausalLM",
        device=device,
        device_name="NVIDIA H200" if on_gpu else "AMD EPYC 9554",
        link="PCIe gen5 x16" if on_gpu else "host copy",
        dtype="bfloat16" if on_gpu else "float32",
        threads=1,
        products="cuBLAS" if on_gpu else "oneDNN packed weights, float32",
        max_model_len=2048,
        max_requests=4160,
        page_bytes=16 * MIB,
        num_pages=num_pages,
        block_tokens=16,
        block_bytes=720 * 1024,
        kv_floor_pages=num_pages // 4,
        host_budget_bytes=4 * GIB,
        weights_bytes=270 * MIB,
        eviction="cost",
        pool_policy="unified",
        core_pid=31416,
        started_ns=STARTED_NS,
        started_wall_ns=STARTED_WALL_NS,
        eos_token_ids=(2,),
    )


def adapter(serial: int, name: str = "", **changes: object) -> AdapterRow:
    values: dict[str, object] = {
        "serial": serial,
        "name": name or f"tenant-adapter-{serial:03d}",
        "path": f"/adapters/tenant-adapter-{serial:03d}",
        "tier": "disk",
        "state": "idle",
        "pinned": False,
        "rank": 16,
        "modules": ("q_proj", "v_proj"),
        "bytes": int(39.8 * MIB),
        "pages": 0,
        "running": 0,
        "waiting": 0,
        "hits": 0,
        "misses": 0,
        "loads": 0,
        "evictions": 0,
        "last_used_ns": 0,
    }
    return AdapterRow(**(values | changes))  # type: ignore[arg-type]


@dataclass
class CannedEngine:
    """Moves adapters through the pool at random; ``step()`` is a tenth of a second of its life."""

    num_pages: int = 256
    num_adapters: int = 100
    pages_each: int = 3
    device: str = "cpu"
    seed: int = 7
    seq: int = 0
    t_ns: int = STARTED_NS + 60_000_000_000
    events: list[EngineEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.pages = [PageState(page, PageOwner.FREE, -1, 0) for page in range(self.num_pages)]
        names = ["acme-support", "fr-legal", "pirate", "sql-v3"]
        self.rows = {
            i: adapter(i, names[i] if i < len(names) else "", rank=(16, 64, 8, 16, 32)[i % 5])
            for i in range(self.num_adapters)
        }
        self.totals = {"generated_tokens_total": 0, "prompt_tokens_total": 0, "loads_total": 0, "evictions_total": 0}
        self.totals |= {"hits_total": 0, "misses_total": 0}
        for serial in range(min(self.num_pages // (self.pages_each * 4), self.num_adapters)):
            self._load(serial)
        for serial in (0, 1):
            self._change(serial, pinned=True)
        self._paint()
        for page in range(self.num_pages // 3):
            self.pages[page * 2 % self.num_pages] = PageState(
                page * 2 % self.num_pages, PageOwner.KV, -1, self.random.randrange(100, 1001)
            )
        self._paint()

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.seq,
            self.t_ns,
            info(self.num_pages, self.device),
            self.gauges(),
            tuple(self.pages),
            tuple(self.rows.values()),
            tuple(self.events[-500:]),
        )

    def step(self) -> TelemetryDelta:
        self.seq += 1
        self.t_ns += 100_000_000
        before_pages, before_rows, before_events = list(self.pages), dict(self.rows), len(self.events)
        wave = 1 + (self.t_ns // 10_000_000_000) % 3
        self.totals["generated_tokens_total"] += self.random.randrange(8, 30) * wave
        self.totals["prompt_tokens_total"] += self.random.choice((0, 0, 40, 90))
        self.totals["hits_total"] += self.random.randrange(1, 6)
        if self.random.random() < 0.25:
            self._swap()
        for page in self.random.sample(range(self.num_pages), k=min(8, self.num_pages)):
            self._churn(page)
        serial = self.random.randrange(self.num_adapters)
        if self.rows[serial].tier == "hbm":
            self._change(
                serial, running=self.random.randrange(4), hits=self.rows[serial].hits + 1, last_used_ns=self.t_ns
            )
        self._paint()
        return TelemetryDelta(
            self.seq,
            self.t_ns,
            self.gauges(),
            tuple(new for old, new in zip(before_pages, self.pages, strict=True) if old != new),
            tuple(row for key, row in self.rows.items() if before_rows[key] != row),
            (),
            tuple(self.events[before_events:]),
        )

    def gauges(self) -> Gauges:
        owners = [page.owner for page in self.pages]
        return Gauges(
            running=sum(row.running for row in self.rows.values()),
            waiting=2,
            free_pages=owners.count(PageOwner.FREE),
            kv_pages=owners.count(PageOwner.KV),
            partial_kv_pages=owners.count(PageOwner.KV) // 5,
            tail_waste_bytes=3 * MIB,
            host_bytes=sum(row.bytes for row in self.rows.values() if row.tier != "disk"),
            **self.totals,
        )

    def _churn(self, page: int) -> None:
        state = self.pages[page]
        if state.owner == PageOwner.KV:
            owner = PageOwner.FREE if self.random.random() < 0.15 else PageOwner.KV
            self.pages[page] = PageState(page, owner, -1, self.random.randrange(50, 1001) if owner else 0)
        elif state.owner == PageOwner.FREE and self.random.random() < 0.3:
            self.pages[page] = PageState(page, PageOwner.KV, -1, 120)

    def _swap(self) -> None:
        held = [s for s, row in self.rows.items() if row.tier == "hbm" and not row.pinned]
        waiting = [s for s, row in self.rows.items() if row.tier != "hbm"]
        if not held or not waiting:
            return
        victim, wanted = self.random.choice(held), self.random.choice(waiting)
        self._change(victim, tier="host", pages=0, running=0, evictions=self.rows[victim].evictions + 1)
        for page in self.pages:
            if page.adapter == victim:
                self.pages[page.page] = PageState(page.page, PageOwner.FREE, -1, 0)
        self.totals["evictions_total"] += 1
        self._say("evict", victim, by="policy", detail="idle 71 s", beneficiary=self.rows[wanted].name, pages=3)
        self._load(wanted)

    def _load(self, serial: int) -> None:
        free = [page.page for page in self.pages if page.owner == PageOwner.FREE][: self.pages_each]
        for page in free:
            self.pages[page] = PageState(page, PageOwner.ADAPTER, serial, 1000 if page != free[-1] else 480)
        copy_ns = self.random.randrange(2_000_000, 6_000_000)
        queue_ns = self.random.randrange(100_000, 3_000_000)
        took_ms = (copy_ns + queue_ns) / 1e6
        self._change(
            serial,
            tier="hbm",
            pages=len(free),
            misses=self.rows[serial].misses + 1,
            loads=self.rows[serial].loads + 1,
            swap_p50_ms=took_ms * 0.9,
            swap_p95_ms=took_ms * 1.3,
            last_swap_ms=took_ms,
            last_used_ns=self.t_ns,
        )
        self.totals["loads_total"] += 1
        self.totals["misses_total"] += 1
        self._say(
            "load",
            serial,
            by="request",
            bytes=self.rows[serial].bytes,
            pages=len(free),
            queue_ns=queue_ns,
            copy_ns=copy_ns,
            duration_ns=copy_ns + queue_ns,
        )

    def _paint(self) -> None:
        for page in self.pages:
            if page.adapter >= 0 and page.owner in (PageOwner.ADAPTER, PageOwner.PINNED):
                owner = PageOwner.PINNED if self.rows[page.adapter].pinned else PageOwner.ADAPTER
                if owner != page.owner:
                    self.pages[page.page] = PageState(page.page, owner, page.adapter, page.used_permille)

    def _change(self, serial: int, **changes: object) -> None:
        row = self.rows[serial]
        values = {name: getattr(row, name) for name in row.__struct_fields__}
        self.rows[serial] = AdapterRow(**(values | changes))

    def _say(self, kind: str, serial: int, **facts: object) -> None:
        self.events.append(
            EngineEvent(len(self.events), self.t_ns, kind, self.rows[serial].name, **facts)  # type: ignore[arg-type]
        )
