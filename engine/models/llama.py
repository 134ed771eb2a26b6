"""The forward pass of the Llama family (Touvron et al., 2023) over the page pool, with LoRA on every projection."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from engine.kernels.cpu_attention import AttentionPlan, KVSpan
from engine.kernels.cpu_lora import LoraPlan
from engine.kernels.pool_view import PoolView
from engine.model_folder import ModelConfig
from engine.models.rotary import RotaryTable, rotate
from engine.weights import Weights


class Llama:
    def __init__(self, config: ModelConfig, weights: Weights, pool: PoolView, positions: int) -> None:
        self._config = config
        self._shape = config.shape
        self._weights = weights
        self._pool = pool
        self._dtype = weights.embedding.dtype
        self._rotary = RotaryTable(config, positions, self._dtype)

    def forward(
        self, token_ids: torch.Tensor, spans: Sequence[KVSpan], lora: LoraPlan, sample_rows: torch.Tensor
    ) -> torch.Tensor:
        """Logits ``[sample_rows, vocab]``, float32, of a batch ``[tokens]``; stores its KV in the pool."""
        shape, eps = self._shape, self._config.rms_norm_eps
        size = (shape.hidden_size,)
        heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        plan = AttentionPlan(self._pool, spans, self._dtype)
        cos, sin = self._rotary.at(plan.positions, heads + kv_heads, still=kv_heads)
        hidden = F.embedding(token_ids, self._weights.embedding)
        tokens = hidden.shape[0]
        attended = hidden.new_empty(tokens, heads, dim)
        for number, layer in enumerate(self._weights.layers):
            x = F.rms_norm(hidden, size, layer.input_norm, eps)
            qkv = layer.qkv(x)
            lora.add(number, "qkv", x, qkv)
            # V goes through too, by an angle of zero: cheaper than to take it out and put it back.
            qkv = rotate(qkv.view(tokens, heads + 2 * kv_heads, dim), cos, sin)
            plan.write(number, qkv[:, heads:])
            plan.attend(number, qkv[:, :heads], attended)
            x = attended.view(tokens, heads * dim)
            projected = layer.o(x)
            lora.add(number, "o", x, projected)
            hidden = projected.add_(hidden)
            x = F.rms_norm(hidden, size, layer.post_norm, eps)
            both = layer.gate_up(x)
            lora.add(number, "gate_up", x, both)
            gate, up = both.chunk(2, dim=1)
            x = F.silu(gate).mul_(up)
            projected = layer.down(x)
            lora.add(number, "down", x, projected)
            hidden = projected.add_(hidden)
        last = F.rms_norm(hidden.index_select(0, sample_rows), size, self._weights.norm, eps)
        return self._weights.logits(last).float()
