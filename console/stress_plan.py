"""From a preset and what was changed about it to the spec of a run against one engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.client import EngineClient
from engine.messages import EngineInfo
from stress.scenarios import PRESETS, preset_spec
from stress.spec import SpecError, StressSpec


async def plan(
    client: EngineClient, preset: str, api_key: str, changes: Mapping[str, Any], accept_fewer: bool = False
) -> StressSpec:
    """Asks the engine for its adapters and its limits. ``changes``, ``accept_fewer``: as ``preset_spec`` takes them.

    Raises SpecError (TooFewAdaptersError is one), EngineUnreachableError or EngineError.
    """
    if preset not in PRESETS:
        raise SpecError(f"no preset {preset!r}; there are {', '.join(PRESETS)}")
    snapshot = await client.snapshot()
    names = [row.name for row in snapshot.adapters if row.state != "failed"]
    spec = preset_spec(preset, client.base_url, snapshot.info.model, names, api_key, changes, accept_fewer)
    _fits(spec, snapshot.info, await client.count_tokens([{"role": "user", "content": spec.prompt}]))
    return spec


def _fits(spec: StressSpec, info: EngineInfo, prompt_tokens: int) -> None:
    """Requests that the engine would refuse or cut short are no test of it."""
    if spec.workers > info.max_requests:
        raise SpecError(
            f"workers is {spec.workers}: this engine takes {info.max_requests} requests at a time "
            "(--max-seqs and --max-waiting of `serve`)"
        )
    room = info.max_model_len - prompt_tokens
    if spec.max_tokens > room:
        raise SpecError(
            f"max_tokens is {spec.max_tokens}: the longest sequence of this engine is {info.max_model_len} tokens and "
            f"the prompt takes {prompt_tokens}, so {max(room, 0)} at most"
        )
