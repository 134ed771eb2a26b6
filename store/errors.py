"""What can go wrong with the history file.

HistoryError              says what happened to which file, and what to do
  HistoryNewerError       a newer version of the program wrote it
  RunNotFoundError        no run by that id, or more than one
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HistoryError(Exception):
    pass


class HistoryNewerError(HistoryError):
    pass


class RunNotFoundError(HistoryError):
    pass


_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it can't be written: check the owner and the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened: check that the folder exists and may be read",
    sqlite3.SQLITE_BUSY: "another program holds it: close that program and try again",
    sqlite3.SQLITE_LOCKED: "another program holds it: close that program and try again",
    sqlite3.SQLITE_NOTADB: "it is not a history file: move it away to start a new history",
    sqlite3.SQLITE_CORRUPT: "it is damaged: move it away to start a new history",
    sqlite3.SQLITE_IOERR: "reading or writing it failed: check the disk",
}


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite and the file system raise into one HistoryError about ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary code; Python's own complaints have none.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise HistoryError(f"history {path}: {_ADVICE.get(code, str(error))}") from error
    except OSError as error:
        raise HistoryError(f"history {path}: {error.strerror or error}") from error
