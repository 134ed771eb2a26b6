from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from store.database import open_reader
from store.errors import HistoryError
from store.export import ExportFormat, export_run, write_run
from store.queries import get_run, iter_requests
from store.schema import REQUEST_COLUMNS, TABLES
from store.writer import HistoryWriter
from stress.metrics import RequestRecord
from tests.store.examples import new_run, request


def test_json_round_trip(path: Path, filled: Callable[[], int], tmp_path: Path) -> None:
    number = filled()
    db = open_reader(path)
    run = get_run(db, number)
    target = tmp_path / "run.json"
    export_run(db, run, target, "json")
    bundle = json.loads(target.read_text())
    assert bundle["schema"] == "loraconsole-run/1"
    assert bundle["run"]["id"] == run.id
    assert bundle["run"]["spec"]["requests"] == 100
    assert bundle["run"]["summary"]["ok"] == 5000
    back = [msgspec.convert(row, RequestRecord, strict=False) for row in bundle["requests"]]
    assert back == list(iter_requests(db, number))
    assert (len(bundle["swap_events"]), len(bundle["samples"])) == (3, 2)
    db.close()


def test_json_lines_hold_the_same(path: Path, filled: Callable[[], int]) -> None:
    number = filled()
    db = open_reader(path)
    stream = io.StringIO()
    write_run(db, get_run(db, number), stream, "jsonl")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0]["type"] == "run"
    counts = {table: sum(line["type"] == table for line in lines) for table in TABLES}
    assert counts == {"requests": 5000, "swap_events": 3, "samples": 2}
    db.close()


def test_csv_has_units_in_its_header_and_no_formulas(path: Path, writer: HistoryWriter, tmp_path: Path) -> None:
    run = writer.begin_run(new_run()).result(10)
    bad = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", 'quote " comma , and\nline']
    writer.add_requests(run.number, [request(seq, ok=False, error_text=text) for seq, text in enumerate(bad)])
    writer.flush().result(10)
    db = open_reader(path)
    target = tmp_path / "run.csv"
    export_run(db, run, target, "csv")
    with target.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["run", *REQUEST_COLUMNS]
    assert [row["error_text"] for row in rows] == [f"'{text}" for text in bad[:5]] + bad[5:]
    assert rows[1]["sent_ns"] == "1000000"
    assert rows[0]["queue_ns"] == ""
    db.close()


@pytest.mark.parametrize("form", ["csv", "json", "jsonl"])
def test_failed_export_leaves_the_old_file(
    path: Path, filled: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: ExportFormat
) -> None:
    db_number = filled()
    db = open_reader(path)
    target = tmp_path / "out" / "run"
    target.parent.mkdir()
    target.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(HistoryError, match="No space left"):
        export_run(db, get_run(db, db_number), target, form)
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]
    db.close()


def test_no_such_folder_or_table(path: Path, filled: Callable[[], int], tmp_path: Path) -> None:
    number = filled()
    db = open_reader(path)
    with pytest.raises(HistoryError, match="No such file"):
        export_run(db, get_run(db, number), tmp_path / "nowhere" / "run.csv", "csv")
    with pytest.raises(HistoryError, match="no table"):
        export_run(db, get_run(db, number), tmp_path / "run.csv", "csv", "sqlite_master")
    db.close()
