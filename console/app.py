"""The console: four screens over one engine. Starts at once, whatever state the engine is in."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from console.dialogs.crash import CrashDialog
from console.dialogs.help import HelpDialog
from console.dialogs.quit import QuitDialog
from console.engine_control import restart_engine, start_engine, stop_engine, stop_now
from console.feed import feed
from console.help_text import help_rows, help_sections
from console.keys import EVERYWHERE
from console.options import FRAME_RATES, ConsoleOptions, default_frame_rate
from console.screens.base import TALL_ROWS, ConsoleScreen
from console.screens.engine import EngineScreen
from console.screens.history import HistoryScreen
from console.screens.overview import OverviewScreen
from console.screens.stress import StressScreen
from console.session import Session
from console.theme import LORACONSOLE, page_colours
from engine.client import EngineClient
from engine.supervisor import EngineSupervisor, SupervisorState

_WATCH_S = 0.25
_STRESS_END_S = 8.0
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class LoraConsole(App[None]):
    """``farewell`` is for whoever runs the console: what to tell once the screen is gone."""

    TITLE = "loraconsole"
    CSS_PATH = "console.tcss"
    BINDINGS: ClassVar[list[BindingType]] = EVERYWHERE
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 (Textual declares it so)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL_ROWS, "-tall"), (50, "-large")]  # noqa: RUF012

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.session.letters = session.options.ascii or self.no_color
        self.frame_rate = session.options.frame_rate or default_frame_rate()
        self.farewell = ""
        self._seen_state: SupervisorState | None = None
        self.register_theme(LORACONSOLE)
        self.add_mode("overview", lambda: self._framed(OverviewScreen(session)))
        self.add_mode("stress", lambda: self._framed(StressScreen(session)))
        self.add_mode("history", lambda: self._framed(HistoryScreen(session)))
        self.add_mode("engine", lambda: self._framed(EngineScreen(session)))
        self.set_class(session.options.ascii, "-ascii")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return page_colours(self.current_theme.dark)

    def on_mount(self) -> None:
        self.theme = self.session.options.theme
        self.switch_mode("overview")
        if self.session.supervisor is not None:
            self.run_worker(start_engine(self, self.session), group="engine")
        self.run_worker(feed(self.session.client, self.session.state), group="feed")
        self.set_interval(_WATCH_S, self._watch_supervisor)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            # Textual has no handler of its own: without one the engine would be orphaned and the terminal left raw.
            loop.add_signal_handler(number, self._leave_by_signal, number)

    def _leave_by_signal(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def on_unmount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def _framed(self, screen: ConsoleScreen) -> ConsoleScreen:
        screen.set_frame_rate(self.frame_rate)
        return screen

    def action_go(self, mode: str) -> None:
        self.switch_mode(mode)

    def action_help(self) -> None:
        screen = self.screen
        if isinstance(screen, ConsoleScreen):
            self.push_screen(HelpDialog(screen.WORD, help_rows(help_sections(self, screen))))

    def action_frame_rate(self, step: int) -> None:
        index = FRAME_RATES.index(self.frame_rate) if self.frame_rate in FRAME_RATES else 3
        self.frame_rate = FRAME_RATES[min(max(index + step, 0), len(FRAME_RATES) - 1)]
        for stack in self._screen_stacks.values():
            for screen in stack:
                if isinstance(screen, ConsoleScreen):
                    screen.set_frame_rate(self.frame_rate)
        self.notify(f"{self.frame_rate} frames a second", timeout=2)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "start_engine":
            return self._owned(self.session.can_start())
        if action in ("stop_engine", "restart_engine"):
            return self._owned(self.session.can_stop())
        return True

    def _owned(self, possible: bool) -> bool | None:
        """Hidden where the engine is someone else's, grey where it makes no sense now."""
        if self.session.supervisor is None:
            return False
        return True if possible else None

    @work(group="engine", exclusive=True)
    async def action_start_engine(self) -> None:
        await start_engine(self, self.session)

    @work(group="engine", exclusive=True)
    async def action_stop_engine(self) -> None:
        await stop_engine(self, self.session, self.session.stress.running)

    @work(group="engine", exclusive=True)
    async def action_restart_engine(self) -> None:
        await restart_engine(self, self.session, self.session.stress.running)

    @work(group="quit", exclusive=True)
    async def action_request_quit(self) -> None:
        session = self.session
        ours = session.supervisor is not None and session.can_stop()
        facts = []
        if ours and session.supervised is not None:
            facts.append(f"The engine runs (pid {session.supervised.pid}).")
        if session.stress.running:
            facts.append("A stress test runs: it ends as interrupted, its figures are kept.")
        if not facts:
            self.exit()
            return
        answer = await self.push_screen_wait(QuitDialog(facts, can_detach=ours))
        if answer:
            await self._end_stress()
        if answer == "stop":
            if ours:
                await stop_now(self, session)
            self.exit()
        elif answer == "detach" and session.supervisor is not None:
            await session.supervisor.detach()
            self.farewell = f"The engine goes on. Attach again: loraconsole attach {session.client.base_url}"
            self.exit()

    async def _end_stress(self) -> None:
        """What it measured is in the file before anybody leaves."""
        self.session.stress.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STRESS_END_S):
                while self.session.stress.running:
                    await asyncio.sleep(0.05)

    def _watch_supervisor(self) -> None:
        status = self.session.supervised
        if status is None or status.state is self._seen_state:
            return
        before, self._seen_state = self._seen_state, status.state
        self.refresh_bindings()
        if status.state in (SupervisorState.BACKOFF, SupervisorState.FATAL):
            if not any(isinstance(screen, CrashDialog) for screen in self.screen_stack):
                self._offer_restart()
        elif status.state is SupervisorState.READY and before is not None and self.session.state.info is not None:
            self.notify("the engine is ready")

    @work(group="crash", exclusive=True)
    async def _offer_restart(self) -> None:
        if await self.push_screen_wait(CrashDialog(self.session)) == "restart":
            await restart_engine(self, self.session, stress_runs=False, ask=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)
        yield SystemCommand("Help", "All keys of this screen", self.action_help)
        yield SystemCommand("Quit", "Quit the console; asks about the engine", self.action_request_quit)
        for mode in ("overview", "stress", "history", "engine"):
            yield SystemCommand(f"Go to {mode}", f"The {mode} screen", lambda mode=mode: self.action_go(mode))
        if self.check_action("start_engine", ()):
            yield SystemCommand("Engine: start", "Start the engine", self.action_start_engine)
        if self.check_action("stop_engine", ()):
            yield SystemCommand("Engine: stop", "Stop the engine (asks)", self.action_stop_engine)
            yield SystemCommand("Engine: restart", "Restart the engine (asks)", self.action_restart_engine)


def run_console(
    supervisor: EngineSupervisor | None,
    base_url: str,
    api_key: str,
    database_path: Path,
    state_dir: Path,
    options: ConsoleOptions,
) -> int:
    return asyncio.run(_run(supervisor, base_url, api_key, database_path, state_dir, options))


async def _run(
    supervisor: EngineSupervisor | None,
    base_url: str,
    api_key: str,
    database_path: Path,
    state_dir: Path,
    options: ConsoleOptions,
) -> int:
    client = EngineClient(base_url, api_key)
    app = LoraConsole(Session(client, supervisor, database_path, state_dir, options, api_key=api_key))
    try:
        await app.run_async()
    finally:
        if supervisor is not None:
            await supervisor.stop()
        await client.aclose()
    if app.farewell:
        sys.stderr.write(app.farewell + "\n")
    return app.return_code or 0
