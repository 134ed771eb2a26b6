from __future__ import annotations

import click

from console import paths as places
from console.output import emit, emit_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def paths(as_json: bool) -> None:
    """Show where the cache, the history and the logs are."""
    found = {
        "cache": places.cache_dir(),
        "state": places.state_dir(),
        "data": places.data_dir(),
        "history": places.database_path(),
    }
    if as_json:
        emit_json({name: str(path) for name, path in found.items()})
        return
    for name, path in found.items():
        emit(f"{name:<8} {path}{'' if path.exists() else '  (not there yet)'}")
