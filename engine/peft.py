"""Reads a PEFT adapter folder as it is on disk, without torch and without reading the weights.

Which modules have LoRA is what the safetensors file holds; adapter_config.json says how its matrices are scaled, and
whether it is more than plain LoRA, which is refused by name: an answer from half an adapter would look like an answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import AdapterInvalidError, AdapterNotFoundError, AdapterUnsupportedError
from engine.safetensors_header import TensorEntry, read_header
from engine.shape import LORA_MODULES, MODULE_INDEX, ModelShape


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """One LoRA matrix in the safetensors file: ``rows x cols`` of ``dtype`` at byte ``offset`` of the file."""

    layer: int
    module: str
    side: str  # "A": [rank, in], "B": [out, rank]
    rows: int
    cols: int
    dtype: str  # safetensors' name: F32, BF16, F16
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class AdapterManifest:
    """A validated adapter. ``scales``: what multiplies B @ A @ x, by (layer, module)."""

    folder: Path
    weights_file: Path
    rank: int  # the largest of its matrices
    modules: tuple[str, ...]
    matrices: tuple[MatrixEntry, ...]
    scales: Mapping[tuple[int, str], float]
    base_model: str
    warnings: tuple[str, ...] = ()


_MOST_CONFIG_BYTES = 8 << 20
_WEIGHT_DTYPES = ("F32", "BF16", "F16")
# The way down to the layers differs with what wrapped the model; what follows them does not.
_KEY = re.compile(
    r"(?:base_model\.model\.)?(?:model\.)?layers\.(\d{1,5})\.(?:self_attn|mlp)\.([a-z_]+)\.lora_([AB])(?:\.default)?\.weight"
)
# Keys of adapter_config.json that change what the adapter computes, and the values that leave it plain LoRA.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "bias": ("none", None),
    "lora_bias": (False, None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "modules_to_save": (None, []),
    "trainable_token_indices": (None, [], {}),
    "layer_replication": (None, []),
    "alora_invocation_tokens": (None, []),
    "use_qalora": (False, None),
    "use_bdlora": (False, None),
    "arrow_config": (None,),
    "kasa_config": (None,),
    "monteclora_config": (None,),
}
# These initialisations change the base weights when PEFT loads the adapter.
_CHANGES_BASE = ("olora", "pissa", "corda", "loftq")


def read_manifest(folder: Path, shape: ModelShape) -> AdapterManifest:
    """Validate ``folder`` against the base model. Reads the configuration and the header of the weights, no more.

    Raises AdapterNotFoundError (no adapter there), AdapterUnsupportedError (more than plain LoRA on attention and MLP
    projections) or AdapterInvalidError (malformed, or made for another model).
    """
    config = _read_config(folder)
    _refuse_unsupported(folder, config)
    weights_file = folder / "adapter_model.safetensors"
    if not weights_file.is_file():
        if pickled := [name for name in ("adapter_model.bin", "adapter_model.pt") if (folder / name).exists()]:
            raise AdapterUnsupportedError(
                f"{folder}: {pickled[0]} can run code when it is opened: save the adapter as safetensors"
            )
        raise AdapterNotFoundError(f"{folder}: no adapter_model.safetensors")
    for path in (folder / "adapter_config.json", weights_file):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise AdapterInvalidError(f"{path}: a link that leaves its folder")
    matrices = tuple(_matrix(folder, entry, shape) for entry in read_header(weights_file))
    if not matrices:
        raise AdapterInvalidError(f"{weights_file}: holds no LoRA matrix")
    matrices = tuple(sorted(matrices, key=lambda m: (m.layer, MODULE_INDEX[m.module], m.side)))
    scales = _scales(folder, config, _ranks(folder, matrices, shape))
    return AdapterManifest(
        folder=folder,
        weights_file=weights_file,
        rank=max(matrix.rows for matrix in matrices if matrix.side == "A"),
        modules=tuple(module for module in LORA_MODULES if any(m.module == module for m in matrices)),
        matrices=matrices,
        scales=scales,
        base_model=str(config.get("base_model_name_or_path") or ""),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    if not folder.is_dir():
        raise AdapterNotFoundError(f"{folder}: no such folder")
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise AdapterNotFoundError(f"{folder}: no adapter_config.json, so not a PEFT adapter") from None
    except OSError as error:
        raise AdapterInvalidError(f"{path}: {error.strerror or error}") from error
    if len(text) > _MOST_CONFIG_BYTES:
        raise AdapterInvalidError(f"{path}: larger than {_MOST_CONFIG_BYTES >> 20} MiB")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AdapterInvalidError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise AdapterInvalidError(f"{path}: must hold a JSON object")
    return config


def _refuse_unsupported(folder: Path, config: Mapping[str, Any]) -> None:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise AdapterUnsupportedError(f"{folder}: peft_type is {str(kind)[:40]!r}, only LORA is served")
    if config.get("task_type") not in (None, "CAUSAL_LM"):
        raise AdapterUnsupportedError(
            f"{folder}: task_type is {str(config['task_type'])[:40]!r}, only CAUSAL_LM is served"
        )
    for key, plain in _PLAIN.items():
        if (value := config.get(key)) not in plain:
            raise AdapterUnsupportedError(f"{folder}: {key} is {str(value)[:80]!r}, which is not served")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        raise AdapterUnsupportedError(
            f"{folder}: init_lora_weights is {start[:40]!r}, which changes the base model's weights: "
            "convert it to plain LoRA with PEFT first"
        )


def _matrix(folder: Path, entry: TensorEntry, shape: ModelShape) -> MatrixEntry:
    found = _KEY.fullmatch(entry.name)
    if found is None:
        feature = next(
            (words for part, words in _FEATURES.items() if part in entry.name), "not a LoRA matrix of a layer"
        )
        raise AdapterUnsupportedError(f"{folder}: tensor {entry.name[:200]!r} is {feature}, which is not served")
    layer, module, side = int(found[1]), found[2], found[3]
    if module not in MODULE_INDEX:
        raise AdapterUnsupportedError(f"{folder}: LoRA on {module!r} is not served; on {', '.join(LORA_MODULES)} it is")
    if layer >= shape.num_layers:
        raise AdapterInvalidError(f"{folder}: has layer {layer}, the base model has {shape.num_layers} layers")
    if entry.dtype not in _WEIGHT_DTYPES:
        raise AdapterUnsupportedError(
            f"{folder}: {entry.name} is {entry.dtype}; {', '.join(_WEIGHT_DTYPES)} are served"
        )
    if len(entry.shape) != 2 or 0 in entry.shape:
        raise AdapterInvalidError(f"{folder}: {entry.name} has shape {list(entry.shape)}, a matrix is expected")
    rows, cols = entry.shape
    fan_in, fan_out = shape.module_dims(module)
    got, expected = (cols, fan_in) if side == "A" else (rows, fan_out)
    if got != expected:
        words = f"[rank, {fan_in}]" if side == "A" else f"[{fan_out}, rank]"
        raise AdapterInvalidError(
            f"{folder}: {entry.name} has shape {list(entry.shape)}, the base model needs {words}: another model's?"
        )
    return MatrixEntry(layer, module, side, rows, cols, entry.dtype, entry.offset, entry.nbytes)


_FEATURES = {
    "lora_magnitude_vector": "DoRA",
    "lora_B.bias": "a LoRA bias",
    "lora_embedding": "LoRA on an embedding",
    "token_adapter": "trained tokens",
    "base_layer": "a trained copy of the base model's weights",
    "lora_diag": "KaSA",
    "modules_to_save": "a fully trained module",
    "lm_head": "a trained output layer",
    "embed_tokens": "a trained embedding",
}


def _ranks(folder: Path, matrices: tuple[MatrixEntry, ...], shape: ModelShape) -> dict[tuple[int, str], int]:
    sides: dict[tuple[int, str], dict[str, MatrixEntry]] = {}
    for matrix in matrices:
        pair = sides.setdefault((matrix.layer, matrix.module), {})
        if matrix.side in pair:
            raise AdapterInvalidError(f"{folder}: layer {matrix.layer} {matrix.module} has two lora_{matrix.side}")
        pair[matrix.side] = matrix
    ranks = {}
    for (layer, module), pair in sides.items():
        where = f"{folder}: layer {layer} {module}"
        if len(pair) != 2:
            raise AdapterInvalidError(f"{where} has only lora_{''.join(pair)}; A and B belong together")
        rank = pair["A"].rows
        if rank != pair["B"].cols:
            raise AdapterInvalidError(f"{where}: lora_A has rank {rank}, lora_B has rank {pair['B'].cols}")
        if rank > (most := max(shape.module_dims(module))):
            raise AdapterInvalidError(f"{where}: rank {rank} is larger than the matrix it adapts ({most})")
        ranks[layer, module] = rank
    return ranks


def _scales(
    folder: Path, config: Mapping[str, Any], ranks: Mapping[tuple[int, str], int]
) -> dict[tuple[int, str], float]:
    """alpha / r, or alpha / sqrt(r) with rsLoRA (Kalajdzievski, 2023), by PEFT's rules for patterns."""
    rank = _number(folder, "r", config.get("r", 8))
    alpha = _number(folder, "lora_alpha", config.get("lora_alpha", 8))
    rank_pattern = _pattern(folder, "rank_pattern", config)
    alpha_pattern = _pattern(folder, "alpha_pattern", config)
    scales = {}
    for (layer, module), found in ranks.items():
        block = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
        name = f"model.layers.{layer}.{block}.{module}"
        said = _matching(folder, rank_pattern, name, rank)
        if said != found:
            raise AdapterInvalidError(
                f"{folder}: layer {layer} {module} has rank {found}, adapter_config.json says {said:g}"
            )
        own_alpha = _matching(folder, alpha_pattern, name, alpha)
        scales[layer, module] = own_alpha / (math.sqrt(found) if config.get("use_rslora") is True else found)
    return scales


def _matching(folder: Path, patterns: Mapping[str, float], name: str, default: float) -> float:
    """The first key that matches the end of the module's name wins."""
    for pattern, value in patterns.items():
        # A repeated group, or many repetitions, can take for ever on a name that does not match.
        if len(pattern) > 500 or re.search(r"\)[*+?{]", pattern) or len(re.findall(r"[*+{]", pattern)) > 4:
            raise AdapterUnsupportedError(f"{folder}: the pattern {pattern[:80]!r} is too complex")
        try:
            if re.match(rf"(.*\.)?({pattern})$", name):
                return value
        except re.error as error:
            raise AdapterInvalidError(f"{folder}: {pattern[:80]!r} is not a regular expression: {error}") from error
    return default


def _pattern(folder: Path, key: str, config: Mapping[str, Any]) -> dict[str, float]:
    value = config.get(key) or {}
    if not isinstance(value, dict) or len(value) > 10_000:
        raise AdapterInvalidError(f"{folder}: {key} must be an object")
    return {pattern: _number(folder, key, number) for pattern, number in value.items()}


def _number(folder: Path, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise AdapterInvalidError(f"{folder}: {key} is {str(value)[:40]!r}, a positive number is expected")
    return float(value)
