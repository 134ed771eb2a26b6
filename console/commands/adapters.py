from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console import paths
from console.engine_options import api_key, url_options
from console.output import Exit, emit, emit_json, emit_table, plain_table, say, talk

if TYPE_CHECKING:
    from engine.messages import AdapterAction, Snapshot

_DONE: dict[AdapterAction, str] = {
    "add": "{} is registered",
    "load": "{} is on its way into the pool",
    "evict": "{} left the pool",
    "pin": "{} is pinned",
    "unpin": "{} may be evicted again",
    "unload": "{} is forgotten",
}


@click.group()
def adapters() -> None:
    """List, add, load, evict, pin, unpin, unload, check or make adapters."""


@adapters.command(name="list")
@url_options
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def list_adapters(url: str, as_json: bool) -> None:
    """List the adapters that an engine knows."""
    snapshot = asyncio.run(_snapshot(url))
    rows = sorted(snapshot.adapters, key=lambda row: row.name)
    if as_json:
        emit_json(rows)
        return
    from console.format import mebibytes, milliseconds
    from console.words import state_word, tier_word

    table = plain_table("adapter", "tier", "state", "rank>", "MiB>", "pages>", "run>", "wait>", "hits>", "swap p95>")
    for row in rows:
        table.add_row(
            row.name, tier_word(row.tier, snapshot.info), state_word(row, snapshot.info), str(row.rank),
            mebibytes(row.bytes), str(row.pages), str(row.running), str(row.waiting), str(row.hits),
            milliseconds(row.swap_p95_ms),
        )  # fmt: skip
    emit_table(table)


@adapters.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="Default: the folder's name.")
@url_options
def add(folder: Path, name: str | None, url: str) -> None:
    """Register the PEFT adapter in FOLDER: known, on disk."""
    folder = folder.expanduser().absolute()
    _act("add", name or folder.name, url, str(folder))


@adapters.command()
@click.argument("name")
@url_options
def load(name: str, url: str) -> None:
    """Bring an adapter to the pool."""
    _act("load", name, url)


@adapters.command()
@click.argument("name")
@url_options
def evict(name: str, url: str) -> None:
    """Take an adapter out of the pool; its host copy stays. Unpins it first if need be."""
    _act("evict", name, url)


@adapters.command()
@click.argument("name")
@url_options
def pin(name: str, url: str) -> None:
    """Load an adapter and never let the policy evict it."""
    _act("pin", name, url)


@adapters.command()
@click.argument("name")
@url_options
def unpin(name: str, url: str) -> None:
    """Let the policy evict an adapter again."""
    _act("unpin", name, url)


@adapters.command()
@click.argument("name")
@url_options
def unload(name: str, url: str) -> None:
    """Forget an adapter. Its files stay."""
    _act("unload", name, url)


@adapters.command()
@click.argument("folders", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--model", type=click.Path(path_type=Path), help="The base model's folder. Default: the default model.")
@click.option("--page-mib", type=int, default=16, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def check(folders: tuple[Path, ...], model: Path | None, page_mib: int, as_json: bool) -> int:
    """Say whether adapters could be served, and what each would take. Needs no engine.

    Exit code 1 when any could not.
    """
    from engine.errors import AdapterError
    from engine.model_folder import read_shape
    from engine.packing import pack
    from engine.peft import read_manifest

    shape = read_shape(_model_folder(model), element_bytes=4)
    found = []
    for folder in folders:
        try:
            manifest = read_manifest(folder.absolute(), shape)
            layout = pack(manifest, shape.element_bytes, page_mib << 20)
        except AdapterError as error:
            found.append({"folder": str(folder), "ok": False, "code": error.code, "message": str(error)})
            continue
        found.append(
            {
                "folder": str(folder), "ok": True, "rank": manifest.rank, "modules": manifest.modules,
                "bytes": layout.payload_bytes, "pages": layout.most_pages, "warnings": manifest.warnings,
            }
        )  # fmt: skip
    if as_json:
        emit_json(found)
    for entry in () if as_json else found:
        if entry["ok"]:
            modules = ", ".join(str(module) for module in entry["modules"])  # type: ignore[attr-defined]
            size_mib = int(str(entry["bytes"])) / (1 << 20)
            emit(
                f"ok   {entry['folder']}: rank {entry['rank']}, {modules}; {size_mib:.1f} MiB in {entry['pages']} pages"
            )
        else:
            emit(f"BAD  {entry['message']}")
    return Exit.OK if all(entry["ok"] for entry in found) else Exit.CHECK_FAILED


@adapters.command()
@click.option("--count", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--rank", type=click.IntRange(1, 512), default=16, show_default=True)
@click.option("--prefix", default="tenant-adapter-", show_default=True, help="Names are PREFIX000, PREFIX001, ...")
@click.option("--out", type=click.Path(path_type=Path), help="Default: where `launch` and `serve` look for this model.")
@click.option("--model", type=click.Path(path_type=Path), help="The base model's folder. Default: the default model.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--first", type=click.IntRange(0, 999_999), default=0, show_default=True, help="Number of the first.")
@click.option("--add", "register", is_flag=True, help="Register them with the running engine, too.")
@url_options
def make(
    count: int,
    rank: int,
    prefix: str,
    out: Path | None,
    model: Path | None,
    seed: int,
    first: int,
    register: bool,
    url: str,
) -> None:
    """Make random adapters of a model's shape, for load tests.

    An engine registers them when it starts; with --add a running one does so now.
    """
    from rich.progress import Progress

    from engine.model_folder import read_shape
    from engine.random_adapters import make_adapters

    folder = _model_folder(model)
    out = (out or paths.adapters_dir(folder.name)).expanduser().absolute()
    with Progress(console=talk(), transient=True) as progress:
        task = progress.add_task(f"{count} adapters of rank {rank}", total=count)
        made = make_adapters(
            out, read_shape(folder, element_bytes=2), count, rank, prefix=prefix, seed=seed, first=first,
            on_progress=lambda done, _count: progress.update(task, completed=done),
        )  # fmt: skip
    emit(str(out))
    if register:
        asyncio.run(_register(made, url))
    registered = "Registered" if register else "A running engine takes them with `adapters add`"
    say(f"{len(made)} adapters: {made[0].name} ... {made[-1].name}. {registered}.")


def _model_folder(model: Path | None) -> Path:
    if model is not None:
        return model.expanduser().absolute()
    from console.engine_start import default_model

    return default_model()


def _act(action: AdapterAction, name: str, url: str, path: str = "") -> None:
    from engine.client import EngineClient

    async def act() -> None:
        client = EngineClient(url, api_key())
        try:
            await client.adapter(action, name, path)
        finally:
            await client.aclose()

    asyncio.run(act())
    say(_DONE[action].format(name))


async def _register(folders: list[Path], url: str) -> None:
    from engine.client import EngineClient

    client = EngineClient(url, api_key())
    try:
        for folder in folders:
            await client.adapter("add", folder.name, str(folder))
    finally:
        await client.aclose()


async def _snapshot(url: str) -> Snapshot:
    from engine.client import EngineClient

    client = EngineClient(url, api_key())
    try:
        return await client.snapshot()
    finally:
        await client.aclose()
