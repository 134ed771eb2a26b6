"""``python -m engine.microbench.cpu_speed``: our engine beside transformers' ``generate``, same process, same threads.

Both decode greedily, float32, from prompts of equal length so that transformers pads nothing: one sequence; and 16
sequences, ours spread over 4 adapters, transformers' all on the bare base model. Runs alternate, medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before torch is imported: as in the engine's own process.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from platformdirs import user_cache_path

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.default_model import ensure_default_model
from engine.demo_adapters import demo_adapter_dir
from engine.messages import AddRequest, CoreMessage, SamplingParams
from engine.torch_executor import TorchExecutor, cpu_name

PROMPT_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Result:
    """Generated tokens a second, prefill included; ``ratio`` is ours over theirs. ``*_seconds``: each run, in order."""

    name: str
    ours: float
    transformers: float
    aim: float
    ours_seconds: list[float]
    transformers_seconds: list[float]

    @property
    def ratio(self) -> float:
        return self.ours / self.transformers


class Ours:
    def __init__(self, model: Path, threads: int) -> None:
        config = EngineConfig(model=str(model), threads=threads, adapter_dirs=(str(demo_adapter_dir()),), pool_mib=1024)
        self._executor = TorchExecutor(config)
        self.core = EngineCore(config, self._executor, self._take)
        self._finished = 0
        self._runs = 0
        self.core.open()
        self.adapters = [adapter.name for adapter in self.core.table]

    def _take(self, message: CoreMessage) -> None:
        for delta in getattr(message, "deltas", ()):
            self._finished += delta.finish_reason is not None

    def generate(self, prompts: list[list[int]], adapters: list[str], tokens: int) -> float:
        """Seconds."""
        self._runs += 1
        self._finished = 0
        sampling = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
        begin = time.perf_counter()
        for number, (prompt, adapter) in enumerate(zip(prompts, adapters, strict=True)):
            name = f"{self._runs}/{number}"
            self.core.handle(AddRequest(name, tuple(prompt), adapter, sampling, time.monotonic_ns()))
        while self._finished < len(prompts):
            self.core.tick()
        return time.perf_counter() - begin


class Theirs:
    def __init__(self, model: Path) -> None:
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)

    def generate(self, prompts: list[list[int]], tokens: int) -> float:
        ids = torch.tensor(prompts)
        begin = time.perf_counter()
        with torch.inference_mode():
            self._model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                do_sample=False, pad_token_id=0,
            )  # fmt: skip
        return time.perf_counter() - begin


def alternate(repeats: int, *runs: Callable[[], float]) -> list[list[float]]:
    """The seconds of each, after one run of each that does not count."""
    found: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats + 1):
        for times, run in zip(found, runs, strict=True):
            seconds = run()
            if repeat:
                times.append(seconds)
    return found


def measure(model: Path, threads: int, repeats: int, tokens: int) -> list[Result]:
    torch.set_num_threads(threads)
    ours, theirs = Ours(model, threads), Theirs(model)
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(100, 40_000, (16, PROMPT_TOKENS), generator=generator).tolist()
    results = []
    for name, count, adapters, aim in (
        ("batch 1, base", 1, [""], 1.0),
        ("batch 16, 4 adapters against bare base", 16, [ours.adapters[n % len(ours.adapters)] for n in range(16)], 1.5),
    ):
        mine, other = alternate(
            repeats,
            lambda count=count, adapters=adapters: ours.generate(prompts[:count], adapters, tokens),  # type: ignore[misc]
            lambda count=count: theirs.generate(prompts[:count], tokens),  # type: ignore[misc]
        )
        ours_rate, their_rate = (count * tokens / statistics.median(seconds) for seconds in (mine, other))
        results.append(Result(name, ours_rate, their_rate, aim, mine, other))
    ours.core.close()
    return results


def environment(model: Path, threads: int, tokens: int) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "machine": platform.node(),
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "model": model.name,
        "dtype": "float32",
        "prompt_tokens": PROMPT_TOKENS,
        "output_tokens": tokens,
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.microbench.cpu_speed", description=__doc__)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; without it the default model, fetched once")
    parser.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = arguments.model or ensure_default_model(user_cache_path("loraconsole"), lambda _stage, _done, _total: None)
    results = measure(model, arguments.threads, arguments.repeats, arguments.tokens)
    where = environment(model, arguments.threads, arguments.tokens)
    out = sys.stdout
    out.write(", ".join(f"{key} {value}" for key, value in where.items()) + f", median of {arguments.repeats}\n")
    for result in results:
        verdict = "ok" if result.ratio >= result.aim else "MISSED"
        out.write(
            f"{result.name:<42} ours {result.ours:7.1f} tok/s   transformers {result.transformers:7.1f} tok/s   "
            f"{result.ratio:5.2f}x (aim {result.aim}x) {verdict}\n"
        )
    if arguments.json:
        found = {"environment": where, "results": [asdict(result) | {"ratio": result.ratio} for result in results]}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if all(result.ratio >= result.aim for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
