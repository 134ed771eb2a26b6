"""The numbers of a base model that pool arithmetic and the executors need."""

from __future__ import annotations

from dataclasses import dataclass

# Order is the order of packing: q/k/v and gate/up are read by one fused kernel each, so they lie side by side.
LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
MODULE_INDEX = {name: index for index, name in enumerate(LORA_MODULES)}


@dataclass(frozen=True, slots=True)
class ModelShape:
    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    element_bytes: int  # of weights, KV and adapters in the pool

    @property
    def kv_bytes_per_token(self) -> int:
        """K and V of all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.element_bytes

    def block_bytes(self, block_tokens: int) -> int:
        return block_tokens * self.kv_bytes_per_token

    def module_dims(self, module: str) -> tuple[int, int]:
        """(in_features, out_features) of a LoRA target."""
        q_size = self.num_heads * self.head_dim
        kv_size = self.num_kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden_size, q_size),
            "k_proj": (self.hidden_size, kv_size),
            "v_proj": (self.hidden_size, kv_size),
            "o_proj": (q_size, self.hidden_size),
            "gate_proj": (self.hidden_size, self.intermediate_size),
            "up_proj": (self.hidden_size, self.intermediate_size),
            "down_proj": (self.intermediate_size, self.hidden_size),
        }[module]
