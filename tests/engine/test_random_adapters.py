"""Random adapters: PEFT loads them, they change the logits, and no one's folder is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from engine.errors import AdapterExistsError, AdapterInvalidError
from engine.random_adapters import make_adapters
from engine.shape import LORA_MODULES
from tests.engine.synthetic import TINY_SHAPE

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")


def test_peft_loads_them_and_they_change_the_logits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=TINY_SHAPE.num_layers,
            hidden_size=TINY_SHAPE.hidden_size,
            intermediate_size=TINY_SHAPE.intermediate_size,
            num_attention_heads=TINY_SHAPE.num_heads,
            num_key_value_heads=TINY_SHAPE.num_kv_heads,
            head_dim=TINY_SHAPE.head_dim,
            vocab_size=TINY_SHAPE.vocab_size,
        )
    ).eval()
    folders = make_adapters(tmp_path, TINY_SHAPE, count=2, rank=4, targets=LORA_MODULES)
    assert [folder.name for folder in folders] == ["tenant-adapter-000", "tenant-adapter-001"]
    ids = torch.arange(8)[None]
    with torch.no_grad():
        logits = [base(ids).logits]
        model = PeftModel.from_pretrained(base, folders[0], adapter_name="first")
        model.load_adapter(folders[1], adapter_name="second")
        for name in ("first", "second"):
            model.set_adapter(name)
            logits.append(model(ids).logits)
    matrices = load_file(folders[0] / "adapter_model.safetensors")
    assert len(matrices) == 2 * len(LORA_MODULES) * TINY_SHAPE.num_layers
    assert {matrix.dtype for matrix in matrices.values()} == {torch.bfloat16}
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (logits[one] - logits[other]).abs().max() > 1e-5


def test_bytes_depend_on_seed_and_number_only(tmp_path: Path) -> None:
    few = make_adapters(tmp_path / "few", TINY_SHAPE, count=2, rank=2)
    many = make_adapters(tmp_path / "many", TINY_SHAPE, count=3, rank=2)
    other = make_adapters(tmp_path / "other", TINY_SHAPE, count=2, rank=2, seed=1)
    weights = [[(folder / "adapter_model.safetensors").read_bytes() for folder in made] for made in (few, many, other)]
    assert weights[0] == weights[1][:2]
    assert len({*weights[1], *weights[2]}) == 5


def test_progress_counts_up(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    make_adapters(
        tmp_path, TINY_SHAPE, count=3, rank=2, prefix="x", on_progress=lambda done, count: seen.append((done, count))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x000", "x001", "x002"]


def test_a_taken_name_stops_it_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "tenant-adapter-001").mkdir()
    with pytest.raises(AdapterExistsError, match="tenant-adapter-001 exists"):
        make_adapters(tmp_path, TINY_SHAPE, count=3, rank=2)
    assert [path.name for path in tmp_path.iterdir()] == ["tenant-adapter-001"]


@pytest.mark.parametrize(
    ("rank", "targets", "message"),
    [(0, ("q_proj",), "between 1 and 64"), (33, ("k_proj",), "between 1 and 32"), (2, ("lm_head",), "no such target")],
)
def test_what_the_model_can_not_have_is_refused(
    tmp_path: Path, rank: int, targets: tuple[str, ...], message: str
) -> None:
    with pytest.raises(AdapterInvalidError, match=message):
        make_adapters(tmp_path / "out", TINY_SHAPE, count=1, rank=rank, targets=targets)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("prefix", ["", "../x", "a/b", "é"])
def test_a_prefix_that_is_no_name_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(AdapterInvalidError, match="prefix"):
        make_adapters(tmp_path, TINY_SHAPE, count=1, rank=2, prefix=prefix)
