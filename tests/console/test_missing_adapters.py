"""A test that asks for more adapters than the engine knows: refused in a shell, asked about on the screen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.widgets import Label

from console.dialogs.missing_adapters import MissingAdaptersDialog
from console.output import Exit
from console.paths import adapters_dir
from console.screens.stress import StressScreen
from engine.demo_adapters import demo_adapter_dir
from store.database import open_reader
from store.queries import find_run, list_runs
from tests.console.test_app import SIZES, console, eventually, shown
from tests.console.test_cli import outcome
from tests.engine.oracle import tiny_llama
from tests.engine.test_tokenizer import TEMPLATE, byte_level, write_folder
from tests.running_engine import RunningEngine, running_engine, served_engine

SHORT = ["--requests", "20", "--max-tokens", "2"]


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"LORACONSOLE_{name}_DIR", str(tmp_path / name.lower()))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[RunningEngine]:
    roots = (str(demo_adapter_dir()), str(adapters_dir("modelled")))
    async with running_engine(tmp_path, adapter_dirs=roots, pool_mib=1024) as running:
        yield running


def test_in_a_shell_it_is_refused_with_the_ways_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = write_folder(tiny_llama(tmp_path / "tiny"), byte_level(), chat_template=TEMPLATE)
    roots = (str(demo_adapter_dir()), str(adapters_dir("tiny")))
    with served_engine(
        tmp_path, engine="unified", model=str(model), adapter_dirs=roots, page_mib=1, pool_mib=64
    ) as url:
        test = ["stress", "run", "article-cpu", "--url", url, *SHORT]
        assert outcome(test) == Exit.USAGE  # the shipped adapters fit SmolLM2 alone
        said = capsys.readouterr()
        assert "article-cpu asks for 16 adapters, the engine knows 0" in said.err
        ways = [
            line.split("loraconsole ", 1)[1] for line in said.err.splitlines() if "loraconsole adapters make" in line
        ]
        assert len(ways) == 1
        assert outcome([*ways[0].split(), "--rank", "4"]) == Exit.OK  # the way on, as it was printed
        assert outcome([*test, "--json"]) == Exit.OK
        run = json.loads(capsys.readouterr().out.split("\n", 1)[1])
        assert run["spec"]["adapters"] == [f"tenant-adapter-{number:03d}" for number in range(16)]
        assert run["spec"]["asked"] == {"requests": 100, "max_tokens": 16}

        assert outcome([*test, "--adapters", "20"]) == Exit.USAGE
        said = capsys.readouterr().err
        assert "--count 4 --first 16 " in said
        assert "--adapters 16" in said
        assert outcome([*test, "--adapters", "4", "--only", "*-01?"]) == Exit.OK
        assert "4 adapters (tenant-adapter-010, tenant-adapter-011, " in capsys.readouterr().err
        assert outcome(["stress", "plan", "article-500", "--url", url]) == Exit.USAGE
        assert outcome(["stress", "plan", "article-cpu", "--url", url, "--only", "tenant-*"]) == Exit.OK
        said = capsys.readouterr()
        assert (
            "100 requests, 16 workers, 16 adapters (tenant-adapter-000 ... tenant-adapter-015), 16 tokens" in said.out
        )
        assert outcome(["runs", "list"]) == Exit.OK
        assert "article-cpu*" in capsys.readouterr().out
        assert outcome(["runs", "show", "last"]) == Exit.OK
        assert "4 adapters instead of 16" in capsys.readouterr().out


@pytest.mark.parametrize("size", SIZES)
async def test_on_screen_the_missing_ones_are_made(
    engine: RunningEngine, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with console(engine, tmp_path, size) as (app, pilot):
        await pilot.press("2")
        await eventually(pilot, lambda: "the engine knows 4" in shown(app))
        await pilot.press("enter")
        await eventually(pilot, lambda: isinstance(app.screen, MissingAdaptersDialog))
        assert "article-cpu asks for 16 adapters, the engine knows 4." in shown(app)
        assert "Make 12" in shown(app)
        await pilot.press("m")
        await eventually(pilot, lambda: bool(app.session.stress.last_run_id), 60)
        assert app.session.stress.spec is not None
        assert len(app.session.stress.spec.adapters) == 16
        assert app.session.stress.spec.asked == {}
        assert len(list(adapters_dir("modelled").iterdir())) == 12


async def test_on_screen_over_fewer_and_the_record_says_so(engine: RunningEngine, tmp_path: Path) -> None:
    async with console(engine, tmp_path) as (app, pilot):
        await pilot.press("2", "enter")
        await eventually(pilot, lambda: isinstance(app.screen, MissingAdaptersDialog))
        await pilot.press("escape")
        await eventually(pilot, lambda: isinstance(app.screen, StressScreen))
        assert not app.session.stress.running
        assert app.session.stress.last_run_id == ""
        await eventually(pilot, lambda: "the engine knows 4: not run" in shown(app))
        await pilot.press("enter")
        await eventually(pilot, lambda: isinstance(app.screen, MissingAdaptersDialog))
        await pilot.press("f")
        await eventually(pilot, lambda: bool(app.session.stress.last_run_id), 60)
        assert "not as defined: 4 adapters instead of 16" in shown(app)
        await pilot.press("3")
        await eventually(pilot, lambda: "article-cpu*" in shown(app) and "4 adapters instead of 16" in shown(app))
    with open_reader(tmp_path / "history.db") as db:
        run = find_run(db, list_runs(db)[0].id)
    assert run.spec.adapter_count == 16
    assert len(run.spec.adapters) == 4


async def test_on_screen_where_they_can_not_be_registered(engine: RunningEngine, tmp_path: Path) -> None:
    """The engine refuses folders outside its roots: said in the dialog, which still offers the other way."""
    elsewhere = tmp_path / "elsewhere"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LORACONSOLE_DATA_DIR", str(elsewhere))
        async with console(engine, tmp_path, (80, 24)) as (app, pilot):
            await pilot.press("2", "enter")
            await eventually(pilot, lambda: isinstance(app.screen, MissingAdaptersDialog))
            await pilot.press("m")
            problem = lambda: str(app.screen.query_one("#problem", Label).render())  # noqa: E731
            await eventually(pilot, lambda: "outside every adapter root" in problem(), 60)
            await pilot.press("f")
            await eventually(pilot, lambda: bool(app.session.stress.last_run_id), 60)
