"""Makes any number of random LoRA adapters of a model's shape, in PEFT's format, for load tests. NumPy only."""

from __future__ import annotations

import glob
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.bfloat16_file import write_bfloat16
from engine.errors import AdapterExistsError, AdapterInvalidError
from engine.shape import LORA_MODULES, ModelShape

ATTENTION_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj")

# Large enough that greedy answers differ from the base model's, small enough that they remain English.
_B_STD = 0.01


def make_adapters(
    out_dir: Path,
    shape: ModelShape,
    count: int,
    rank: int,
    prefix: str = "tenant-adapter-",
    targets: Sequence[str] = ATTENTION_MODULES,
    seed: int = 0,
    first: int = 0,
    on_progress: Callable[[int, int], None] = lambda _done, _count: None,
) -> list[Path]:
    """Folders ``<prefix>000``, ``<prefix>001``, ... under ``out_dir``, numbered from ``first``, bfloat16, alpha = rank.

    An adapter's bytes depend on ``seed`` and its number alone, not on ``count``. Each folder appears by a rename when
    it is complete. Raises AdapterExistsError before anything is written when a name is taken, and AdapterInvalidError
    for a prefix that is no name and for a rank or a target that the model can't have.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", prefix):
        raise AdapterInvalidError(f"prefix {prefix!r}: only letters, digits, '.', '_' and '-', 100 at most")
    if unknown := [module for module in targets if module not in LORA_MODULES]:
        raise AdapterInvalidError(f"no such target: {', '.join(unknown)}; targets are {', '.join(LORA_MODULES)}")
    largest = min((min(shape.module_dims(module)) for module in targets), default=0)
    if not 1 <= rank <= largest:
        raise AdapterInvalidError(f"rank {rank}: must be between 1 and {largest} for these targets")
    folders = [out_dir / f"{prefix}{number:03d}" for number in range(first, first + count)]
    if taken := [folder for folder in folders if folder.exists()]:
        raise AdapterExistsError(f"{taken[0]} exists already ({len(taken)} of {count} do)")
    out_dir.mkdir(parents=True, exist_ok=True)
    for number, folder in enumerate(folders, first):
        with tempfile.TemporaryDirectory(prefix=".making-", dir=out_dir, ignore_cleanup_errors=True) as work:
            made = Path(work) / "adapter"
            made.mkdir()
            _write(made, shape, rank, targets, np.random.default_rng([seed, number]))
            os.rename(made, folder)
        on_progress(number + 1 - first, count)
    return folders


def next_number(out_dir: Path, prefix: str) -> int:
    """After the highest that exists there; 0 where there is none."""
    names = (path.name.removeprefix(prefix) for path in out_dir.glob(f"{glob.escape(prefix)}*"))
    return max((int(name) + 1 for name in names if name.isascii() and name.isdigit()), default=0)


def _write(folder: Path, shape: ModelShape, rank: int, targets: Sequence[str], rng: np.random.Generator) -> None:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(shape.num_layers):
        for module in targets:
            fan_in, fan_out = shape.module_dims(module)
            block = "mlp" if module in ("gate_proj", "up_proj", "down_proj") else "self_attn"
            name = f"base_model.model.model.layers.{layer}.{block}.{module}"
            shapes[f"{name}.lora_A.weight"] = (rank, fan_in)
            shapes[f"{name}.lora_B.weight"] = (fan_out, rank)

    def tensor(name: str) -> NDArray[np.float32]:
        values = rng.standard_normal(shapes[name], dtype=np.float32)
        # A as PEFT starts it (variance 1/3 of 1/fan_in); B, which PEFT starts at zero, is what makes a difference.
        return values * np.float32(_B_STD if ".lora_B." in name else (3 * shapes[name][1]) ** -0.5)

    write_bfloat16(folder / "adapter_model.safetensors", shapes, tensor, lambda _done, _total: None)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "",
        "bias": "none",
        "inference_mode": True,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "r": rank,
        "target_modules": list(targets),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
