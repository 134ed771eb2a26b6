"""From a preset and what was changed about it to the spec of a run against one engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from engine.client import EngineClient
from stress.spec import PRESETS, SpecError, StressSpec, preset_spec


async def plan(client: EngineClient, preset: str, api_key: str, changes: Mapping[str, Any]) -> StressSpec:
    """Asks the engine for its adapters. ``changes``: fields of StressSpec; None leaves the preset's value.

    Raises SpecError, EngineUnreachableError or EngineError.
    """
    if preset not in PRESETS:
        raise SpecError(f"no preset {preset!r}; there are {', '.join(PRESETS)}")
    snapshot = await client.snapshot()
    names = sorted(row.name for row in snapshot.adapters if row.state != "failed")
    wanted = changes.get("adapter_count")
    count = PRESETS[preset].adapter_count if wanted is None else int(wanted)
    chosen = tuple(_tenants_first(names)[:count])
    spec = preset_spec(preset, client.base_url, snapshot.info.model, chosen, api_key)
    given = {name: value for name, value in changes.items() if value is not None}
    return msgspec.structs.replace(spec, **given | {"adapters": chosen, "adapter_count": len(chosen)}).checked()


def _tenants_first(names: list[str]) -> list[str]:
    """The article's adapters where they exist, so that its runs compare; the others after them."""
    return sorted(names, key=lambda name: (not name.startswith("tenant-adapter-"), name))
