"""The schema, step by step. A step that was shipped is never edited: a change is a new step.

``PRAGMA user_version`` is the number of the newest step, set in the same transaction.
"""

from __future__ import annotations

from pathlib import Path

from sqlite_utils import Database, Migrations

from store.errors import HistoryNewerError

STEPS = Migrations("loraconsole")
NEWEST = 1

_TABLES = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    scenario TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    engine TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    started_wall_ns INTEGER NOT NULL,
    started_mono_ns INTEGER NOT NULL,
    ended_wall_ns INTEGER,
    owner_pid INTEGER NOT NULL,
    owner_started_s REAL NOT NULL,
    plan_hash TEXT NOT NULL DEFAULT '',
    spec_json TEXT NOT NULL,
    environment_json TEXT NOT NULL,
    summary_json TEXT,
    samples_dropped INTEGER NOT NULL DEFAULT 0,
    rows_lost INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_started ON runs (started_wall_ns);

CREATE TABLE requests (
    run_number INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    phase TEXT NOT NULL,
    seq INTEGER NOT NULL,
    adapter TEXT NOT NULL,
    sent_ns INTEGER NOT NULL,
    first_token_ns INTEGER NOT NULL,
    last_token_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    token_source TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    http_status INTEGER NOT NULL,
    error_kind TEXT NOT NULL,
    error_text TEXT NOT NULL,
    residency TEXT NOT NULL,
    switch_ns INTEGER,
    queue_ns INTEGER,
    PRIMARY KEY (run_number, phase, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_adapter ON requests (run_number, adapter);

CREATE TABLE swap_events (
    run_number INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    t_ns INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    adapter TEXT NOT NULL,
    "by" TEXT NOT NULL,
    detail TEXT NOT NULL,
    beneficiary TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    pages INTEGER NOT NULL,
    duration_ns INTEGER NOT NULL,
    queue_ns INTEGER NOT NULL,
    disk_ns INTEGER NOT NULL,
    copy_ns INTEGER NOT NULL,
    PRIMARY KEY (run_number, t_ns, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
    run_number INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    t_ns INTEGER NOT NULL,
    running INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    free_pages INTEGER NOT NULL,
    kv_pages INTEGER NOT NULL,
    adapter_pages INTEGER NOT NULL,
    partial_kv_pages INTEGER NOT NULL,
    kv_blocks_used INTEGER NOT NULL,
    kv_tokens INTEGER NOT NULL,
    tail_waste_bytes INTEGER NOT NULL,
    host_bytes INTEGER NOT NULL,
    steps_total INTEGER NOT NULL,
    step_ms REAL NOT NULL,
    batch_tokens INTEGER NOT NULL,
    prompt_tokens_total INTEGER NOT NULL,
    generated_tokens_total INTEGER NOT NULL,
    finished_total INTEGER NOT NULL,
    failed_total INTEGER NOT NULL,
    aborted_total INTEGER NOT NULL,
    preemptions_total INTEGER NOT NULL,
    hits_total INTEGER NOT NULL,
    misses_total INTEGER NOT NULL,
    loads_total INTEGER NOT NULL,
    load_bytes_total INTEGER NOT NULL,
    reads_total INTEGER NOT NULL,
    evictions_total INTEGER NOT NULL,
    PRIMARY KEY (run_number, t_ns)
) STRICT, WITHOUT ROWID;

CREATE VIEW requests_ms AS SELECT
    runs.id AS run, requests.phase, requests.seq, requests.adapter, requests.ok, requests.residency,
    (requests.sent_ns - runs.started_mono_ns) / 1e6 AS sent_ms,
    CASE WHEN first_token_ns > 0 THEN (first_token_ns - sent_ns) / 1e6 END AS ttft_ms,
    CASE WHEN first_token_ns > 0 AND output_tokens > 1
         THEN (last_token_ns - first_token_ns) / 1e6 / (output_tokens - 1) END AS tpot_ms,
    (end_ns - sent_ns) / 1e6 AS e2e_ms,
    switch_ns / 1e6 AS switch_ms, queue_ns / 1e6 AS queue_ms,
    prompt_tokens, output_tokens, finish_reason, http_status, error_kind, error_text
FROM requests JOIN runs ON runs.number = requests.run_number;
"""


@STEPS()
def m001_first(db: Database) -> None:
    for statement in _TABLES.split(";"):
        if statement.strip():
            db.execute(statement)
    db.execute("PRAGMA user_version = 1")


def version(db: Database) -> int:
    found = db.execute("PRAGMA user_version").fetchone()[0]
    assert isinstance(found, int)
    return found


def refuse_newer(db: Database, path: Path) -> None:
    """Raises HistoryNewerError: what a newer version wrote, this one might misread."""
    if (found := version(db)) > NEWEST:
        raise HistoryNewerError(
            f"history {path}: written by a newer loraconsole (schema {found}, this one knows {NEWEST}): "
            "update loraconsole, or choose another LORACONSOLE_DATA_DIR"
        )


def migrate(db: Database, path: Path) -> None:
    """To the newest schema. Of two processes that open a file at once, one migrates and the other waits for it."""
    refuse_newer(db, path)
    if version(db) == NEWEST:
        return
    db.conn.execute("BEGIN IMMEDIATE")
    try:
        refuse_newer(db, path)
        STEPS.apply(db)
        db.conn.execute("COMMIT")
    except BaseException:
        db.conn.rollback()
        raise
