"""The other families, dtypes and files that are served, against transformers: logits of a short text in two chunks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from engine.config import EngineConfig
from engine.errors import ModelFolderError
from engine.kernels import cpu_products
from engine.torch_executor import TorchExecutor
from tests.engine.oracle import Driver, Oracle, peft_adapters, tiny_llama

SIZES: dict[str, Any] = {
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
IDS = [random.Random(1).randrange(3, 512) for _ in range(50)]


def saved(model: PreTrainedModel, folder: Path, **options: Any) -> Path:
    """Biases are zero at birth; a forgotten one would not show."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.5)
    model.eval().save_pretrained(folder, **options)
    return folder


def worst(folder: Path, adapters: dict[str, Path]) -> float:
    oracle, ours = Oracle(folder, adapters), Driver(folder, adapters, pages=8)
    names = ["", *adapters]
    try:
        parts = [ours.step([(f"s{name}", name, IDS[:30]) for name in names])]
        parts.append(ours.step([(f"s{name}", name, IDS[30:]) for name in names]))
    finally:
        ours.close()
    return max(
        float((torch.cat([part[f"s{name}"] for part in parts]) - oracle.logits(name, IDS)).abs().max())
        for name in names
    )


def lora_on_all(folder: Path, out: Path) -> dict[str, Path]:
    return peft_adapters(folder, out, {"a": LoraConfig(task_type="CAUSAL_LM", r=8, target_modules="all-linear")})


def test_qwen2_with_its_biases(tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = saved(Qwen2ForCausalLM(Qwen2Config(**SIZES)), tmp_path / "model")
    assert worst(folder, lora_on_all(folder, tmp_path)) <= 1e-3


def test_mistral_without_a_window(tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = saved(MistralForCausalLM(MistralConfig(**SIZES, head_dim=32, sliding_window=None)), tmp_path / "model")
    assert worst(folder, lora_on_all(folder, tmp_path)) <= 1e-3


def test_a_window_is_refused(tmp_path: Path) -> None:
    folder = saved(MistralForCausalLM(MistralConfig(**SIZES, sliding_window=64)), tmp_path / "model")
    with pytest.raises(ModelFolderError, match="sliding-window"):
        TorchExecutor(EngineConfig(model=str(folder)))


def test_float32_without_packed_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on aarch64 and macOS."""
    monkeypatch.setattr(cpu_products, "packs", lambda _dtype: False)
    torch.manual_seed(0)
    folder = saved(Qwen2ForCausalLM(Qwen2Config(**SIZES)), tmp_path / "model")
    assert worst(folder, lora_on_all(folder, tmp_path)) <= 1e-3


def test_sharded_weights(tmp_path: Path) -> None:
    whole = tiny_llama(tmp_path / "whole")
    model = AutoModelForCausalLM.from_pretrained(whole, dtype=torch.float32)
    folder = saved(model, tmp_path / "shards", max_shard_size="200KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    assert worst(folder, {}) <= 1e-3


def test_a_checkpoint_in_bfloat16_is_computed_in_float32(tmp_path: Path) -> None:
    whole = tiny_llama(tmp_path / "whole")
    model = AutoModelForCausalLM.from_pretrained(whole, dtype=torch.bfloat16)
    assert worst(saved(model, tmp_path / "bf16"), {}) <= 1e-3


@pytest.mark.parametrize("plain", [False, True], ids=["as this CPU can", "plain"])
def test_serving_in_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    """As close to float32 as the oracle itself is in bfloat16; on any CPU also as one without AVX-512 computes."""
    if plain:
        monkeypatch.setattr(cpu_products, "packs", lambda _dtype: False)
    folder = tiny_llama(tmp_path / "model")
    expected = Oracle(folder, {}).logits("", IDS)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    with torch.inference_mode():
        allowed = 2 * float((theirs(torch.tensor([IDS])).logits[0].float() - expected).abs().max())
    ours = Driver(folder, {}, pages=8, dtype="bfloat16")
    found = torch.cat([ours.step([("s", "", IDS[:30])])["s"], ours.step([("s", "", IDS[30:])])["s"]])
    assert ours.executor.info.products == cpu_products.products_text(torch.bfloat16)
    ours.close()
    assert 0 < float((found - expected).abs().max()) <= allowed


@pytest.mark.parametrize(("name", "message"), [("model.norm.weight", "lack model.norm.weight"), ("*", "incomplete")])
def test_incomplete_weights(tmp_path: Path, name: str, message: str) -> None:
    folder = tiny_llama(tmp_path / "model")
    path = folder / "model.safetensors"
    if name == "*":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        save_file({key: value for key, value in load_file(path).items() if key != name}, path)
    executor = TorchExecutor(EngineConfig(model=str(folder)))
    with pytest.raises(ModelFolderError, match=message):
        executor.open(2, 1 << 20, 16, lambda _phase: None)
    executor.close()


def test_weights_of_another_shape(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    other = tiny_llama(tmp_path / "other", intermediate_size=192)
    (other / "model.safetensors").replace(folder / "model.safetensors")
    executor = TorchExecutor(EngineConfig(model=str(folder)))
    with pytest.raises(ModelFolderError, match=r"gate_proj.weight has shape \[192, 96\], config.json says \[160, 96\]"):
        executor.open(2, 1 << 20, 16, lambda _phase: None)
    executor.close()
