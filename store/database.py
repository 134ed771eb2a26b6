"""Opens the history file: one connection that writes, any number that read."""

from __future__ import annotations

import sqlite3
import urllib.parse
from pathlib import Path

from sqlite_utils import Database

from store.errors import HistoryError, clear_errors
from store.migrations import NEWEST, migrate, refuse_newer, version
from store.recovery import close_orphans

_BUSY_MS = 5000
_JOURNAL_BYTES = 64 << 20


def open_writer(path: Path) -> Database:
    """Creates the file and its folder, brings the schema up to date, marks runs whose process is gone as interrupted.

    The connection may move between threads, but only one may use it at a time. Raises HistoryError.
    """
    with clear_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        db = Database(_connect(str(path)))
        try:
            # WAL: readers and the writer never wait for each other. NORMAL: a commit survives a kill of the process,
            # only a power cut may take the last ones.
            mode = db.conn.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise HistoryError(f"history {path}: this file system does not support SQLite's WAL; use a local disk")
            db.conn.execute("PRAGMA synchronous = NORMAL")
            db.conn.execute("PRAGMA foreign_keys = ON")
            db.conn.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
            migrate(db, path)
            close_orphans(db)
        except BaseException:
            db.close()
            raise
        return db


def open_reader(path: Path) -> Database:
    """Reads only. A file of an older version is brought up to date first. Raises HistoryError."""
    if not path.exists():
        raise HistoryError(f"history {path}: there is none yet; it begins with the first stress test")
    with clear_errors(path):
        db = _open_read_only(path)
        try:
            refuse_newer(db, path)
            if version(db) == NEWEST:
                return db
        except BaseException:
            db.close()
            raise
        db.close()
    open_writer(path).close()
    with clear_errors(path):
        return _open_read_only(path)


def _open_read_only(path: Path) -> Database:
    db = Database(_connect(f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro", uri=True))
    try:
        db.conn.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def _connect(name: str, uri: bool = False) -> sqlite3.Connection:
    # isolation_level None: transactions begin and end where the code says so.
    return sqlite3.connect(name, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False, uri=uri)
