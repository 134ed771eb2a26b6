from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import click

from console import paths
from console.engine_options import api_key, url_options
from console.output import Exit, emit, emit_json, emit_table, fail, plain_table, say, talk

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar
    from rich.progress import TaskID

    from console.recorder import RecorderMessage


@click.group()
def stress() -> None:
    """List stress tests or run one."""


@stress.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="A JSON object of presets.")
def list_presets(as_json: bool) -> None:
    """List the presets."""
    from stress.spec import PRESET_NOTES, PRESETS

    if as_json:
        emit_json(PRESETS)
        return
    table = plain_table("preset", "what it does")
    for name, note in PRESET_NOTES.items():
        table.add_row(name, note)
    emit_table(table)


@stress.command()
@click.argument("preset")
@url_options
@click.option("--requests", type=click.IntRange(1, 1_000_000), help="How many.")
@click.option("--workers", type=click.IntRange(1, 4096), help="Clients at a time.")
@click.option("--adapters", "adapter_count", type=click.IntRange(0, 100_000), help="How many; 0: the base model.")
@click.option("--max-tokens", type=click.IntRange(1, 1 << 20), help="Longest answer.")
@click.option("--temperature", type=click.FloatRange(0, 2))
@click.option("--seed", type=int, help="Of the picks of adapters.")
@click.option("--prompt", help="Instead of the preset's.")
@click.option("--json", "as_json", is_flag=True, help="The run as one JSON object on stdout.")
def run(preset: str, url: str, as_json: bool, **changes: Any) -> int:
    """Run PRESET against an engine and record it. Ctrl-C keeps what was measured, marked partial.

    Exit code 1 when a request failed, 130 when interrupted.
    """
    return asyncio.run(_run(preset, url, as_json, changes))


async def _run(preset: str, url: str, as_json: bool, changes: dict[str, Any]) -> int:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from console.draw.run_text import run_title, summary_lines
    from console.recorder import record_stress
    from console.stress_plan import plan
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
        spec = await plan(client, preset, api_key(), changes)
        say(
            f"{spec.requests} requests, {spec.workers} workers, {len(spec.adapters) or 'no'} adapters, "
            f"{spec.max_tokens} tokens each"
        )
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
