"""The tests by name, and from a name and an operator's changes to the spec of one run. What is asked is what runs, or
the run is refused: a test over fewer adapters is another test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from stress.spec import SpecError, StressSpec

# The article does not print its prompt whole: StressSpec's is reconstructed from what it says the tenants ask for.
PRESETS: dict[str, StressSpec] = {
    "article-500": StressSpec(
        scenario="article-500", requests=500, workers=200, max_tokens=128, adapter_count=100, temperature=0.2,
        timeout_s=3600.0,
    ),
    "article-5000": StressSpec(
        scenario="article-5000", requests=5000, workers=200, max_tokens=128, adapter_count=100, temperature=0.2,
        timeout_s=3600.0,
    ),
    "article-cpu": StressSpec(
        scenario="article-cpu", requests=100, workers=16, max_tokens=16, adapter_count=16, temperature=0.2,
        timeout_s=1800.0,
    ),
}  # fmt: skip

PRESET_NOTES: dict[str, str] = {
    "article-500": "500 requests, 200 workers, 100 adapters, 128 tokens: for a GPU",
    "article-5000": "5,000 requests, 200 workers, 100 adapters, 128 tokens: for a GPU",
    "article-cpu": "100 requests, 16 workers, 16 adapters, 16 tokens: minutes on a laptop",
}

# The random adapters that `adapters make` makes unless told otherwise; the article's tenants.
TENANT_PREFIX = "tenant-adapter-"

_NUMBERS = ("requests", "workers", "max_tokens")
_NAMED_AT_MOST = 4


class TooFewAdaptersError(SpecError):
    """The engine knows fewer adapters than the test is about. ``there``: those that it could run over."""

    def __init__(self, scenario: str, asked: int, there: tuple[str, ...], only: str) -> None:
        self.asked, self.there, self.only = asked, there, only
        like = f" named like {only!r}" if only else ""
        super().__init__(f"{scenario} asks for {asked} adapters, the engine knows {len(there)}{like}")

    @property
    def missing(self) -> int:
        return self.asked - len(self.there)


def preset_spec(
    name: str,
    base_url: str,
    model: str,
    adapters: Sequence[str],
    api_key: str = "",
    changes: Mapping[str, Any] | None = None,
    accept_fewer: bool = False,
) -> StressSpec:
    """The preset against one engine that knows ``adapters``.

    ``changes``: fields of StressSpec; None leaves the preset's value. Of the adapters that ``only`` fits, the first
    ``adapter_count`` are taken, tenants before others, by name. ``accept_fewer``: take those that there are.
    Raises TooFewAdaptersError, and SpecError for an unknown preset or a number that could not be kept to.
    """
    if name not in PRESETS:
        raise SpecError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    preset = PRESETS[name]
    given = {field: value for field, value in (changes or {}).items() if value is not None}
    spec = msgspec.structs.replace(preset, **given, base_url=base_url, api_key=api_key, model=model)
    spec = _workers_fit(spec, explicit="workers" in given)
    there = _pick(spec, adapters)
    if len(there) < spec.adapter_count and not (accept_fewer and there):
        raise TooFewAdaptersError(name, spec.adapter_count, there, spec.only)
    chosen = there[: spec.adapter_count]
    asked = {field: getattr(preset, field) for field in _NUMBERS if getattr(preset, field) != getattr(spec, field)}
    if len(chosen) != preset.adapter_count:
        asked["adapters"] = preset.adapter_count
    return msgspec.structs.replace(spec, adapters=chosen, asked=asked).checked()


def _workers_fit(spec: StressSpec, explicit: bool) -> StressSpec:
    """A worker without a request would never start."""
    if spec.workers <= spec.requests:
        return spec
    if explicit:
        raise SpecError(f"workers is {spec.workers}: {spec.requests} requests keep {spec.requests} busy at most")
    return msgspec.structs.replace(spec, workers=spec.requests)


def _pick(spec: StressSpec, adapters: Sequence[str]) -> tuple[str, ...]:
    """The article's tenants where they exist, so that its runs compare; the others after them."""
    fitting = [name for name in adapters if not spec.only or fnmatchcase(name, spec.only)]
    if spec.only and spec.adapter_count and not fitting:
        raise SpecError(f"only is {spec.only!r}: no adapter of this engine is named like that")
    return tuple(sorted(fitting, key=lambda name: (not name.startswith(TENANT_PREFIX), name)))


def adapter_words(spec: StressSpec) -> str:
    """``16 adapters (tenant-adapter-000 ... tenant-adapter-015)``"""
    names = spec.adapters
    if not names:
        return "no adapter, the base model"
    few = ", ".join(names) if len(names) <= _NAMED_AT_MOST else f"{names[0]} ... {names[-1]}"
    return f"{len(names)} adapter{'' if len(names) == 1 else 's'} ({few})"


def departures(spec: StressSpec) -> list[str]:
    """Where this run is not its scenario: ``4 adapters instead of 16``."""
    values = {"adapters": len(spec.adapters)} | {field: getattr(spec, field) for field in _NUMBERS}
    return [f"{values[field]:,} {field.replace('_', ' ')} instead of {was:,}" for field, was in spec.asked.items()]
