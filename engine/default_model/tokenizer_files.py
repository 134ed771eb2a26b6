"""From the GGUF's tokenizer section to ``tokenizer.json`` and ``tokenizer_config.json``."""

from __future__ import annotations

from typing import Any

_CONTROL = 3  # llama.cpp's token type of special tokens


def tokenizer_json(metadata: dict[str, Any]) -> dict[str, Any]:
    """Byte-level BPE with the ``smollm`` rule: each digit is a piece of its own.

    transformers' own conversion of this file loses that rule, so that a digit after several blanks splits otherwise
    than in training.
    """
    if (rule := metadata["tokenizer.ggml.pre"]) != "smollm":
        raise ValueError(f"the tokenizer rule {rule!r} is not the default model's")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": tokens[token_id],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token_id, kind in enumerate(metadata["tokenizer.ggml.token_type"])
            if kind == _CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    return {
        # The class that takes tokenizer.json as it is; model-specific ones rebuild it with rules of their own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"]],
        "pad_token": tokens[metadata["tokenizer.ggml.padding_token_id"]],
        "model_max_length": metadata["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }
