from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from console import paths
from console.output import Exit, emit, emit_json, emit_table, fail, plain_table, say

if TYPE_CHECKING:
    from store.queries import Run


@click.group()
def runs() -> None:
    """List, show, export or delete recorded runs. RUN is a number, the start of an id, or ``last``."""


@runs.command(name="list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def list_all(limit: int, as_json: bool) -> None:
    """List runs, newest first."""
    from console.draw.run_row import DEPARTS, run_cells
    from store.database import open_reader
    from store.export import run_object
    from store.queries import list_runs

    if not paths.database_path().exists():
        found: list[Run] = []
    else:
        with open_reader(paths.database_path()) as db:
            found = list_runs(db, limit)
    if as_json:
        emit_json([run_object(run) for run in found])
        return
    if not found:
        say("No run yet. The first: loraconsole stress run article-cpu")
        return
    table = plain_table("run>", "started", "scenario", "model", "requests>", "time>", "tok/s>", "TTFT p95>", "result")
    for run in found:
        table.add_row(*run_cells(run))
    emit_table(table)
    if any(run.spec.asked for run in found):
        say(DEPARTS)


@runs.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, without the rows.")
def show(run: str, as_json: bool) -> None:
    """Show one run: figures, configuration, environment."""
    from console.draw.run_text import run_title, setting_lines, summary_lines
    from store.export import run_object

    found = _find(run)
    if as_json:
        emit_json(run_object(found))
        return
    emit(run_title(found))
    for line in summary_lines(found.summary) if found.summary else ["still running"]:
        emit(f"  {line}")
    for line in setting_lines(found):
        emit(f"  {line}")


@runs.command()
@click.argument("run")
@click.option("--format", "form", type=click.Choice(["csv", "json", "jsonl"]), default="csv", show_default=True)
@click.option(
    "--table",
    type=click.Choice(["requests", "swap_events", "samples"]),
    default="requests",
    show_default=True,
    help="Which table, for CSV.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Written whole or not at all. Default: stdout.")
def export(run: str, form: Literal["csv", "json", "jsonl"], table: str, output: Path | None) -> None:
    """Export one run with all its rows."""
    from store.database import open_reader
    from store.errors import HistoryError
    from store.export import export_run, write_run

    found = _find(run)
    try:
        with open_reader(paths.database_path()) as db:
            if output is None:
                write_run(db, found, sys.stdout, form, table)
            else:
                export_run(db, found, output.expanduser(), form, table)
                say(f"{output}: run {found.number}")
    except HistoryError as error:
        fail(str(error), Exit.CHECK_FAILED)


@runs.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(run: str, yes: bool) -> None:
    """Delete one run with all its rows."""
    from store.errors import HistoryError
    from store.writer import HistoryWriter

    found = _find(run)
    if not yes:
        click.confirm(f"Delete run {found.number} ({found.scenario}) for ever?", abort=True, err=True)
    writer = HistoryWriter(paths.database_path())
    try:
        writer.start().result()
        writer.delete_run(found.number).result()
    except HistoryError as error:
        fail(str(error), Exit.CHECK_FAILED)
    finally:
        writer.close()
    say(f"run {found.number} is deleted")


def _find(text: str) -> Run:
    from store.database import open_reader
    from store.errors import HistoryError
    from store.queries import find_run

    try:
        if not paths.database_path().exists():
            fail("there is no run yet", Exit.CHECK_FAILED)
        with open_reader(paths.database_path()) as db:
            return find_run(db, text)
    except HistoryError as error:
        fail(str(error), Exit.CHECK_FAILED)
