"""History: every run on record, newest first, and the selected one in figures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import DataTable

from console.dialogs.confirm import ConfirmDialog
from console.dialogs.export_run import ExportDialog
from console.draw.parts import Part
from console.draw.run_row import DEPARTS, run_cells, run_columns
from console.draw.run_text import run_title, setting_lines, summary_lines
from console.keys import HISTORY
from console.screens.base import ConsoleScreen
from console.widgets.lines import Lines
from store.database import open_reader
from store.errors import HistoryError
from store.export import ExportFormat, export_run
from store.queries import Run, find_run, list_runs
from store.writer import HistoryWriter

_MOST_RUNS = 1000


class HistoryScreen(ConsoleScreen):
    WORD = "History"
    CSS_PATH = "history.tcss"
    BINDINGS: ClassVar[list[BindingType]] = HISTORY
    AUTO_FOCUS = "#runs"

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._runs: dict[str, Run] = {}

    def body(self) -> Iterable[Widget]:
        with Vertical(id="runs-panel", classes="panel"):
            yield DataTable(id="runs", cursor_type="row", zebra_stripes=True)
        with VerticalScroll(id="run-detail-panel", classes="panel", can_focus=True):
            yield Lines(id="run-detail")

    def on_mount(self) -> None:
        super().on_mount()
        self._reload()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._reload()

    @work(group="history", exclusive=True)
    async def _reload(self) -> None:
        """Read in a thread: a history on a slow disk must not stop the screen."""
        path = self.session.database_path
        try:
            runs = await asyncio.to_thread(_read, path) if path.exists() else []
        except HistoryError as error:
            self._show_problem(str(error))
            return
        table = self.query_one(DataTable)
        wanted = self.session.open_run or (self._selected.id if self._selected else "")
        self.session.open_run = ""
        self._runs = {run.id: run for run in runs}
        narrow = self.size.width < 100
        table.clear(columns=True)
        table.add_columns(*run_columns(narrow))
        for run in runs:
            table.add_row(*run_cells(run, narrow), key=run.id)
        if wanted in self._runs:
            table.move_cursor(row=list(self._runs).index(wanted))
        panel = self.query_one("#runs-panel")
        departs = f"   {DEPARTS}" if any(run.spec.asked for run in runs) else ""
        panel.border_title = f"Runs {len(runs)}{departs}" if runs else "No run yet"
        panel.border_subtitle = str(path)
        self._show_detail()

    @property
    def _selected(self) -> Run | None:
        table = self.query_one(DataTable)
        runs = list(self._runs.values())
        return runs[table.cursor_row] if 0 <= table.cursor_row < len(runs) else None

    @on(DataTable.RowHighlighted)
    def _show_detail(self) -> None:
        run = self._selected
        panel, lines = self.query_one("#run-detail-panel"), self.query_one("#run-detail", Lines)
        if run is None:
            panel.border_title = "Nothing to show"
            lines.show([[("2 opens the stress screen: its first run will be listed here", "$dim")]])
        else:
            panel.border_title = run_title(run)
            lines.show(_detail_rows(run))
        self.refresh_bindings()

    def _show_problem(self, text: str) -> None:
        self.query_one("#runs-panel").border_title = "The history can't be read"
        self.query_one("#run-detail", Lines).show([[(text, "$error")]])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("open", "export", "delete"):
            run = self._selected
            usable = run is not None and not (action == "delete" and run.status == "running")
            return True if usable else None
        return True

    @on(DataTable.RowSelected)
    def action_open(self) -> None:
        self.query_one("#run-detail-panel").focus()

    @work(group="export", exclusive=True)
    async def action_export(self) -> None:
        run = self._selected
        if run is None:
            return
        path = self.session.database_path

        def write(target: Path, form: ExportFormat) -> None:
            with open_reader(path) as db:
                export_run(db, find_run(db, run.id), target, form)

        name = f"loraconsole-run-{run.number}"
        written = await self.app.push_screen_wait(ExportDialog(f"run {run.number}", name, write))
        if written:
            self.notify(written, title=f"run {run.number} exported")

    @work(group="delete", exclusive=True)
    async def action_delete(self) -> None:
        run = self._selected
        if run is None:
            return
        words = [f"{run.scenario} and all its requests, swaps and samples are gone for ever."]
        if not await self.app.push_screen_wait(ConfirmDialog(f"Delete run {run.number}?", lambda: words, "Delete")):
            return
        try:
            await asyncio.to_thread(_delete, self.session.database_path, run.number)
        except HistoryError as error:
            self.notify(str(error), title="delete", severity="error")
        self._reload()


def _read(path: Path) -> list[Run]:
    with open_reader(path) as db:
        return list_runs(db, limit=_MOST_RUNS)


def _delete(path: Path, number: int) -> None:
    writer = HistoryWriter(path)
    try:
        writer.start().result()
        writer.delete_run(number).result()
    finally:
        writer.close()


def _detail_rows(run: Run) -> list[list[Part]]:
    figures = summary_lines(run.summary, intervals=False) if run.summary else ["still running"]
    rows: list[list[Part]] = [[(line[:12], "$dim"), (line[12:], "$foreground")] for line in figures]
    rows.append([])
    return rows + [[(line[:12], "$dim"), (line[12:], "$dim")] for line in setting_lines(run)]
