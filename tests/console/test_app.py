"""The console over a real engine process (modelled), driven by keys as an operator would."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input

from console.app import LoraConsole
from console.dialogs.add_adapter import AddAdapterDialog
from console.dialogs.confirm import ConfirmDialog
from console.dialogs.crash import CrashDialog
from console.dialogs.edit_stress import EditStressDialog
from console.dialogs.help import HelpDialog
from console.dialogs.missing_adapters import MissingAdaptersDialog
from console.dialogs.quit import QuitDialog
from console.dialogs.try_box import TryBox
from console.options import ConsoleOptions
from console.screens.history import HistoryScreen
from console.screens.stress import StressScreen
from console.session import Session
from console.state import Link
from console.widgets.adapter_table import AdapterTable
from console.widgets.lines import Lines
from console.widgets.page_map import PageMap
from engine.demo_adapters import demo_adapter_dir
from engine.messages import AdapterRow
from tests.running_engine import RunningEngine, running_engine, tree_of

SIZES = [(120, 40), (80, 24)]


@asynccontextmanager
async def console(
    engine: RunningEngine, folder: Path, size: tuple[int, int] = (120, 40), ascii: bool = False
) -> AsyncIterator[tuple[LoraConsole, Pilot[None]]]:
    options = ConsoleOptions(ascii=ascii, frame_rate=10)
    session = Session(engine.client, engine.supervisor, folder / "history.db", folder / "state", options)
    app = LoraConsole(session)
    async with app.run_test(size=size) as pilot:
        await eventually(pilot, lambda: session.state.link is Link.LIVE and len(session.state.adapters) == 4)
        yield app, pilot


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[RunningEngine]:
    async with running_engine(tmp_path, adapter_dirs=(str(demo_adapter_dir()),), pool_mib=1024) as running:
        yield running


async def eventually(pilot: Pilot[None], condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    for _ in range(int(timeout_s / 0.05)):
        if condition():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not happen")


def row(app: LoraConsole, name: str) -> AdapterRow:
    found = app.session.state.adapter_named(name)
    assert found is not None
    return found


def select(app: LoraConsole, name: str) -> None:
    app.screen.query_one(AdapterTable).select(row(app, name).serial)


def shown(app: LoraConsole) -> str:
    """The text of the whole screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize("size", SIZES)
