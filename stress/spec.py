"""What a stress test does, as one value: written by the console, read by the load generator, kept with the run."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from stress.open_files import most_workers

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
    adapter_count: int = 0  # how many adapters were asked for; ``adapters`` are those that it runs over
    only: str = ""  # adapters to pick from, by a shell pattern of their names; empty: all
    asked: dict[str, int] = {}  # numbers of the scenario that this run departs from, by field and "adapters"
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
        if self.workers > (most := most_workers()):
            raise SpecError(f"workers is {self.workers}: {most} connections are this user's limit (ulimit -Hn)")
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
