from __future__ import annotations

import asyncio

import click

from console.engine_options import api_key, url_options
from console.output import Exit, emit, emit_json


@click.command()
@url_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the engine's numbers.")
def status(url: str, as_json: bool) -> int:
    """Show what an engine does now. Exit code 3 when none answers, 1 when it is not ready yet."""
    from console.draw.status_text import status_lines
    from engine.client import EngineClient

    async def ask() -> int:
        client = EngineClient(url, api_key())
        try:
            if not await client.health():
                emit("starting")
                return Exit.CHECK_FAILED
            snapshot = await client.snapshot()
        finally:
            await client.aclose()
        if as_json:
            emit_json({"info": snapshot.info, "gauges": snapshot.gauges, "adapters": len(snapshot.adapters)})
        else:
            emit("\n".join(status_lines(snapshot)))
        return Exit.OK

    return asyncio.run(ask())
