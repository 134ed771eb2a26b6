"""Stress: choose a test, see what it would do, run it, watch it. It goes on behind the other screens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from console.dialogs.edit_stress import EditStressDialog
from console.draw.parts import Part
from console.draw.stress_lines import engine_rows, plan_rows, progress_rows
from console.draw.summaries import swap_words
from console.keys import STRESS
from console.screens.base import ConsoleScreen
from console.widgets.lines import Lines
from stress.spec import PRESET_NOTES, PRESETS


class StressScreen(ConsoleScreen):
    WORD = "Stress"
    CSS_PATH = "stress.tcss"
    BINDINGS: ClassVar[list[BindingType]] = STRESS
    AUTO_FOCUS = "#presets"

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._changes: dict[str, dict[str, Any]] = {}

    def body(self) -> Iterable[Widget]:
        with Horizontal(id="stress-top"):
            with Vertical(id="presets-panel", classes="panel"):
                yield OptionList(*(Option(Content(name), id=name) for name in PRESETS), id="presets")
            with Vertical(id="plan-panel", classes="panel"):
                yield Lines(id="plan")
        with Vertical(id="run-panel", classes="panel"):
            yield Lines(id="progress")
            yield Lines(id="engine-facts")
        with Vertical(id="stress-log-panel", classes="panel"):
            yield Lines(id="stress-log")

    def on_mount(self) -> None:
        for panel, title in (("#presets-panel", "Tests"), ("#stress-log-panel", "Log")):
            self.query_one(panel).border_title = title
        presets = self.query_one(OptionList)
        presets.highlighted = list(PRESETS).index("article-cpu")
        super().on_mount()

    @property
    def _preset(self) -> str:
        highlighted = self.query_one(OptionList).highlighted
        return list(PRESETS)[highlighted or 0]

    def draw_charts(self) -> None:
        run, state = self.session.stress, self.session.state
        panel, lines = self.query_one("#run-panel"), self.query_one("#progress", Lines)
        rows: list[list[Part]]
        if run.progress is not None and run.spec is not None:
            rows = progress_rows(run.progress, run.spec, lines.size.width, self.session.options.ascii)
            panel.border_title = "Stopping" if run.stopping else "Running" if run.running else "Last run"
        elif run.running:
            panel.border_title, rows = "Running", [[("starting the load generator ...", "$dim")]]
        else:
            panel.border_title, rows = "No run yet", [[("enter runs the selected test against this engine", "$dim")]]
        lines.show(rows)
        if run.running or run.progress is None:
            facts = engine_rows(run.begun, state.gauges, swap_words(state.rates)) if run.progress is not None else []
            self.query_one("#engine-facts", Lines).show(facts)
        log = self.query_one("#stress-log", Lines)
        height = max(1, self.query_one("#stress-log-panel").size.height)
        log.show([[(line, "$foreground")] for line in list(run.log)[-height:]])

    def draw_tables(self) -> None:
        name = self._preset
        changes = self._changes.get(name, {})
        panel = self.query_one("#plan-panel")
        panel.border_title = f"{name}, edited" if changes else name
        self.query_one("#plan", Lines).show(plan_rows(PRESETS[name], changes, PRESET_NOTES[name]))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        run = self.session.stress
        possible = {
            "run": self.session.live and not run.running,
            "stop_run": run.running and not run.stopping,
            "open_run": bool(run.last_run_id),
        }
        return True if possible.get(action, True) else None

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        self.draw_tables()

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        if self.check_action("run", ()):
            self.action_run()

    def action_run(self) -> None:
        name = self._preset
        work = self.session.stress.run(name, self._changes.get(name, {}), self.session.state.gauges)
        self.app.run_worker(work, group="stress", exclusive=False)

    @work(group="edit", exclusive=True)
    async def action_edit(self) -> None:
        name = self._preset
        changes = await self.app.push_screen_wait(EditStressDialog(PRESETS[name], self._changes.get(name, {})))
        if changes is not None:
            self._changes[name] = changes
            self.draw_tables()

    def action_stop_run(self) -> None:
        self.session.stress.stop()

    def action_open_run(self) -> None:
        self.session.open_run = self.session.stress.last_run_id
        self.app.switch_mode("history")
