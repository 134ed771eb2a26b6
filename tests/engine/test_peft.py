"""The reader of PEFT folders: scales as PEFT computes them, and everything else refused by name."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from engine.errors import AdapterInvalidError, AdapterNotFoundError, AdapterUnsupportedError, EngineError
from engine.model_folder import read_shape
from engine.peft import read_manifest
from engine.random_adapters import make_adapters
from engine.shape import LORA_MODULES
from tests.engine.oracle import peft_adapters, tiny_llama
from tests.engine.synthetic import TINY_SHAPE

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
KEY = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made,) = make_adapters(tmp_path, TINY_SHAPE, 1, 4, targets=LORA_MODULES)
    return made


def configure(folder: Path, **values: Any) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | values))


def retensor(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)


def test_scales_and_ranks_are_peft_s_own(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "model")
    options: dict[str, dict[str, Any]] = {
        "plain": {"r": 8, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"]},
        "rslora": {"r": 8, "lora_alpha": 16, "use_rslora": True, "target_modules": "all-linear"},
        "patterns": {
            "r": 4, "lora_alpha": 8, "target_modules": r".*layers\.[01]\..*(q|k|v|up)_proj",
            "rank_pattern": {"k_proj": 8, r"layers\.0\.self_attn\.q_proj": 2},
            "alpha_pattern": {r"layers\.1\.self_attn\.v_proj": 64, "v_proj": 5, "k_proj": 3},
        },
    }  # fmt: skip
    configs = {name: LoraConfig(task_type="CAUSAL_LM", **values) for name, values in options.items()}
    shape = read_shape(model, 4)
    for name, path in peft_adapters(model, tmp_path, configs).items():
        manifest = read_manifest(path, shape)
        theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), path)
        found = {}
        for module_name, module in theirs.named_modules():
            if isinstance(module, LoraLayer):
                parts = module_name.split(".")
                found[int(parts[parts.index("layers") + 1]), parts[-1]] = module.scaling["default"], module.r["default"]
        ranks = {(m.layer, m.module): m.rows for m in manifest.matrices if m.side == "A"}
        assert {key: (scale, ranks[key]) for key, scale in manifest.scales.items()} == found, name
        assert manifest.rank == max(ranks.values())


@pytest.mark.parametrize(
    "values",
    [
        {"bias": "all"},
        {"use_dora": True},
        {"lora_bias": True},
        {"fan_in_fan_out": True},
        {"modules_to_save": ["lm_head"]},
        {"trainable_token_indices": [1]},
        {"layer_replication": [[0, 1]]},
        {"alora_invocation_tokens": [5]},
        {"use_qalora": True},
        {"arrow_config": {}},
        {"init_lora_weights": "pissa"},
        {"init_lora_weights": "pissa_niter_4"},
        {"init_lora_weights": "olora"},
        {"peft_type": "IA3"},
        {"task_type": "SEQ_CLS"},
    ],
    ids=lambda values: "-".join(map(str, *values.items())),
)
def test_unsupported_features_are_named(folder: Path, values: dict[str, Any]) -> None:
    configure(folder, **values)
    with pytest.raises(AdapterUnsupportedError, match=next(iter(values))):
        read_manifest(folder, TINY_SHAPE)


@pytest.mark.parametrize(
    "values",
    [
        {"init_lora_weights": "gaussian"},
        {"megatron_core": "megatron.core"},
        {"lora_dropout": 0.5},
        {"exclude_modules": ["lm_head"]},
        {"something_new": 1},
        {"target_modules": "whatever"},
    ],
    ids=lambda values: next(iter(values)),
)
def test_what_changes_nothing_is_accepted(folder: Path, values: dict[str, Any]) -> None:
    before = read_manifest(folder, TINY_SHAPE)
    configure(folder, **values)
    assert read_manifest(folder, TINY_SHAPE) == before


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", "DoRA"),
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias", "bias"),
        ("base_model.model.lm_head.weight", "output layer"),
        ("base_model.model.model.embed_tokens.lora_embedding_A", "embedding"),
        ("base_model.model.model.layers.0.self_attn.rotary.lora_A.weight", "'rotary'"),
        ("something.else", "not a LoRA matrix"),
    ],
)
def test_other_tensors_are_refused(folder: Path, name: str, word: str) -> None:
    retensor(folder, lambda weights: weights.update({name: torch.ones(4, 64)}))
    with pytest.raises(AdapterUnsupportedError, match=word):
        read_manifest(folder, TINY_SHAPE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop(KEY), "has only lora_B"),
        (lambda weights: weights.update({KEY: torch.ones(4, 65)}), "another model's"),
        (lambda weights: weights.update({KEY: torch.ones(8, 64)}), "lora_A has rank 8, lora_B has rank 4"),
        (lambda weights: weights.update({KEY: torch.ones(4)}), "a matrix is expected"),
        (lambda weights: weights.update({KEY: torch.ones(0, 64)}), "a matrix is expected"),
        (lambda weights: weights.update({KEY.replace(".0.", ".9."): torch.ones(4, 64)}), "has layer 9"),
        (lambda weights: weights.update({KEY.replace("base_model.model.", ""): torch.ones(4, 64)}), "two lora_A"),
        (lambda weights: weights.clear(), "holds no LoRA matrix"),
    ],
    ids=["no-a", "cols", "rank", "vector", "empty", "layer", "twice", "none"],
)
def test_tensors_that_do_not_fit(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], object], message: str
) -> None:
    retensor(folder, change)
    with pytest.raises(AdapterInvalidError, match=message):
        read_manifest(folder, TINY_SHAPE)


def test_a_dtype_that_is_not_served(folder: Path) -> None:
    retensor(folder, lambda weights: weights.update({KEY: torch.ones(4, 64, dtype=torch.float64)}))
    with pytest.raises(AdapterUnsupportedError, match="F64"):
        read_manifest(folder, TINY_SHAPE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"r": 8}, "has rank 4, adapter_config.json says 8"),
        ({"r": 0}, "positive number"),
        ({"r": "4"}, "positive number"),
        ({"lora_alpha": -1}, "positive number"),
        ({"lora_alpha": float("nan")}, "positive number"),
        ({"rank_pattern": []}, None),
        ({"rank_pattern": [1]}, "must be an object"),
        ({"alpha_pattern": {"(": 4}}, "not a regular expression"),
    ],
)
def test_numbers_that_make_no_sense(folder: Path, values: dict[str, Any], message: str | None) -> None:
    configure(folder, **values)
    if message is None:  # an empty list is as good as nothing
        read_manifest(folder, TINY_SHAPE)
        return
    with pytest.raises(AdapterInvalidError, match=message):
        read_manifest(folder, TINY_SHAPE)


def test_a_pattern_that_would_take_for_ever(folder: Path) -> None:
    configure(folder, alpha_pattern={"(a+)+b": 4})
    with pytest.raises(AdapterUnsupportedError, match="too complex"):
        read_manifest(folder, TINY_SHAPE)


def _header(folder: Path, header: bytes, data: bytes = b"") -> None:
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda f: (f / WEIGHTS).write_bytes(b""),
    "7 bytes": lambda f: (f / WEIGHTS).write_bytes(b"1234567"),
    "huge header": lambda f: (f / WEIGHTS).write_bytes(struct.pack("<Q", 1 << 62) + b"{}"),
    "truncated": lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-1]),
    "a byte too many": lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes() + b"x"),
    "no JSON": lambda f: _header(f, b"{nope"),
    "a list": lambda f: _header(f, b"[]"),
    "deep": lambda f: _header(f, b"[" * 100_000),
    "a name twice": lambda f: _header(f, b'{"a": 1, "a": 1}'),
    "offsets backwards": lambda f: _header(
        f, b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}', b"1234"
    ),
    "offsets far": lambda f: _header(f, b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [96, 100]}}', b"1234"),
    "huge shape": lambda f: _header(f, b'{"a": {"dtype": "F32", "shape": [1e99], "data_offsets": [0, 4]}}', b"1234"),
    "config no JSON": lambda f: (f / CONFIG).write_text("{"),
    "config a list": lambda f: (f / CONFIG).write_text("[]"),
    "config deep": lambda f: (f / CONFIG).write_text("[" * 100_000),
    "config binary": lambda f: (f / CONFIG).write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_invalid_and_nothing_worse(folder: Path, damage: str) -> None:
    DAMAGE[damage](folder)
    with pytest.raises(AdapterInvalidError, match=folder.name):
        read_manifest(folder, TINY_SHAPE)


def test_every_truncation_is_found(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    for length in range(0, len(whole), 997):
        (folder / WEIGHTS).write_bytes(whole[:length])
        with pytest.raises(EngineError):
            read_manifest(folder, TINY_SHAPE)


def test_folders_without_an_adapter(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(AdapterNotFoundError, match="no such folder"):
        read_manifest(tmp_path / "nowhere", TINY_SHAPE)
    with pytest.raises(AdapterNotFoundError, match=CONFIG):
        read_manifest(tmp_path, TINY_SHAPE)
    (folder / WEIGHTS).unlink()
    with pytest.raises(AdapterNotFoundError, match=WEIGHTS):
        read_manifest(folder, TINY_SHAPE)
    (folder / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(AdapterUnsupportedError, match="save the adapter as safetensors"):
        read_manifest(folder, TINY_SHAPE)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_links_out_of_the_folder_are_refused(tmp_path: Path, folder: Path, name: str) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(AdapterInvalidError, match="leaves its folder"):
        read_manifest(folder, TINY_SHAPE)
