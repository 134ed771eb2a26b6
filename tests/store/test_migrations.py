from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from store.database import open_reader, open_writer
from store.errors import HistoryNewerError
from store.migrations import NEWEST, STEPS, version
from store.queries import list_runs


def _schema(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    connection.close()
    return rows


def test_empty_file_becomes_the_newest(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    db = open_reader(path)
    assert version(db) == NEWEST == len(STEPS.applied(db))
    assert list_runs(db) == []
    db.close()


def test_second_opening_changes_nothing(path: Path) -> None:
    open_writer(path).close()
    before = _schema(path)
    open_writer(path).close()
    assert _schema(path) == before


def test_newer_file_is_refused_and_left_alone(path: Path) -> None:
    open_writer(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    connection.close()
    before = path.read_bytes()
    for opening in (open_writer, open_reader):
        with pytest.raises(HistoryNewerError, match="newer loraconsole"):
            opening(path)
    assert path.read_bytes() == before


def test_failed_step_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    monkeypatch.setattr("store.migrations._TABLES", "CREATE TABLE runs (number INTEGER) STRICT; CREATE NONSENSE")
    with pytest.raises(Exception, match="syntax error"):
        open_writer(path)
    assert _schema(path) == []
    monkeypatch.undo()
    open_writer(path).close()


def test_many_open_a_new_file_at_once(path: Path) -> None:
    path.parent.mkdir()
    faults: list[BaseException] = []
    gate = threading.Barrier(6)

    def opening() -> None:
        try:
            gate.wait()
            open_writer(path).close()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=opening) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_folder_is_private(path: Path) -> None:
    open_writer(path).close()
    assert path.parent.stat().st_mode & 0o077 == 0
