"""A run's row: begun, ended, deleted."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlite_utils import Database

from store.queries import Run, get_run
from store.recovery import process_start_s
from stress.metrics import StressSummary
from stress.spec import StressSpec
from stress.workload import plan_hash


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """``environment`` is whatever describes hardware, versions and the engine; it must encode as JSON."""

    spec: StressSpec
    engine: str
    model: str
    environment: dict[str, Any]


@contextmanager
def transaction(db: Database) -> Iterator[None]:
    """IMMEDIATE: it waits for another writer at its beginning, where nothing is lost by it."""
    db.conn.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.conn.execute("COMMIT")
    except BaseException:
        db.conn.rollback()
        raise


def new_id(wall_ns: int) -> str:
    """UTC date and time, so that ids sort, and eight random hexadecimal digits."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(wall_ns / 1e9)) + secrets.token_hex(4)


def begin(db: Database, run: NewRun) -> Run:
    """The run as it stands in the file now, with status ``running`` and this process as its owner."""
    wall_ns = time.time_ns()
    with transaction(db):
        cursor = db.conn.execute(
            "INSERT INTO runs (id, scenario, status, engine, model, started_wall_ns, started_mono_ns, owner_pid,"
            " owner_started_s, plan_hash, spec_json, environment_json)"
            " VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                new_id(wall_ns), run.spec.scenario, run.engine, run.model, wall_ns, time.monotonic_ns(), os.getpid(),
                process_start_s(os.getpid()) or 0.0, plan_hash(run.spec),
                msgspec.json.encode(run.spec.public()).decode(), msgspec.json.encode(run.environment).decode(),
            ),
        )  # fmt: skip
    assert cursor.lastrowid is not None
    return get_run(db, cursor.lastrowid)


def end(db: Database, number: int, summary: StressSummary, samples_dropped: int, rows_lost: int) -> None:
    with transaction(db):
        db.conn.execute(
            "UPDATE runs SET status = ?, reason = ?, summary_json = ?, ended_wall_ns = ?, samples_dropped = ?,"
            " rows_lost = ? WHERE number = ?",
            (
                summary.outcome, summary.reason, msgspec.json.encode(summary).decode(), time.time_ns(),
                samples_dropped, rows_lost, number,
            ),
        )  # fmt: skip
    # Between runs nobody waits for it; the log would otherwise keep the size of the largest run.
    db.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def delete(db: Database, number: int) -> None:
    """With everything that belongs to it. Raises RunNotFoundError."""
    get_run(db, number)
    with transaction(db):
        db.conn.execute("DELETE FROM runs WHERE number = ?", (number,))
