"""Which request goes to which model: fixed by the seed before the first request is sent."""

from __future__ import annotations

import hashlib
import random

from stress.spec import StressSpec


def probabilities(spec: StressSpec) -> tuple[float, ...]:
    """The chance of each of ``spec.adapters``; they sum to 1. Empty without adapters."""
    if not spec.adapters:
        return ()
    exponent = spec.zipf_s if spec.assignment == "zipf" else 0.0
    weights = [1.0 / rank**exponent for rank in range(1, len(spec.adapters) + 1)]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def plan(spec: StressSpec) -> list[str]:
    """The adapter of every request, in order; empty names are the base model."""
    if not spec.adapters:
        return [""] * spec.requests
    if spec.assignment == "round_robin":
        return [spec.adapters[index % len(spec.adapters)] for index in range(spec.requests)]
    return random.Random(spec.seed).choices(spec.adapters, probabilities(spec), k=spec.requests)


def plan_hash(spec: StressSpec) -> str:
    """Equal for runs that asked the same of two engines: adapters in order, prompt and length."""
    digest = hashlib.sha256()
    for part in (*plan(spec), spec.prompt, str(spec.max_tokens), str(spec.temperature), str(spec.ignore_eos)):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()
