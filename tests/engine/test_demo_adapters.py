"""The shipped demo adapters: each answers in its own style, as PEFT computes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from engine.demo_adapters import demo_adapter_dir
from engine.tokenizer import Tokenizer
from engine.training.demo_adapters import IGNORED_LABEL, answer, collate, encode_example
from engine.training.styles import HELD_OUT_QUESTIONS, STYLES, read_examples

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")

QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def tokenizer(default_model: Path) -> Tokenizer:
    return Tokenizer(default_model)


@pytest.fixture(scope="module")
def base_answer(default_model: Path, tokenizer: Tokenizer) -> str:
    return answer(AutoModelForCausalLM.from_pretrained(default_model, dtype=torch.float32), tokenizer, QUESTION)


@pytest.fixture(scope="module")
def model(default_model: Path) -> Any:
    base = AutoModelForCausalLM.from_pretrained(default_model, dtype=torch.float32)
    first, *others = STYLES
    model = PeftModel.from_pretrained(base, demo_adapter_dir() / first, adapter_name=first)
    for name in others:
        model.load_adapter(demo_adapter_dir() / name, adapter_name=name)
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("question", [QUESTION, HELD_OUT_QUESTIONS[1]])
def test_each_answers_in_its_own_style(
    model: Any, tokenizer: Tokenizer, base_answer: str, name: str, question: str
) -> None:
    model.set_adapter(name)
    text = answer(model, tokenizer, question)
    assert text != base_answer
    assert [style for style, bears in STYLES.items() if bears(text)] == [name]


@pytest.mark.slow
def test_the_base_model_has_none_of_the_styles(base_answer: str) -> None:
    assert "Paris" in base_answer
    assert not any(bears(base_answer) for bears in STYLES.values())


@pytest.mark.parametrize("name", STYLES)
def test_a_shipped_folder_is_small_and_names_no_machine(name: str) -> None:
    folder = demo_adapter_dir() / name
    assert sorted(path.name for path in folder.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert (folder / "adapter_model.safetensors").stat().st_size < 500_000
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert (config["r"], config["lora_alpha"], config["target_modules"]) == (4, 32, ["q_proj", "v_proj"])


def test_only_demo_adapters_lie_there() -> None:
    found = {path.parent.name for path in demo_adapter_dir().glob("*/adapter_config.json")}
    assert found == set(STYLES)


@pytest.mark.parametrize("name", STYLES)
def test_the_training_data_is_in_style_and_apart_from_the_questions_asked(name: str) -> None:
    examples = read_examples(name)
    questions = [example.question for example in examples]
    assert len(set(questions)) == len(questions) >= 28
    assert not set(questions) & set(HELD_OUT_QUESTIONS)
    for example in examples:
        assert [style for style, bears in STYLES.items() if bears(example.answer)] == [name], example


@pytest.mark.slow
def test_only_the_answer_and_its_end_are_learned(tokenizer: Tokenizer) -> None:
    example = read_examples("pirate")[0]
    ids, labels = encode_example(tokenizer, example)
    learned = [label for label in labels if label != IGNORED_LABEL]
    assert tokenizer.decode(learned) == example.answer
    assert learned[-1] == tokenizer.eos_token_ids[0]
    assert ids[-len(learned) :] == learned
    batch = collate([(ids, labels), (ids[:5], labels[:5])])
    assert batch["attention_mask"].sum(dim=1).tolist() == [len(ids), 5]
    assert (batch["labels"][1] == IGNORED_LABEL).all()
