from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from store.database import open_reader, open_writer
from store.errors import HistoryError, RunNotFoundError
from store.queries import count_rows, find_run, get_run, iter_requests, iter_samples, iter_swaps, list_runs
from store.schema import GAUGE_COLUMNS, REQUEST_COLUMNS
from store.writer import HistoryWriter
from stress.metrics import RequestRecord
from stress.statistics import summarize
from tests.store.examples import gauges, new_run, request, swap


def test_what_goes_in_comes_out(path: Path, filled: Callable[[], int]) -> None:
    number = filled()
    db = open_reader(path)
    run = get_run(db, number)
    assert (run.status, run.scenario, run.engine, run.owner_pid) == ("finished", "article-cpu", "sim", os.getpid())
    assert run.summary is not None
    assert (run.summary.ok, run.partial) == (5000, False)
    assert list(iter_requests(db, number)) == [request(seq, adapter=f"tenant-{seq % 7}") for seq in range(5000)]
    assert list(iter_swaps(db, number)) == [swap(seq) for seq in range(1, 4)]
    assert [(sample.t_ns, sample.gauges) for sample in iter_samples(db, number)] == [(1, gauges(1)), (2, gauges(2))]
    assert "secret" not in run.spec_json
    db.close()


def test_every_field_of_a_request_and_every_gauge_has_its_column() -> None:
    assert set(REQUEST_COLUMNS) == {field.name for field in msgspec.structs.fields(RequestRecord)}
    assert set(GAUGE_COLUMNS) == {field.name for field in msgspec.structs.fields(type(gauges(0)))}


def test_events_told_twice_are_kept_once(path: Path, writer: HistoryWriter) -> None:
    run = writer.begin_run(new_run()).result(10)
    writer.add_swaps(run.number, [swap(1), swap(2)])
    writer.add_swaps(run.number, [swap(2), swap(3)])
    writer.add_swaps(run.number, [swap(1, t_ns=99)])  # another engine's first event
    writer.flush().result(10)
    db = open_reader(path)
    assert count_rows(db, "swap_events", run.number) == 4
    db.close()


def test_find(path: Path, writer: HistoryWriter) -> None:
    runs = [writer.begin_run(new_run()).result(10) for _ in range(3)]
    db = open_reader(path)
    assert find_run(db, runs[1].id) == runs[1]
    assert find_run(db, runs[1].id[:-1]) == runs[1]
    assert find_run(db, "2") == find_run(db, "#2") == runs[1]
    assert find_run(db, "last") == runs[2]
    assert [run.number for run in list_runs(db)] == [3, 2, 1]
    for text in ("", "nothing", "%", "99"):
        with pytest.raises(RunNotFoundError, match="no run"):
            find_run(db, text)
    with pytest.raises(RunNotFoundError, match="several"):
        find_run(db, runs[0].id[:4])
    db.close()


def test_delete_takes_everything(path: Path, writer: HistoryWriter, filled: Callable[[], int]) -> None:
    number = filled()
    writer.delete_run(number).result(10)
    db = open_reader(path)
    assert list_runs(db) == []
    assert count_rows(db, "requests", number) == 0
    db.close()
    with pytest.raises(RunNotFoundError):
        writer.delete_run(number).result(10)
    assert writer.error is None


def test_two_readers_while_writing(path: Path, writer: HistoryWriter) -> None:
    run = writer.begin_run(new_run()).result(10)
    done = threading.Event()
    faults: list[BaseException] = []
    reads = [0, 0]

    def read(index: int) -> None:
        try:
            db = open_reader(path)
            seen = 0
            while not done.is_set():
                found = [record.seq for record in iter_requests(db, run.number)]
                assert found == list(range(len(found)))  # a prefix, never a hole
                assert len(found) >= seen
                seen = len(found)
                reads[index] += 1
            db.close()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=read, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for start in range(0, 3000, 50):
        writer.add_requests(run.number, [request(seq) for seq in range(start, start + 50)])
        writer.flush().result(10)
    done.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert min(reads) > 0


