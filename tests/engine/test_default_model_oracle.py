"""The real default model as transformers sees it: it loads, it makes sense, and its tokenizer is ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

TEXTS = [
    "",
    "The capital of France is Paris.",
    "x=  1234\n\n1. foo\na\t\t42\n    1",
    "3.14159e-10, 2026-12-01, ½ ² ٣",
    "def f(x):\n    return {'a': [x ** 2 for _ in range(10)]}",
    "Größe, naïve café — “quotes” … 你好\uff0c世界 🎉 👩‍👩‍👧‍👦 🇩🇪",
    "IT'S we'll I'm DON'T they've",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "   \n \t  \r\n trailing   ",
    "a\u0301 \u200b \ufeff \x00 \ufffd",
]
CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "You are a pirate."}, {"role": "user", "content": "Hi  12\n"}],
    [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2 🎉"}, {"role": "user", "content": "3"}],
]


@pytest.fixture(scope="module")
def reference(default_model: Path) -> Any:
    return AutoTokenizer.from_pretrained(default_model)


@pytest.fixture(scope="module")
def model(default_model: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(default_model, dtype=torch.float32).eval()


def test_the_tokenizer_equals_transformers(default_model: Path, reference: Any) -> None:
    ours = Tokenizer(default_model)
    assert ours.vocab_size == len(reference) == 49152
    assert ours.eos_token_ids == (reference.eos_token_id,) == (2,)
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == reference(text)["input_ids"]
        assert ours.decode(ids) == reference.decode(ids, skip_special_tokens=True)
        stream = ours.stream()
        assert "".join(stream.push([token_id]) for token_id in ids) + stream.finish() == ours.decode(ids)


def test_each_digit_is_a_token(default_model: Path) -> None:
    ours = Tokenizer(default_model)
    assert [ours.decode([token_id]) for token_id in ours.encode("  1234")] == ["  ", "1", "2", "3", "4"]


def test_the_chat_template_equals_transformers(default_model: Path, reference: Any) -> None:
    ours = Tokenizer(default_model)
    for chat in CHATS:
        expected = reference.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        assert ours.apply_chat_template(chat) == expected
        assert ours.encode_chat(chat) == reference(expected)["input_ids"]


def test_it_predicts_plain_english_well(default_model: Path, model: Any) -> None:
    """Wrongly permuted heads or scales give finite logits too, but not this likelihood."""
    ids = torch.tensor([Tokenizer(default_model).encode("The sun rises in the east and sets in the west.")])
    with torch.no_grad():
        output = model(ids, labels=ids)
    assert torch.isfinite(output.logits).all()
    assert output.logits.shape == (1, ids.shape[1], 49152)
    assert output.loss.item() < 2.5  # nats a token; chance is 10.8


@pytest.mark.parametrize(
    ("question", "word"),
    [("What is the capital of France?", "Paris"), ("What is 2+2?", "4")],
)
def test_a_greedy_answer_makes_sense(default_model: Path, model: Any, question: str, word: str) -> None:
    tokenizer = Tokenizer(default_model)
    prompt = torch.tensor([tokenizer.encode_chat([{"role": "user", "content": question}])])
    with torch.no_grad():
        output = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=32, do_sample=False)
    assert word.lower() in tokenizer.decode(output[0, prompt.shape[1] :].tolist()).lower()
