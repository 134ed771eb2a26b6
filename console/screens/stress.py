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
from console.dialogs.missing_adapters import MissingAdaptersDialog
from console.draw.parts import Part
from console.draw.stress_lines import engine_rows, plan_rows, progress_rows
from console.draw.summaries import swap_words
from console.keys import STRESS
from console.screens.base import ConsoleScreen
from console.stress_plan import plan
from console.widgets.lines import Lines
from engine.client import EngineUnreachableError
from engine.errors import EngineError
from stress.scenarios import PRESET_NOTES, PRESETS, TooFewAdaptersError
from stress.spec import SpecError, StressSpec


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
        adapters = [row.name for row in self.session.state.adapters.values()]
        self.query_one("#plan", Lines).show(plan_rows(PRESETS[name], changes, PRESET_NOTES[name], adapters))
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

    @work(group="stress-plan", exclusive=True)
    async def action_run(self) -> None:
        run = self.session.stress
        spec = await self._planned(self._preset)
        if spec is not None and not run.running:
            self.app.run_worker(run.run(spec, self.session.state.gauges), group="stress", exclusive=False)

    async def _planned(self, name: str) -> StressSpec | None:
        """The spec of the run; asks where the engine knows too few adapters. None: not to be run."""
        session = self.session
        fewer = False
        while True:
            try:
                return await plan(session.client, name, session.api_key, self._changes.get(name, {}), fewer)
            except TooFewAdaptersError as error:
                info = session.state.info
                if info is None:
                    return None
                answer = await self.app.push_screen_wait(MissingAdaptersDialog(error, session.client, info))
                if answer is None:
                    session.stress.log.append(f"{error}: not run")
                    return None
                fewer = answer == "fewer"
            except (SpecError, EngineUnreachableError, EngineError) as error:
                session.stress.log.append(f"{name}: {error}")
                self.notify(str(error), title=f"{name} was not run", severity="error", markup=False)
                return None

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
