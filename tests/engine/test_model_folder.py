"""config.json in its old and its new style; every folder that is none, and what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelFolderError
from engine.model_folder import read_model_config, read_shape

PLAIN: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "vocab_size": 97,
    "rms_norm_eps": 1e-5, "eos_token_id": 2,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip


def folder(path: Path, without: str = "", **values: Any) -> Path:
    config = {key: value for key, value in (PLAIN | values).items() if key != without}
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(b"")
    return path


def test_shape(tmp_path: Path) -> None:
    shape = read_shape(folder(tmp_path), 2)
    assert (shape.num_layers, shape.num_heads, shape.num_kv_heads, shape.head_dim) == (2, 4, 2, 16)
    assert shape.kv_bytes_per_token == 2 * 2 * 2 * 16 * 2


def test_old_and_new_style_mean_the_same(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    folder(old, rope_theta=500_000.0, rope_scaling=LLAMA3, torch_dtype="bfloat16")
    folder(new, rope_parameters=LLAMA3 | {"rope_theta": 500_000.0}, dtype="bfloat16")
    one, two = read_model_config(old, 4), read_model_config(new, 4)
    assert one.rope_theta == two.rope_theta == 500_000.0
    assert one.dtype == two.dtype == "bfloat16"
    assert one.rope == {key: value for key, value in two.rope.items() if key != "rope_theta"}


def test_rope_type_by_its_older_name(tmp_path: Path) -> None:
    config = read_model_config(folder(tmp_path, rope_scaling={"type": "linear", "factor": 2.0}), 4)
    assert config.rope["rope_type"] == "linear"


def test_what_may_be_missing(tmp_path: Path) -> None:
    config = read_model_config(folder(tmp_path, without="num_key_value_heads"), 4)
    assert config.shape.num_kv_heads == 4
    assert config.rope_theta == 10_000.0
    assert config.rope["rope_type"] == "default"
    assert not config.tie_word_embeddings
    assert read_shape(folder(tmp_path, head_dim=32), 4).head_dim == 32


def test_end_tokens_come_from_the_generation_config(tmp_path: Path) -> None:
    assert read_model_config(folder(tmp_path), 4).eos_token_ids == (2,)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 5]}))
    assert read_model_config(tmp_path, 4).eos_token_ids == (5, 9)
    (tmp_path / "generation_config.json").write_text("{")
    assert read_model_config(tmp_path, 4).eos_token_ids == (2,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "'GPT2LMHeadModel' is not served; LlamaForCausalLM"),
        ({"architectures": None}, "'none' is not served"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"sliding_window": 4096}, "sliding-window"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rotary embedding of type 'yarn'"),
        ({"hidden_size": "wide"}, "config.json"),
        ({"num_attention_heads": 0}, "config.json"),
        ({"vocab_size": None}, "config.json"),
    ],
)
def test_what_is_not_served(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFolderError, match=message):
        read_model_config(folder(tmp_path, **values), 4)


def test_a_missing_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="intermediate_size"):
        read_shape(folder(tmp_path, without="intermediate_size"), 4)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no such folder"):
        read_shape(tmp_path / "nowhere", 4)
    with pytest.raises(ModelFolderError, match=r"no config\.json"):
        read_shape(tmp_path, 4)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelFolderError, match=r"config\.json"):
        read_shape(tmp_path, 4)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelFolderError, match="JSON object"):
        read_shape(tmp_path, 4)
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    with pytest.raises(ModelFolderError, match=r"no \*\.safetensors"):
        read_shape(tmp_path, 4)


def test_reading_it_needs_no_torch() -> None:
    code = "import sys, engine.model_folder, engine.peft; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
