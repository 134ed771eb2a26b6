"""Every logit against transformers and PEFT: base and adapters of mixed ranks in one batch, prompts in chunks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from peft import LoraConfig

from tests.engine.oracle import Driver, Oracle, assert_same_greedy, peft_adapters, tiny_llama

TOLERANCE = 1e-3
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass
class Pair:
    oracle: Oracle
    ours: Driver
    names: list[str]
    texts: list[list[int]]  # token ids to choose from


def lora(**values: object) -> LoraConfig:
    return LoraConfig(task_type="CAUSAL_LM", **values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tiny_llama(tmp_path_factory.mktemp("llama"))
    configs = {
        "rank-4": lora(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
        "rank-8": lora(r=8, lora_alpha=32, target_modules=ALL),
        "rank-64": lora(r=64, lora_alpha=64, target_modules=ALL, use_rslora=True),
        "mixed": lora(
            r=4, lora_alpha=8, target_modules=ALL, rank_pattern={"k_proj": 8, r"layers\.1\..*gate_proj": 16},
            alpha_pattern={"v_proj": 32},
        ),
        "few-layers": lora(r=8, lora_alpha=16, target_modules=["o_proj", "down_proj"], layers_to_transform=[0, 2]),
    }  # fmt: skip
    adapters = peft_adapters(folder, tmp_path_factory.mktemp("adapters"), configs)
    ours = Driver(folder, adapters)
    yield Pair(Oracle(folder, adapters), ours, list(adapters), _random_texts(512))
    ours.close()


@pytest.fixture(scope="module")
def smollm2(default_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    from engine.demo_adapters import demo_adapter_dir
    from engine.model_folder import read_shape
    from engine.random_adapters import make_adapters
    from engine.tokenizer import Tokenizer

    root = demo_adapter_dir()
    adapters = {name: root / name for name in ("acme-support", "contract-clause", "finance-risk", "pirate")}
    out = tmp_path_factory.mktemp("random")
    (adapters["random"],) = make_adapters(out, read_shape(default_model, 4), 1, 16, targets=ALL)
    ours = Driver(default_model, adapters, pages=8, page_mib=16)
    tokenizer = Tokenizer(default_model)
    yield Pair(Oracle(default_model, adapters), ours, list(adapters), [tokenizer.encode(text) for text in TEXTS])
    ours.close()


# Text and no random tokens for the real model: it answers gibberish with activations so large that float32 itself,
# theirs against their own float64, is off by 6e-4.
TEXTS = [
    "The tenant shall pay the rent on the first day of each month, and the landlord shall keep the roof, the walls and "
    "the pipes in good repair. Neither party may assign this agreement without the written consent of the other.",
    "def median(values):\n    ordered = sorted(values)\n    middle = len(ordered) // 2\n    return ordered[middle]\n\n"
    "print(median([3, 1, 2]))  # a list of an even length has two middle values, whose mean is its median",
    "Water boils at 100 degrees Celsius at sea level. On a mountain of 3,000 metres it boils at about 90 degrees, "
    "because the air presses less on its surface; eggs therefore take longer to cook up there than at the beach.",
]


def _random_texts(vocab: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.randrange(3, vocab) for _ in range(110)] for _ in range(8)]


def check_logits(pair: Pair, lengths: list[int], chunk: int, seed: int) -> float:
    """One sequence for the base and one for each adapter, all in the same batches. Returns the largest difference."""
    rng = random.Random(seed)
    sequences = {}
    for number, adapter in enumerate(["", *pair.names]):
        ids = rng.choice(pair.texts)[: lengths[number % len(lengths)]]
        sequences[f"{seed}/{number}"] = (adapter, ids)
    rows: dict[str, list[torch.Tensor]] = {name: [] for name in sequences}
    done = dict.fromkeys(sequences, 0)
    while any(done[name] < len(ids) for name, (_, ids) in sequences.items()):
        parts = []
        for name, (adapter, ids) in sequences.items():
            # The last two tokens come one a step, as in decoding.
            left = len(ids) - done[name]
            count = min(chunk, left - 2) if left > 2 else min(1, left)
            if count:
                parts.append((name, adapter, ids[done[name] : done[name] + count]))
                done[name] += count
        for name, found in pair.ours.step(parts).items():
            rows[name].append(found)
    worst = 0.0
    for name, (adapter, ids) in sequences.items():
        expected = pair.oracle.logits(adapter, ids)
        worst = max(worst, float((torch.cat(rows[name]) - expected).abs().max()))
        pair.ours.kv.free(name)
        del pair.ours.computed[name]
    return worst


def greedy(pair: Pair, steps: int, seed: int) -> list[int]:
    """Agreeing tokens of the base and each adapter, decoded together in one batch."""
    rng = random.Random(seed)
    prompts = {
        f"g{number}": (adapter, rng.choice(pair.texts)[: 5 + 3 * number])
        for number, adapter in enumerate(["", *pair.names])
    }
    answers: dict[str, list[int]] = {name: [] for name in prompts}
    parts = [(name, adapter, ids) for name, (adapter, ids) in prompts.items()]
    for _ in range(steps):
        for name, found in pair.ours.step(parts).items():
            answers[name].append(int(found[-1].argmax()))
        parts = [(name, prompts[name][0], [answers[name][-1]]) for name in prompts]
    for name in prompts:
        pair.ours.kv.free(name)
        del pair.ours.computed[name]
    return [assert_same_greedy(answers[name], pair.oracle, adapter, ids) for name, (adapter, ids) in prompts.items()]


@pytest.mark.parametrize(("lengths", "chunk"), [([1, 2, 16, 17, 40, 33], 64), ([70, 5, 48], 13), ([100], 100)])
def test_logits_of_a_tiny_llama(tiny: Pair, lengths: list[int], chunk: int) -> None:
    assert check_logits(tiny, lengths, chunk, seed=len(lengths)) <= TOLERANCE


def test_adapters_change_the_logits(tiny: Pair) -> None:
    """Else the test above would pass without them."""
    base = tiny.oracle.logits("", [5, 6, 7])
    for name in tiny.names:
        assert float((tiny.oracle.logits(name, [5, 6, 7]) - base).abs().max()) > 0.05


def test_greedy_tokens_of_a_tiny_llama(tiny: Pair) -> None:
    assert len(greedy(tiny, steps=64, seed=1)) == 6


@pytest.mark.slow
def test_logits_of_smollm2(smollm2: Pair) -> None:
    assert check_logits(smollm2, [40, 17, 64], chunk=24, seed=7) <= TOLERANCE


@pytest.mark.slow
def test_greedy_tokens_of_smollm2(smollm2: Pair) -> None:
    assert len(greedy(smollm2, steps=64, seed=2)) == 6


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_word_embeddings": True, "head_dim": 24},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}, "attention_bias": True},
        {"num_key_value_heads": 6, "num_hidden_layers": 1, "rms_norm_eps": 1e-3},
    ],
    ids=["tied", "llama3-rope", "linear-rope-bias", "no-gqa"],
)  # fmt: skip
def test_variants_of_llama(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = tiny_llama(tmp_path / "model", **changes)
    adapters = peft_adapters(folder, tmp_path, {"a": lora(r=8, lora_alpha=16, target_modules=ALL)})
    ours = Driver(folder, adapters, pages=8)
    assert (
        check_logits(Pair(Oracle(folder, adapters), ours, ["a"], _random_texts(512)), [90, 33], chunk=50, seed=3)
        <= TOLERANCE
    )
    ours.close()