_ENDLESS = """
import sys
from pathlib import Path
from store.writer import HistoryWriter
from tests.store.examples import new_run, request
writer = HistoryWriter(Path(sys.argv[1]))
writer.start().result()
run = writer.begin_run(new_run()).result()
seq = 0
while True:
    writer.add_requests(run.number, [request(seq + index) for index in range(20)])
    seq += 20
    writer.flush().result()
    print(seq, flush=True)
"""


def test_killed_while_writing(path: Path) -> None:
    command = [sys.executable, "-c", _ENDLESS, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = 0
        while acknowledged < 400:
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            if line.endswith("\n"):
                acknowledged = int(line)
    db = open_writer(path)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    [run] = list_runs(db)
    assert run.status == "interrupted"
    assert "without finishing" in run.reason
    found = [record.seq for record in iter_requests(db, run.number)]
    assert found == list(range(len(found)))
    assert len(found) >= acknowledged
    assert run.summary is not None
    assert (run.summary.ok, run.summary.offered) == (len(found), 100)
    db.close()


def test_run_of_a_living_process_stays_running(path: Path, writer: HistoryWriter) -> None:
    run = writer.begin_run(new_run()).result(10)
    db = open_writer(path)
    assert get_run(db, run.number).status == "running"
    # The same pid with another start time is another process.
    db.conn.execute("UPDATE runs SET owner_started_s = owner_started_s - 1000")
    db.close()
    db = open_writer(path)
    assert get_run(db, run.number).status == "interrupted"
    db.close()


def test_full_disk_is_told_once_and_the_run_goes_on(path: Path) -> None:
    told: list[HistoryError] = []
    writer = HistoryWriter(path, told.append)
    writer.start().result(10)
    run = writer.begin_run(new_run()).result(10)
    with pytest.raises(HistoryError):  # SQLite's own limit of pages stands for a full disk
        writer._call(lambda db: _limit_and_fill(db, run.number)).result(10)
    for start in range(0, 3000, 100):
        writer.add_requests(run.number, [request(seq) for seq in range(start, start + 100)])
    with pytest.raises(HistoryError, match="the disk is full"):
        writer.end_run(run.number, summarize([], 100, "finished", "x" * 100_000)).result(10)
    writer.close()
    assert len(told) == 1
    assert "the disk is full" in str(told[0])


def _limit_and_fill(db: object, number: int) -> None:
    conn: sqlite3.Connection = db.conn  # type: ignore[attr-defined]
    pages = conn.execute("PRAGMA page_count").fetchone()[0]
    conn.execute(f"PRAGMA max_page_count = {pages}")
    conn.execute("UPDATE runs SET reason = ? WHERE number = ?", ("x" * 1_000_000, number))


def test_file_that_is_none(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is a shopping list, not a database" * 100)
    writer = HistoryWriter(path)
    with pytest.raises(HistoryError, match="not a history file"):
        writer.start().result(10)
    with pytest.raises(HistoryError, match="not a history file"):
        writer.begin_run(new_run()).result(10)
    writer.add_requests(1, [request(1)])
    writer.close()


def test_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match=r"history\.db"):
        open_writer(tmp_path / "file" / "history.db")


def test_locked_by_another_program(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_writer(path).close()
    monkeypatch.setattr("store.database._BUSY_MS", 50)
    writer = HistoryWriter(path)
    writer.start().result(10)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(HistoryError, match="another program"):
        writer.begin_run(new_run()).result(10)
    other.execute("ROLLBACK")
    other.close()
    writer.close()


def test_reader_before_the_first_run(path: Path) -> None:
    with pytest.raises(HistoryError, match="none yet"):
        open_reader(path)


def test_reader_cannot_write(path: Path, filled: Callable[[], int]) -> None:
    filled()
    db = open_reader(path)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.conn.execute("DELETE FROM runs")
    db.close()


def test_closed_writer_answers(path: Path) -> None:
    writer = HistoryWriter(path)
    writer.start().result(10)
    writer.close()
    with pytest.raises(HistoryError, match="closed"):
        writer.flush().result(10)
