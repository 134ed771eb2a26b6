"""What a stress test does, as one value: written by the console, read by the load generator, kept with the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

Assignment: TypeAlias = Literal["uniform", "round_robin", "zipf"]
WarmUp: TypeAlias = Literal["none", "base", "each_adapter"]

# The article does not print its prompt whole: this one is reconstructed from what it says the tenants ask for.
ARTICLE_PROMPT = "Draft a limitation of liability clause for a software services contract between two companies."


class SpecError(ValueError):
    """The stress test can't be run as described; the message names the field."""


class StressSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A closed-loop test: ``workers`` clients, each sends its next request when its last one ended.

    ``assignment`` is the law by which requests pick adapters: ``uniform`` (every adapter equally likely),
    ``round_robin`` (in turn), ``zipf`` (the adapter of rank k with probability proportional to 1/k^zipf_s).
    The picks depend on ``seed`` alone. Without ``adapters`` every request goes to ``model``, the base model.
    ``warm_up``: ``base`` sends one short request per worker to the base model (touches no adapter),
    ``each_adapter`` one to every adapter; neither counts in the results.
    ``timeout_s`` is for one request, from sending to its last byte.
    """

    scenario: str
    requests: int
    workers: int
    max_tokens: int
    adapter_count: int = 0  # how many of the engine's adapters a preset spreads over
    base_url: str = ""
    api_key: str = ""
    model: str = ""
    adapters: tuple[str, ...] = ()
    assignment: Assignment = "uniform"
    zipf_s: float = 1.0
    prompt: str = ARTICLE_PROMPT
    temperature: float = 0.0
    ignore_eos: bool = False
    seed: int = 1234
    timeout_s: float = 600.0
    warm_up: WarmUp = "none"

    def checked(self) -> StressSpec:
        """This spec, or SpecError."""
        for name in ("requests", "workers", "max_tokens"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}: must be at least 1")
        if not self.base_url.startswith(("http://", "https://")):
            raise SpecError(f"base_url {self.base_url!r}: must start with http:// or https://")
        if not self.adapters and not self.model:
            raise SpecError("neither adapters nor a model to send requests to")
        if len(set(self.adapters)) != len(self.adapters):
            raise SpecError("adapters: a name stands there twice")
        if self.warm_up == "base" and not self.model:
            raise SpecError("warm_up base: needs the base model's name")
        if not 0 < self.timeout_s < float("inf"):
            raise SpecError(f"timeout_s is {self.timeout_s}: must be positive")
        if not 0 <= self.zipf_s < float("inf"):
            raise SpecError(f"zipf_s is {self.zipf_s}: must not be negative")
        if not 0 <= self.temperature <= 2:
            raise SpecError(f"temperature is {self.temperature}: must be between 0 and 2")
        if not self.prompt:
            raise SpecError("the prompt is empty")
        return self

    def public(self) -> StressSpec:
        """Without secrets: what history keeps."""
        return msgspec.structs.replace(self, api_key="")


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


def preset_spec(name: str, base_url: str, model: str, adapters: Sequence[str], api_key: str = "") -> StressSpec:
    """The preset against one engine; of ``adapters`` it takes the first ``adapter_count`` names in sorted order.

    With fewer adapters it takes them all, and ``adapter_count`` says how many; without any, the base model.
    Raises SpecError for an unknown preset.
    """
    if name not in PRESETS:
        raise SpecError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    chosen = tuple(sorted(adapters)[: PRESETS[name].adapter_count])
    return msgspec.structs.replace(
        PRESETS[name], base_url=base_url, api_key=api_key, model=model, adapters=chosen, adapter_count=len(chosen)
    ).checked()
