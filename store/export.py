"""A run as CSV, JSON or JSON Lines. Rows stream from the file to the target; none are held."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import msgspec
from sqlite_utils import Database

from store.errors import HistoryError
from store.queries import Run, iter_rows
from store.schema import TABLES

ExportFormat: TypeAlias = Literal["csv", "json", "jsonl"]
SCHEMA = "loraconsole-run/1"
# A spreadsheet takes a cell that begins so for a formula (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_run(db: Database, run: Run, target: Path, form: ExportFormat, table: str = "requests") -> None:
    """Writes ``target`` whole or not at all. ``table`` is for CSV: one of ``TABLES``. Raises HistoryError."""
    try:
        _write_atomically(target, lambda stream: write_run(db, run, stream, form, table))
    except OSError as error:
        raise HistoryError(f"{target}: {error.strerror or error}") from error


def write_run(db: Database, run: Run, stream: IO[str], form: ExportFormat, table: str = "requests") -> None:
    """To an open text stream."""
    if form == "csv":
        _write_csv(db, run, stream, table)
    elif form == "json":
        _write_json(db, run, stream)
    else:
        _write_jsonl(db, run, stream)


def run_object(run: Run) -> dict[str, Any]:
    """The run's row with its JSON columns as objects."""
    row: dict[str, Any] = msgspec.to_builtins(run)
    for name in ("spec", "environment", "summary"):
        text = row.pop(f"{name}_json")
        row[name] = None if text is None else msgspec.json.decode(text)
    return row


def _write_csv(db: Database, run: Run, stream: IO[str], table: str) -> None:
    if table not in TABLES:
        raise HistoryError(f"no table {table!r}; there are {', '.join(TABLES)}")
    writer = csv.writer(stream)
    writer.writerow(("run", *TABLES[table]))
    for row in iter_rows(db, table, run.number):
        writer.writerow((run.id, *map(_safe, row.values())))


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _write_json(db: Database, run: Run, stream: IO[str]) -> None:
    stream.write(f'{{"schema": "{SCHEMA}",\n"run": {_json(run_object(run))}')
    for table in TABLES:
        stream.write(f',\n"{table}": [')
        separator = "\n"
        for row in iter_rows(db, table, run.number):
            stream.write(separator + _json(row))
            separator = ",\n"
        stream.write("]")
    stream.write("}\n")


def _write_jsonl(db: Database, run: Run, stream: IO[str]) -> None:
    stream.write(_json({"type": "run", "schema": SCHEMA} | run_object(run)) + "\n")
    for table in TABLES:
        for row in iter_rows(db, table, run.number):
            stream.write(_json({"type": table} | row) + "\n")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _write_atomically(target: Path, write: Callable[[IO[str]], None]) -> None:
    """Beside the target, to disk, then renamed: a reader sees the old file or the new one, after a power cut too."""
    name = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
