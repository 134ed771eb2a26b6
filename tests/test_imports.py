"""Which process imports what: the screen must appear before torch could be imported, and help before Textual."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "textual", "vllm", "transformers", "numpy")


def loaded(code: str) -> set[str]:
    """Which heavy modules a fresh interpreter has after ``code``."""
    script = f"{code}\nimport sys\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()) if done.stdout.strip() else set()


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["launch", "--help"], ["serve", "--help"], ["adapters", "--help"], ["stress", "--help"],
     ["runs", "--help"], ["adapters", "make", "--help"], ["stress", "run", "--help"], ["--version"]],
)  # fmt: skip
def test_help_imports_neither_torch_nor_textual(arguments: list[str]) -> None:
    assert loaded(f"from console.cli import run; assert run({arguments!r}) == 0") == set()


def test_the_console_never_imports_torch() -> None:
    code = "import console.launcher, console.app, console.recorder, engine.supervisor, engine.client, store.queries"
    assert loaded(code) <= {"textual", "numpy"}


def test_status_does_not_import_textual() -> None:
    code = "from console.cli import run; run(['status', '--url', 'http://127.0.0.1:9'])"
    assert loaded(code) == set()


def test_the_server_process_never_imports_torch() -> None:
    assert loaded("import engine.server, engine.__main__") <= {"numpy"}
