"""The vocabulary: every value that crosses a process border, and nothing else.

Times named ``*_ns`` are CLOCK_MONOTONIC nanoseconds, which all processes of one
machine share, so that stamps of the core, the server and a local client compare
without a clock sync. ``wall_ns`` values are Unix time. Sizes are bytes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeAlias

from msgspec import Struct

FinishReason: TypeAlias = Literal["stop", "length", "abort", "error"]
Tier: TypeAlias = Literal["hbm", "host", "disk"]
AdapterState: TypeAlias = Literal["idle", "reading", "copying", "active", "failed"]
AdapterAction: TypeAlias = Literal["add", "load", "evict", "pin", "unpin", "unload"]
EventKind: TypeAlias = Literal[
    "register", "read", "load", "evict", "pin", "unpin", "unload", "preempt", "abort", "refuse", "error"
]
PhaseName: TypeAlias = Literal["importing", "weights", "pool", "adapters", "warm-up", "ready"]


class PageOwner(IntEnum):
    """Who holds a page of the pool. ``RESERVED`` is for the static baselines."""

    FREE = 0
    KV = 1
    ADAPTER = 2
    COPYING = 3
    PINNED = 4
    RESERVED = 5


# --- requests: server -> core ------------------------------------------------


class SamplingParams(Struct, frozen=True):
    """How to pick tokens. ``temperature`` 0 is greedy; ``top_k`` 0 and ``top_p`` 1 are off."""

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int = 0  # how many of the best alternatives to report with each token


class AddRequest(Struct, frozen=True, tag=True):
    """One sequence to complete. ``adapter`` is empty for the base model."""

    request_id: str
    prompt_ids: tuple[int, ...]
    adapter: str
    sampling: SamplingParams
    arrival_ns: int


class AbortRequest(Struct, frozen=True, tag=True):
    request_id: str


class AdapterCommand(Struct, frozen=True, tag=True):
    """add = register (known, on disk); load = bring to HBM; evict = HBM to host; unload = forget.

    ``wait_host`` makes ``add`` answer only after the weights were read and checked.
    """

    command_id: int
    action: AdapterAction
    name: str
    path: str = ""
    by: str = "operator"
    wait_host: bool = False


class Shutdown(Struct, frozen=True, tag=True):
    """Finish nothing, free everything, exit with status 0."""


ServerMessage: TypeAlias = AddRequest | AbortRequest | AdapterCommand | Shutdown


# --- answers: core -> server -------------------------------------------------


class StartPhase(Struct, frozen=True, tag=True):
    """Progress of the start: ``done`` of ``total`` in ``unit`` (0 of 0 where it can't be counted)."""

    phase: PhaseName
    detail: str
    done: int
    total: int
    t_ns: int


class EngineInfo(Struct, frozen=True):
    """What does not change while an engine runs."""

    engine: Literal["unified", "sim"]
    version: str
    model: str  # served name
    model_path: str
    architecture: str
    device: str  # "cpu", "cuda:0", "modelled"
    device_name: str
    link: str  # "host copy" on the CPU, "PCIe gen5 x16" on a GPU, "modelled"
    dtype: str
    threads: int
    products: str  # which matrix products run, for people: "oneDNN packed weights, float32"
    max_model_len: int
    max_requests: int  # running and waiting at a time; more are refused
    page_bytes: int
    num_pages: int
    block_tokens: int
    block_bytes: int
    kv_floor_pages: int
    host_budget_bytes: int
    weights_bytes: int
    eviction: str
    pool_policy: str
    core_pid: int
    started_ns: int
    started_wall_ns: int
    eos_token_ids: tuple[int, ...]


class CoreReady(Struct, frozen=True, tag=True):
    info: EngineInfo


class CoreFailed(Struct, frozen=True, tag=True):
    """The core can't run and will exit. ``permanent``: a restart would fail in the same way."""

    code: str
    message: str
    permanent: bool


class TokenLogprob(Struct, frozen=True):
    """Log-probability of a picked token, and the best alternatives (id, logprob), best first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class RequestTiming(Struct, frozen=True):
    """Stamps of one request. ``residency`` is where its adapter was when the request was admitted.

    ``switch_ns`` is from the arrival in the core to the first step that had the adapter,
    0 for the base model.
    """

    arrival_ns: int
    scheduled_ns: int
    first_token_ns: int
    finished_ns: int
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    residency: Literal["base", "hit", "warm", "cold"]
    switch_ns: int


class TokenDelta(Struct, frozen=True):
    """New tokens of one sequence; the last delta carries ``finish_reason`` and ``timing``."""

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    timing: RequestTiming | None = None


class StepOutputs(Struct, frozen=True, tag=True):
    step: int
    t_ns: int
    deltas: tuple[TokenDelta, ...]


class RequestFailed(Struct, frozen=True, tag=True):
    """``code`` is one of ``engine.errors``' codes."""

    request_id: str
    code: str
    message: str


class CommandResult(Struct, frozen=True, tag=True):
    """``code`` is empty on success, else one of ``engine.errors``' codes."""

    command_id: int
    code: str
    message: str


# --- telemetry: core -> server -> console ------------------------------------


class PageState(Struct, frozen=True, array_like=True):
    """One page. ``adapter`` is the serial of the adapter with most bytes there of those that ``owner`` fits, -1
    without one: a shared page with a pinned tail shows whose it is.

    ``used_permille`` counts allocated slots, so a page's free part is 1000 - used.
    """

    page: int
    owner: int
    adapter: int
    used_permille: int


class AdapterRow(Struct, frozen=True):
    """One adapter as the operator sees it. Latencies are milliseconds, nan-free: None before the first swap."""

    serial: int
    name: str
    path: str
    tier: Tier
    state: AdapterState
    pinned: bool
    rank: int
    modules: tuple[str, ...]
    bytes: int
    pages: int
    running: int
    waiting: int
    hits: int
    misses: int
    loads: int
    evictions: int
    last_used_ns: int
    swap_p50_ms: float | None = None
    swap_p95_ms: float | None = None
    last_swap_ms: float | None = None
    content_hash: str = ""
    error: str = ""


class EngineEvent(Struct, frozen=True):
    """One thing that happened, with its cause.

    For kind ``load`` the phases of the swap are set: ``duration_ns`` runs from being wanted
    to usable; ``queue_ns`` waits for pages, ``disk_ns`` reads and packs, ``copy_ns`` moves bytes.
    For kind ``evict`` ``beneficiary`` names whom it made room for.
    """

    seq: int
    t_ns: int
    kind: EventKind
    adapter: str
    by: str
    detail: str = ""
    beneficiary: str = ""
    bytes: int = 0
    pages: int = 0
    duration_ns: int = 0
    queue_ns: int = 0
    disk_ns: int = 0
    copy_ns: int = 0


class Gauges(Struct, frozen=True):
    """Small numbers that change every step. ``*_total`` only grow."""

    running: int = 0
    waiting: int = 0
    free_pages: int = 0
    kv_pages: int = 0
    adapter_pages: int = 0
    partial_kv_pages: int = 0
    kv_blocks_used: int = 0
    kv_tokens: int = 0
    tail_waste_bytes: int = 0
    host_bytes: int = 0
    steps_total: int = 0
    step_ms: float = 0.0
    batch_tokens: int = 0
    prompt_tokens_total: int = 0
    generated_tokens_total: int = 0
    finished_total: int = 0
    failed_total: int = 0
    aborted_total: int = 0
    preemptions_total: int = 0
    hits_total: int = 0
    misses_total: int = 0
    loads_total: int = 0
    load_bytes_total: int = 0
    reads_total: int = 0
    evictions_total: int = 0


class RequestRow(Struct, frozen=True):
    """One live request, for the detail screen. ``age_ns`` counts from its arrival."""

    request_id: str
    adapter: str
    phase: Literal["waiting", "prefill", "decode"]
    prompt_tokens: int
    output_tokens: int
    age_ns: int


class TelemetryDelta(Struct, frozen=True, tag=True):
    """What changed since telemetry ``seq`` - 1. A missing ``seq`` means: ask for a snapshot."""

    seq: int
    t_ns: int
    gauges: Gauges
    pages: tuple[PageState, ...] = ()
    adapters: tuple[AdapterRow, ...] = ()
    removed: tuple[int, ...] = ()
    events: tuple[EngineEvent, ...] = ()
    requests: tuple[RequestRow, ...] = ()


class Snapshot(Struct, frozen=True):
    """The whole state at telemetry ``seq``: what ``GET /console/snapshot`` answers."""

    seq: int
    t_ns: int
    info: EngineInfo
    gauges: Gauges
    pages: tuple[PageState, ...]
    adapters: tuple[AdapterRow, ...]
    events: tuple[EngineEvent, ...]
    requests: tuple[RequestRow, ...] = ()


CoreMessage: TypeAlias = (
    StartPhase | CoreReady | CoreFailed | StepOutputs | RequestFailed | CommandResult | TelemetryDelta
)
