"""Keeps the state up to date with what the engine tells. The screens never wait for it: they draw what is there."""

from __future__ import annotations

import asyncio

from console.state import ConsoleState
from engine.client import EngineClient, EngineUnreachableError
from engine.errors import EngineError

RETRY_S = 0.5


async def feed(client: EngineClient, state: ConsoleState, retry_s: float = RETRY_S) -> None:
    """Runs until cancelled; connects again whenever the line breaks."""
    while True:
        try:
            async for item in client.telemetry():
                state.hear(item)
            state.lose("the engine closed the line")
        except (EngineUnreachableError, EngineError) as error:
            state.lose(str(error))
        await asyncio.sleep(retry_s)
