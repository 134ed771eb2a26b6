"""What a user can do wrong on the command line ends as one line and the right exit code, never as a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.cli import run
from console.output import Exit


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"LORACONSOLE_{name}_DIR", str(tmp_path / name.lower()))


def outcome(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except SystemExit as error:
        return int(error.code or 0)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["status", "--url", "http://127.0.0.1:9"], Exit.UNREACHABLE, "no engine answers"),
        (["adapters", "pin", "x", "--url", "http://127.0.0.1:9"], Exit.UNREACHABLE, "no engine answers"),
        (["stress", "run", "nothing"], Exit.USAGE, "no preset 'nothing'"),
        (["runs", "show", "last"], Exit.CHECK_FAILED, "there is no run yet"),
        (["serve", "--engine", "sim", "--kv-floor", "3"], Exit.USAGE, "must be between 0 and 1"),
        (["serve", "--engine", "sim", "--host", "0.0.0.0"], Exit.USAGE, "set an API key"),
        (["launch", "--engine", "sim"], Exit.USAGE, "needs a terminal"),
        (["attach", "http://127.0.0.1:9"], Exit.USAGE, "needs a terminal"),
        (["adapters", "check", "/nowhere", "--model", "/nowhere"], Exit.USAGE, "no such folder"),
        (["frobnicate"], Exit.USAGE, "No such command"),
        (["launch", "--frobnicate"], Exit.USAGE, "No such option"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str) -> None:
    assert outcome(arguments) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


def test_a_history_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "history.db").write_bytes(b"this is not a database, whatever its name may say" * 20)
    assert outcome(["runs", "list"]) == Exit.CHECK_FAILED
    assert "history.db" in capsys.readouterr().err


def test_a_folder_that_can_not_be_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LORACONSOLE_STATE_DIR", str(tmp_path / "file" / "state"))
    assert outcome(["serve", "--engine", "sim", "--port", "9999"]) == Exit.USAGE
    assert "Not a directory" in capsys.readouterr().err


def test_made_adapters_check_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tests.engine.oracle import tiny_llama

    model = str(tiny_llama(tmp_path / "model"))
    arguments = ["adapters", "make", "--count", "2", "--rank", "4", "--out", str(tmp_path / "made"), "--model", model]
    assert outcome(arguments) == Exit.OK
    assert capsys.readouterr().out.strip() == str(tmp_path / "made")
    assert outcome(["adapters", "check", str(tmp_path / "made" / "tenant-adapter-001"), "--model", model]) == Exit.OK
    assert "rank 4" in capsys.readouterr().out
    assert outcome(arguments) == Exit.CHECK_FAILED
    assert "exists already" in capsys.readouterr().err