async def test_the_overview_shows_pool_adapters_and_events(
    engine: RunningEngine, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with console(engine, tmp_path, size) as (app, pilot):
        await eventually(pilot, lambda: "pirate" in shown(app) and "register" in shown(app))
        text = shown(app)
        assert "READY" in text
        assert "Modelled pool 1.0 GiB = 64 pages of 16.0 MiB" in text
        assert "Adapters 4: 0 pool / 0 host / 4 disk" in text
        assert "PCIe" not in text
        assert all(len(line) == size[0] for line in text.splitlines())


async def test_without_colour_letters_say_who_owns_a_page(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path, ascii=True) as (app, pilot):
        select(app, "pirate")
        await pilot.press("p")
        await eventually(pilot, lambda: row(app, "pirate").tier == "hbm")
        await eventually(pilot, lambda: "D" in shown(app))
        scroll_bar = "▁▂▃▄▅▆▇█"  # Textual's own
        assert not [char for char in shown(app) if not char.isascii() and char not in scroll_bar]


async def test_pin_load_evict_by_key(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        select(app, "pirate")
        await pilot.press("l")
        await eventually(pilot, lambda: row(app, "pirate").tier == "hbm")
        select(app, "pirate")
        await pilot.press("p")
        await eventually(pilot, lambda: row(app, "pirate").pinned)
        select(app, "pirate")
        await pilot.press("x")
        await eventually(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert "PINNED" in shown(app)
        await pilot.press("y")
        await eventually(pilot, lambda: row(app, "pirate").tier == "host" and not row(app, "pirate").pinned)
        assert any(event.kind == "evict" and event.by == "operator" for event in app.session.state.events)


async def test_add_says_what_is_wrong_and_lets_correct_it(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        await pilot.press("a")
        await eventually(pilot, lambda: isinstance(app.screen, AddAdapterDialog))
        app.screen.query_one("#path", Input).value = "/nowhere/captain"
        await pilot.press("enter")
        await eventually(pilot, lambda: "outside every adapter root" in shown(app))
        app.screen.query_one("#path", Input).value = str(demo_adapter_dir() / "pirate")
        await eventually(pilot, lambda: app.screen.query_one("#name", Input).value == "pirate")  # offered
        app.screen.query_one("#name", Input).value = "corsair"
        await pilot.press("enter")
        await eventually(pilot, lambda: app.session.state.adapter_named("corsair") is not None)


@pytest.mark.parametrize("size", SIZES)
async def test_try_streams_the_answer_of_the_selected_adapter(
    engine: RunningEngine, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with console(engine, tmp_path, size) as (app, pilot):
        select(app, "pirate")
        await pilot.press("t")
        await eventually(pilot, lambda: isinstance(app.screen, TryBox))
        await pilot.press(*"ahoy", "enter")
        await eventually(pilot, lambda: "tokens" in shown(app) and "TTFT" in shown(app))
        assert "> ahoy" in shown(app)
        await eventually(pilot, lambda: row(app, "pirate").misses == 1)
        await pilot.press("escape")
        await eventually(pilot, lambda: not isinstance(app.screen, TryBox))
        await eventually(pilot, lambda: row(app, "pirate").running == 0)


@pytest.mark.parametrize("size", SIZES)
async def test_a_stress_test_from_the_keyboard_is_on_record(
    engine: RunningEngine, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with console(engine, tmp_path, size) as (app, pilot):
        await pilot.press("2")
        await eventually(pilot, lambda: isinstance(app.screen, StressScreen))
        await pilot.press("i")
        await eventually(pilot, lambda: isinstance(app.screen, EditStressDialog))
        app.screen.query_one("#requests", Input).value = "40"
        app.screen.query_one("#adapter_count", Input).value = "4"
        await pilot.press("enter")
        await eventually(pilot, lambda: isinstance(app.screen, StressScreen) and "article-cpu, edited" in shown(app))
        await pilot.press("enter")
        await eventually(pilot, lambda: bool(app.session.stress.last_run_id), 30)
        assert app.session.stress.progress is not None
        assert app.session.stress.progress.finished == 40
        await pilot.press("o")
        await eventually(pilot, lambda: isinstance(app.screen, HistoryScreen))
        await eventually(pilot, lambda: app.screen.query_one(DataTable).row_count == 1)
        await eventually(pilot, lambda: "40 of 40 ok" in app.screen.query_one("#run-detail", Lines).text)
        await pilot.press("e")
        await eventually(pilot, lambda: bool(app.screen.query("#path")))
        target = tmp_path / "run.csv"
        app.screen.query_one("#path", Input).value = str(target)
        app.screen.query_one("#path", Input).focus()
        await pilot.press("enter")
        await eventually(pilot, target.exists)
        assert len(target.read_text().splitlines()) == 41


async def test_a_stopped_stress_test_is_kept_as_partial(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        await pilot.press("2")
        await pilot.press("up", "enter")  # article-5000
        await eventually(pilot, lambda: isinstance(app.screen, MissingAdaptersDialog))
        await pilot.press("f")
        await eventually(pilot, lambda: (p := app.session.stress.progress) is not None and p.finished > 10, 30)
        await pilot.press("x")
        await eventually(pilot, lambda: bool(app.session.stress.last_run_id), 20)
        await pilot.press("3")
        await eventually(pilot, lambda: "interrupted, partial" in shown(app))


async def test_help_lists_the_keys_of_the_screen(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        await pilot.press("question_mark")
        await eventually(pilot, lambda: isinstance(app.screen, HelpDialog))
        text = app.screen.query_one(Lines).text
        for words in ("Send a prompt to the selected adapter", "Restart the engine", "Legend of the page map"):
            assert words in text


async def test_a_crash_shows_the_last_words_and_offers_a_restart(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        before = engine.server_pid
        os.kill(engine.core_pid, signal.SIGKILL)
        await eventually(pilot, lambda: isinstance(app.screen, CrashDialog))
        await eventually(pilot, lambda: "the engine core died (signal SIGKILL)" in shown(app))
        await pilot.press("R")
        await eventually(pilot, lambda: app.session.live and engine.supervisor.status.pid not in (None, before), 30)
        await eventually(pilot, lambda: not isinstance(app.screen, CrashDialog))
        assert len(tree_of(engine.server_pid)) == 2


async def test_quit_asks_and_stops_the_engine(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        await pilot.press("q")
        await eventually(pilot, lambda: isinstance(app.screen, QuitDialog))
        await pilot.press("escape")
        await eventually(pilot, lambda: not isinstance(app.screen, QuitDialog))
        await pilot.press("q")
        await eventually(pilot, lambda: isinstance(app.screen, QuitDialog))
        await pilot.press("s")
        await eventually(pilot, lambda: engine.supervisor.status.exit_code == 0)


async def test_the_map_follows_the_cursor(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        select(app, "pirate")
        await pilot.press("l")
        await eventually(pilot, lambda: row(app, "pirate").tier == "hbm")
        app.screen.query_one(PageMap).focus()
        await eventually(pilot, lambda: "page 0 at 0 B" in shown(app) and "pirate" in shown(app))
        await pilot.press("right")
        await eventually(pilot, lambda: "page 1 at 16.0 MiB" in shown(app))
