"""Base weights from safetensors, q/k/v and gate/up side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open

from engine.errors import ModelFolderError
from engine.kernels.cpu_linear import Linear
from engine.model_folder import ModelConfig


@dataclass(frozen=True, slots=True)
class LayerWeights:
    input_norm: torch.Tensor
    qkv: Linear  # q, k and v side by side
    o: Linear
    post_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Weights:
    """``embedding``: ``[vocab, hidden]``; ``tied``: it is the output layer's weight too."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Linear
    tied: bool

    @property
    def nbytes(self) -> int:
        linears = [linear for layer in self.layers for linear in (layer.qkv, layer.o, layer.gate_up, layer.down)]
        return sum(linear.nbytes for linear in (*linears, self.head)) + self.embedding.nbytes

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """``[rows, hidden]`` to ``[rows, vocab]``."""
        if self.tied and hidden.shape[0] == 1:  # so long a matrix times one row is read faster as it is
            return F.linear(hidden, self.embedding)
        return self.head(hidden)


def load_weights(
    folder: Path, config: ModelConfig, dtype: torch.dtype, report: Callable[[str, int, int], None]
) -> Weights:
    """Raises ModelFolderError for a missing or misshapen tensor. ``report``: (what, layers done, layers)."""
    files = _Files(folder)
    shape = config.shape

    def tensor(name: str, *expected: int) -> torch.Tensor:
        found = files.get(name)
        if tuple(found.shape) != expected:
            raise ModelFolderError(f"{folder}: {name} has shape {list(found.shape)}, config.json says {list(expected)}")
        return found.to(dtype)

    def linear(prefix: str, names: tuple[str, ...], fan_in: int, fan_outs: tuple[int, ...], biased: bool) -> Linear:
        parts = [tensor(f"{prefix}.{name}.weight", out, fan_in) for name, out in zip(names, fan_outs, strict=True)]
        bias = None
        if biased:
            bias = torch.cat([tensor(f"{prefix}.{name}.bias", out) for name, out in zip(names, fan_outs, strict=True)])
        return Linear(torch.cat(parts), bias)

    hidden, inner = shape.hidden_size, shape.intermediate_size
    q, kv = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    qwen = shape.architecture == "Qwen2ForCausalLM"
    layers = []
    for number in range(shape.num_layers):
        report(f"layer {number}", number, shape.num_layers)
        at = f"model.layers.{number}"
        attention, biased = f"{at}.self_attn", config.attention_bias
        layers.append(
            LayerWeights(
                input_norm=tensor(f"{at}.input_layernorm.weight", hidden),
                qkv=linear(
                    f"{at}.self_attn", ("q_proj", "k_proj", "v_proj"), hidden, (q, kv, kv), config.attention_bias
                ),
                o=linear(attention, ("o_proj",), q, (hidden,), biased and not qwen),
                post_norm=tensor(f"{at}.post_attention_layernorm.weight", hidden),
                gate_up=linear(f"{at}.mlp", ("gate_proj", "up_proj"), hidden, (inner, inner), False),
                down=linear(f"{at}.mlp", ("down_proj",), inner, (hidden,), False),
            )
        )
    embedding = tensor("model.embed_tokens.weight", shape.vocab_size, hidden)
    tied = config.tie_word_embeddings or not files.has("lm_head.weight")
    head = embedding if tied else tensor("lm_head.weight", shape.vocab_size, hidden)
    return Weights(embedding, tuple(layers), tensor("model.norm.weight", hidden), Linear(head), tied)


class _Files:
    """The safetensors files of a folder: one, or many with an index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = folder / "model.safetensors.index.json"
        try:
            if index.is_file():
                names = json.loads(index.read_bytes())["weight_map"]
                self._where = {str(key): str(file) for key, file in names.items()}
            else:
                self._where = {}
                for path in sorted(folder.glob("*.safetensors")):
                    with safe_open(path, "pt") as file:
                        self._where.update(dict.fromkeys(file.keys(), path.name))
        except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
            raise ModelFolderError(f"{folder}: {error}") from error

    def has(self, name: str) -> bool:
        return name in self._where

    def get(self, name: str) -> torch.Tensor:
        if name not in self._where:
            raise ModelFolderError(f"{self._folder}: the weights lack {name}")
        path = (self._folder / self._where[name]).resolve()
        try:
            with safe_open(path, "pt") as file:
                found: torch.Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ModelFolderError(f"{path}: {error}") from error
        return found
