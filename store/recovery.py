"""Runs that nobody will end any more, because the process that recorded them is gone."""

from __future__ import annotations

import time

import msgspec
import psutil
from sqlite_utils import Database

from store.queries import Run, iter_requests
from store.schema import to_struct
from stress.spec import StressSpec
from stress.statistics import summarize

# Start times of the same process, read at different times, may differ by what the clock was set in between.
_SAME_START_S = 2.0
_REASON = "the program that recorded it ended without finishing it"


def process_start_s(pid: int) -> float | None:
    """Unix time at which the process started; None when there is none."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def close_orphans(db: Database) -> None:
    """Marks them interrupted, with the figures of what they had. A pid alone is not enough: pids are reused."""
    for row in list(db.query("SELECT * FROM runs WHERE status = 'running'")):
        run = to_struct(row, Run)
        started_s = process_start_s(run.owner_pid)
        if started_s is not None and abs(started_s - run.owner_started_s) < _SAME_START_S:
            continue
        records = list(iter_requests(db, run.number))
        offered = msgspec.json.decode(run.spec_json, type=StressSpec).requests
        summary = msgspec.json.encode(summarize(records, offered, "interrupted", _REASON)).decode()
        ended_ns = max((record.end_ns for record in records), default=run.started_mono_ns)
        db.conn.execute(
            "UPDATE runs SET status = 'interrupted', reason = ?, summary_json = ?, ended_wall_ns = ?"
            " WHERE number = ? AND status = 'running'",
            (_REASON, summary, min(time.time_ns(), run.started_wall_ns + ended_ns - run.started_mono_ns), run.number),
        )
