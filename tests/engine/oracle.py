"""The oracle: transformers and PEFT. And a driver that runs our executor beside it, without the core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from engine.config import EngineConfig
from engine.executor import SequenceSlice
from engine.kv_cache import KVCache
from engine.messages import SamplingParams
from engine.packing import pack
from engine.peft import read_manifest
from engine.pool import PagePool
from engine.torch_executor import TorchExecutor


def tiny_llama(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """A random Llama as transformers saves it, large enough that rank 64 means something."""
    values: dict[str, Any] = {
        "vocab_size": 512, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    torch.manual_seed(seed)
    LlamaForCausalLM(LlamaConfig(**(values | changes))).eval().save_pretrained(folder)
    return folder


def peft_adapters(model_folder: Path, out: Path, configs: dict[str, LoraConfig], std: float = 0.2) -> dict[str, Path]:
    """Adapters as PEFT saves them; B is not zero, so that each changes every answer."""
    folders = {}
    for number, (name, config) in enumerate(configs.items()):
        torch.manual_seed(100 + number)
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32), config)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if ".lora_B." in key:
                    parameter.normal_(0, std)
        model.save_pretrained(out / name)
        folders[name] = out / name
    return folders


class Oracle:
    """``logits(name, ids)``: ``[tokens, vocab]`` of the base model (name empty) or with an adapter."""

    def __init__(self, model_folder: Path, adapters: dict[str, Path]) -> None:
        base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
        self._model: Any = base
        for name, folder in adapters.items():
            if isinstance(self._model, PeftModel):
                self._model.load_adapter(folder, name)
            else:
                self._model = PeftModel.from_pretrained(base, folder, adapter_name=name)
        self._model.eval()

    def logits(self, name: str, ids: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode():
            tensor = torch.tensor([list(ids)])
            if not isinstance(self._model, PeftModel):
                return self._model(tensor).logits[0].float()
            if not name:
                with self._model.disable_adapter():
                    return self._model(tensor).logits[0].float()
            self._model.set_adapter(name)
            return self._model(tensor).logits[0].float()


class Driver:
    """Our executor with block tables by hand. ``step`` computes slices of named sequences and returns all logits."""

    def __init__(
        self, model_folder: Path, adapters: dict[str, Path], pages: int = 24, page_mib: int = 1, **config_values: Any
    ) -> None:
        config = EngineConfig(model=str(model_folder), page_mib=page_mib, threads=1, **config_values)
        self.executor = TorchExecutor(config)
        shape = self.executor.shape
        self.executor.open(pages, config.page_bytes, config.block_tokens, lambda _phase: None)
        self.pool = PagePool(pages, config.page_bytes, shape.block_bytes(config.block_tokens))
        self.kv = KVCache(self.pool, config.block_tokens)
        self.serials = {"": -1}
        for serial, (name, folder) in enumerate(adapters.items()):
            manifest = read_manifest(folder, shape)
            layout = pack(manifest, shape.element_bytes, config.page_bytes)
            self.serials[name] = serial
            self.executor.begin_read(serial, manifest, layout)
            self._settle()
            self.executor.begin_copy(serial, self.pool.alloc_adapter(serial, layout))
            self._settle()
        self.computed: dict[str, int] = {}

    def _settle(self) -> None:
        while not (done := self.executor.transfers()):
            self.executor.wait(1.0)
        assert not done[0].error, done[0].error

    def step(self, parts: Sequence[tuple[str, str, Sequence[int]]]) -> dict[str, torch.Tensor]:
        """``parts``: (sequence, adapter, new tokens). Returns ``[tokens, vocab]`` by sequence."""
        slices = []
        for name, adapter, ids in parts:
            start = self.computed.get(name, 0)
            self.kv.grow(name, start + len(ids))
            self.computed[name] = start + len(ids)
            slices.append(
                SequenceSlice(
                    name, self.serials[adapter], list(ids), start, self.kv.table(name), True, SamplingParams(), 0
                )
            )
        slices.sort(key=lambda part: part.adapter)
        with torch.inference_mode():
            rows = self.executor.logits(slices, every_row=True)
        found, at = {}, 0
        for part in slices:
            found[part.request_id] = rows[at : at + len(part.token_ids)]
            at += len(part.token_ids)
        return found

    def close(self) -> None:
        self.executor.close()


def assert_same_greedy(
    ours: Sequence[int], oracle: Oracle, adapter: str, prompt: Sequence[int], tie: float = 1e-4
) -> int:
    """Our greedy tokens are the oracle's, or first differ where its two best logits are a near-tie. Returns how many
    agree. One forward pass over our whole answer: row by row it shows what the oracle would have picked."""
    logits = oracle.logits(adapter, [*prompt, *ours])
    for index, token in enumerate(ours):
        row = logits[len(prompt) - 1 + index]
        best = row.topk(2)
        if token != int(best.indices[0]):
            gap = float(best.values[0] - row[token])
            assert gap <= tie, f"token {index}: {token} instead of {int(best.indices[0])}, {gap:.2e} apart"
            return index
    return len(ours)
