"""From the GGUF's tensors and numbers to the ``config.json`` and ``model.safetensors`` of a Hugging Face Llama."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.bfloat16_file import write_bfloat16
from engine.default_model.gguf import GgufFile

_TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def model_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """``config.json``. Rotary settings and dtype are written in the old and the new form, for old and new readers."""
    heads = metadata["llama.attention.head_count"]
    theta = metadata["llama.rope.freq_base"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
        "hidden_act": "silu",
        "hidden_size": metadata["llama.embedding_length"],
        "head_dim": metadata["llama.embedding_length"] // heads,
        "initializer_range": 0.02,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "max_position_embeddings": metadata["llama.context_length"],
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": metadata["llama.block_count"],
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        # Stored as float32 in the GGUF; the seven digits that float32 holds give back the author's number.
        "rms_norm_eps": float(f"{metadata['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "rope_theta": theta,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": metadata["llama.vocab_size"],
    }


def generation_config(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def hugging_face_name(name: str) -> str:
    """``blk.3.ffn_up.weight`` -> ``model.layers.3.mlp.up_proj.weight``."""
    if name in _TOP:
        return _TOP[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{_IN_LAYER[part]}.weight"


def write_weights(gguf: GgufFile, path: Path, progress: Callable[[int, int], None]) -> None:
    """All tensors as bfloat16, in the order of their Hugging Face names. Progress in bytes."""
    names = {hugging_face_name(name): name for name in sorted(gguf.tensors, key=hugging_face_name)}
    shapes = {target: gguf.tensors[name].shape for target, name in names.items()}
    write_bfloat16(path, shapes, lambda target: _tensor(gguf, names[target]), progress)


def _tensor(gguf: GgufFile, name: str) -> NDArray[np.float32]:
    values = gguf.read(name)
    heads = {
        "attn_q": gguf.metadata["llama.attention.head_count"],
        "attn_k": gguf.metadata["llama.attention.head_count_kv"],
    }.get(name.split(".")[-2])
    if heads is None:
        return values
    # llama.cpp rotates neighbouring pairs and so stores each head's rows interleaved; Hugging Face rotates its halves.
    rows, columns = values.shape
    paired = values.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(paired.swapaxes(1, 2)).reshape(rows, columns)
