"""How structs become rows and rows become structs: columns carry the names of the structs' fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from engine.messages import EngineEvent, Gauges
from stress.metrics import RequestRecord

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

# A table's columns besides run_number. A field that a newer struct adds reaches the file with a migration.
REQUEST_COLUMNS: Final = (
    "phase", "seq", "adapter", "sent_ns", "first_token_ns", "last_token_ns", "end_ns", "ok", "prompt_tokens",
    "output_tokens", "chunks", "token_source", "finish_reason", "http_status", "error_kind", "error_text", "residency",
    "switch_ns", "queue_ns",
)  # fmt: skip
EVENT_COLUMNS: Final = (
    "t_ns", "seq", "kind", "adapter", "by", "detail", "beneficiary", "bytes", "pages", "duration_ns", "queue_ns",
    "disk_ns", "copy_ns",
)  # fmt: skip
GAUGE_COLUMNS: Final = (
    "running", "waiting", "free_pages", "kv_pages", "adapter_pages", "partial_kv_pages", "kv_blocks_used", "kv_tokens",
    "tail_waste_bytes", "host_bytes", "steps_total", "step_ms", "batch_tokens", "prompt_tokens_total",
    "generated_tokens_total", "finished_total", "failed_total", "aborted_total", "preemptions_total", "hits_total",
    "misses_total", "loads_total", "load_bytes_total", "reads_total", "evictions_total",
)  # fmt: skip
SAMPLE_COLUMNS: Final = ("t_ns", *GAUGE_COLUMNS)
TABLES: Final = {"requests": REQUEST_COLUMNS, "swap_events": EVENT_COLUMNS, "samples": SAMPLE_COLUMNS}


def insert_sql(table: str) -> str:
    """What is there already stays: after a lost connection the engine tells its last events once more."""
    columns = ", ".join(f'"{name}"' for name in ("run_number", *TABLES[table]))
    marks = ", ".join("?" * (1 + len(TABLES[table])))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"


def request_row(number: int, record: RequestRecord) -> tuple[Any, ...]:
    return (number, *(getattr(record, name) for name in REQUEST_COLUMNS))


def event_row(number: int, event: EngineEvent) -> tuple[Any, ...]:
    return (number, *(getattr(event, name) for name in EVENT_COLUMNS))


def sample_row(number: int, t_ns: int, gauges: Gauges) -> tuple[Any, ...]:
    return (number, t_ns, *(getattr(gauges, name) for name in GAUGE_COLUMNS))


def to_struct(row: Mapping[str, Any], kind: type[_Struct]) -> _Struct:
    """SQLite knows no booleans: they come back as 0 and 1, which msgspec's lax mode takes."""
    return msgspec.convert(row, type=kind, strict=False)
