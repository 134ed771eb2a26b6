"""What a Hugging Face model folder says about itself, read without torch: config.json in its old and new style."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelFolderError
from engine.shape import ModelShape

# Architectures whose forward pass is Llama's: RMSNorm, rotary embeddings, grouped attention, SwiGLU.
_ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """``rope``: rope_theta and, for scaled variants, the other parameters by their names in config.json."""

    shape: ModelShape
    rms_norm_eps: float
    rope_theta: float
    rope: dict[str, Any]
    tie_word_embeddings: bool
    attention_bias: bool
    dtype: str
    eos_token_ids: tuple[int, ...]


def read_shape(folder: Path, element_bytes: int) -> ModelShape:
    return read_model_config(folder, element_bytes).shape


def read_model_config(folder: Path, element_bytes: int) -> ModelConfig:
    """``element_bytes``: of weights, KV and adapters as they will be served. Raises ModelFolderError."""
    config = _read(folder)
    architecture = str((config.get("architectures") or ["none"])[0])
    if architecture not in _ARCHITECTURES:
        raise ModelFolderError(
            f"{folder}: architecture {architecture[:80]!r} is not served; {', '.join(_ARCHITECTURES)} are"
        )
    if config.get("quantization_config"):
        raise ModelFolderError(f"{folder}: quantised weights are not served")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise ModelFolderError(f"{folder}: sliding-window attention is not served")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelFolderError(f"{folder}: activation {config['hidden_act']!r} is not served; silu is")
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        shape = ModelShape(
            architecture=architecture,
            num_layers=int(config["num_hidden_layers"]),
            hidden_size=hidden,
            intermediate_size=int(config["intermediate_size"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocab_size=int(config["vocab_size"]),
            max_positions=int(config["max_position_embeddings"]),
            element_bytes=element_bytes,
        )
        rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        return ModelConfig(
            shape=shape,
            rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            rope=_checked_rope(folder, rope),
            tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
            attention_bias=bool(config.get("attention_bias", architecture == "Qwen2ForCausalLM")),
            dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32"),
            eos_token_ids=_eos(folder, config),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ModelFolderError(f"{folder / 'config.json'}: {error!r}") from error


def _read(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; --model takes a local Hugging Face folder")
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except FileNotFoundError:
        raise ModelFolderError(f"{folder}: no config.json, so not a Hugging Face model folder") from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{folder / 'config.json'}: {error}") from error
    if not isinstance(config, dict):
        raise ModelFolderError(f"{folder / 'config.json'}: must hold a JSON object")
    if not any(folder.glob("*.safetensors")):
        raise ModelFolderError(f"{folder}: no *.safetensors; weights in other formats are not read")
    return config


def _checked_rope(folder: Path, rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "llama3", "linear"):
        raise ModelFolderError(f"{folder}: rotary embedding of type {kind!r} is not served")
    return rope | {"rope_type": kind}


def _eos(folder: Path, config: dict[str, Any]) -> tuple[int, ...]:
    value = config.get("eos_token_id")
    try:
        generation = json.loads((folder / "generation_config.json").read_bytes())
        value = generation.get("eos_token_id", value)
    except (OSError, ValueError, AttributeError):
        pass  # the file is optional
    found = value if isinstance(value, list) else [value]
    return tuple(sorted(token for token in found if isinstance(token, int)))
