from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from console import paths
from console.engine_options import api_key, url_options
from console.output import Exit, emit, emit_json, emit_table, fail, plain_table, say, talk

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar
    from rich.progress import TaskID

    from console.recorder import RecorderMessage
    from engine.client import EngineClient
    from stress.spec import StressSpec


@click.group()
def stress() -> None:
    """List stress tests or run one."""


@stress.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="A JSON object of presets.")
def list_presets(as_json: bool) -> None:
    """List the presets."""
    from stress.scenarios import PRESET_NOTES, PRESETS

    if as_json:
        emit_json(PRESETS)
        return
    table = plain_table("preset", "what it does")
    for name, note in PRESET_NOTES.items():
        table.add_row(name, note)
    emit_table(table)


_CHANGES = (
    url_options,
    click.option("--requests", type=click.IntRange(1, 1_000_000), help="How many."),
    click.option("--workers", type=click.IntRange(1, 4096), help="Clients at a time."),
    click.option("--adapters", "adapter_count", type=click.IntRange(0, 100_000), help="How many; 0: the base model."),
    click.option("--only", metavar="PATTERN", help="Adapters to pick from, such as 'tenant-adapter-*'."),
    click.option("--max-tokens", type=click.IntRange(1, 1 << 20), help="Longest answer."),
    click.option("--temperature", type=click.FloatRange(0, 2)),
    click.option("--seed", type=int, help="Of the picks of adapters."),
    click.option("--prompt", help="Instead of the preset's."),
)


def _change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_CHANGES):
        command = option(command)
    return command


@stress.command()
@click.argument("preset")
@_change_options
@click.option("--json", "as_json", is_flag=True, help="The run as one JSON object on stdout.")
def run(preset: str, url: str, as_json: bool, **changes: Any) -> int:
    """Run PRESET against an engine and record it. Ctrl-C keeps what was measured, marked partial.

    What can't be run as asked is refused (exit code 2). Exit code 1 when a request failed, 130 when interrupted.
    """
    return asyncio.run(_run(preset, url, as_json, changes))


@stress.command()
@click.argument("preset")
@_change_options
@click.option("--json", "as_json", is_flag=True, help="The plan as one JSON object on stdout.")
def plan(preset: str, url: str, as_json: bool, **changes: Any) -> None:
    """Say what PRESET would do to an engine, and whether it can. Sends no request."""
    spec = asyncio.run(_plan(preset, url, changes))
    if as_json:
        emit_json(spec.public())
        return
    from stress.workload import plan_hash

    for line in _plan_lines(spec):
        emit(line)
    emit(f"plan hash {plan_hash(spec)[:16]}: runs with the same one asked the same")


async def _plan(preset: str, url: str, changes: dict[str, Any]) -> StressSpec:
    from engine.client import EngineClient

    client = EngineClient(url, api_key())
    try:
        return await _checked_plan(client, preset, changes)
    finally:
        await client.aclose()


async def _checked_plan(client: EngineClient, preset: str, changes: dict[str, Any]) -> StressSpec:
    """Ends the command with exit code 2, and the ways on, where the engine can't do what was asked."""
    from console.missing_adapters import ways_on
    from console.stress_plan import plan
    from stress.scenarios import TooFewAdaptersError
    from stress.spec import SpecError

    try:
        return await plan(client, preset, api_key(), changes)
    except TooFewAdaptersError as error:
        ways = ways_on(error, (await client.snapshot()).info, client.base_url)
        fail("\n".join((str(error), *(f"  {way}" for way in ways))), Exit.USAGE)
    except SpecError as error:
        fail(str(error), Exit.USAGE)


def _plan_lines(spec: StressSpec) -> list[str]:
    from stress.scenarios import adapter_words, departures

    lines = [f"{spec.requests} requests, {spec.workers} workers, {adapter_words(spec)}, {spec.max_tokens} tokens each"]
    if changed := departures(spec):
        lines.append(f"not as {spec.scenario} is defined: {', '.join(changed)}")
    return lines


async def _run(preset: str, url: str, as_json: bool, changes: dict[str, Any]) -> int:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from console.draw.run_text import run_title, summary_lines
    from console.recorder import record_stress
    from engine.client import EngineClient
    from store.database import open_reader
    from store.errors import HistoryError
    from store.export import run_object
    from store.queries import find_run
    from stress.spec import SpecError

    cancel = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, cancel.set)
    client = EngineClient(url, api_key())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"))
    try:
        spec = await _checked_plan(client, preset, changes)
        for line in _plan_lines(spec):
            say(line)
        with Progress(*columns, console=talk(), transient=True) as bar:
            task = bar.add_task(preset, total=spec.requests, words="")
            run_id = await record_stress(
                spec, client, paths.database_path(), lambda message: _show(bar, task, message), cancel
            )
    except (SpecError, HistoryError) as error:
        fail(str(error), Exit.USAGE)
    finally:
        await client.aclose()
    with open_reader(paths.database_path()) as db:
        found = find_run(db, run_id)
    if as_json:
        emit_json(run_object(found))
    else:
        emit(run_title(found))
        for line in summary_lines(found.summary) if found.summary else ():
            emit(f"  {line}")
    if cancel.is_set():
        return Exit.INTERRUPTED
    good = found.status == "finished" and found.summary is not None and not found.summary.failed
    return Exit.OK if good else Exit.CHECK_FAILED


def _show(bar: ProgressBar, task: TaskID, message: RecorderMessage) -> None:
    from console.draw.stress_lines import progress_words
    from console.recorder import RecordingTrouble
    from stress.metrics import Progress

    if isinstance(message, Progress):
        bar.update(task, completed=message.finished, words=progress_words(message))
    elif isinstance(message, RecordingTrouble):
        bar.console.print(f"history: {message.text}", markup=False)
