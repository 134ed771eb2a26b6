"""Reading the history. Cursors are walked in short steps: no reader keeps the write-ahead log from shrinking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from sqlite_utils import Database

from engine.messages import EngineEvent, Gauges
from store.errors import RunNotFoundError
from store.schema import EVENT_COLUMNS, REQUEST_COLUMNS, SAMPLE_COLUMNS, TABLES, to_struct
from stress.metrics import RequestRecord, StressSummary
from stress.spec import StressSpec

RunStatus: TypeAlias = Literal["running", "finished", "interrupted", "failed"]
_PAGE_ROWS = 2000


class Run(Struct, frozen=True, kw_only=True):
    """One run. ``spec_json`` and ``environment_json`` are as written then; ``summary_json`` is None while it runs."""

    number: int
    id: str
    scenario: str
    status: RunStatus
    reason: str
    engine: str
    model: str
    started_wall_ns: int
    started_mono_ns: int
    ended_wall_ns: int | None
    owner_pid: int
    owner_started_s: float
    plan_hash: str
    spec_json: str
    environment_json: str
    summary_json: str | None
    samples_dropped: int
    rows_lost: int

    @property
    def summary(self) -> StressSummary | None:
        """None while it runs."""
        return msgspec.json.decode(self.summary_json, type=StressSummary) if self.summary_json else None

    @property
    def spec(self) -> StressSpec:
        """Without secrets."""
        return msgspec.json.decode(self.spec_json, type=StressSpec)

    @property
    def partial(self) -> bool:
        """Whether its figures are over less than was asked for."""
        return self.status in ("interrupted", "failed")


class Sample(Struct, frozen=True):
    t_ns: int
    gauges: Gauges


def list_runs(db: Database, limit: int = 1000, offset: int = 0) -> list[Run]:
    """Newest first."""
    rows = db.query("SELECT * FROM runs ORDER BY number DESC LIMIT ? OFFSET ?", [limit, offset])
    return [to_struct(row, Run) for row in rows]


def get_run(db: Database, number: int) -> Run:
    """Raises RunNotFoundError."""
    for row in db.query("SELECT * FROM runs WHERE number = ?", [number]):
        return to_struct(row, Run)
    raise RunNotFoundError(f"there is no run {number}")


def find_run(db: Database, text: str) -> Run:
    """By number (``38`` or ``#38``) or by the beginning of its id; ``last`` is the newest. Raises RunNotFoundError."""
    text = text.strip()
    if text == "last":
        if runs := list_runs(db, limit=1):
            return runs[0]
        raise RunNotFoundError("there is no run yet")
    digits = text.removeprefix("#")
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        for row in db.query("SELECT * FROM runs WHERE number = ?", [int(digits)]):
            return to_struct(row, Run)
    found = [
        to_struct(row, Run)
        for row in db.query("SELECT * FROM runs WHERE substr(id, 1, ?) = ? ORDER BY number LIMIT 6", [len(text), text])
    ]
    if not text or not found:
        raise RunNotFoundError(f"there is no run {text!r}")
    if len(found) > 1 and found[0].id != text:
        raise RunNotFoundError(f"{text!r} fits several runs: {', '.join(run.id for run in found[:5])}")
    return found[0]


def iter_requests(db: Database, number: int) -> Iterator[RequestRecord]:
    """Warm-up requests too, in the order in which they were planned."""
    for row in _pages(db, "requests", number, REQUEST_COLUMNS, ("phase", "seq")):
        yield to_struct(row, RequestRecord)


def iter_swaps(db: Database, number: int) -> Iterator[EngineEvent]:
    for row in _pages(db, "swap_events", number, EVENT_COLUMNS, ("t_ns", "seq")):
        yield to_struct(row, EngineEvent)


def iter_samples(db: Database, number: int) -> Iterator[Sample]:
    for row in _pages(db, "samples", number, SAMPLE_COLUMNS, ("t_ns",)):
        yield Sample(row["t_ns"], to_struct(row, Gauges))


def iter_rows(db: Database, table: str, number: int) -> Iterator[dict[str, Any]]:
    """The rows of one of ``TABLES`` as they stand."""
    keys = {"requests": ("phase", "seq"), "swap_events": ("t_ns", "seq"), "samples": ("t_ns",)}
    return _pages(db, table, number, TABLES[table], keys[table])


def count_rows(db: Database, table: str, number: int) -> int:
    assert table in TABLES
    return int(db.execute(f"SELECT count(*) FROM {table} WHERE run_number = ?", [number]).fetchone()[0])


def _pages(
    db: Database, table: str, number: int, columns: tuple[str, ...], key: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """All rows of a run by key, a page a statement: no cursor stays open while the caller works."""
    names = ", ".join(f'"{name}"' for name in columns)
    order = ", ".join(key)
    after: list[Any] = []
    while True:
        beyond = f"AND ({order}) > ({', '.join('?' * len(key))})" if after else ""
        sql = f"SELECT {names} FROM {table} WHERE run_number = ? {beyond} ORDER BY {order} LIMIT {_PAGE_ROWS}"
        rows = list(db.query(sql, [number, *after]))
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        after = [rows[-1][name] for name in key]
