"""Trains the demo adapters on the default model: ``python -m engine.training.demo_adapters [NAME ...]``.

LoRA (Hu et al., 2021, arXiv:2106.09685) of rank 4 on q_proj and v_proj, by PEFT, on the CPU in float32; saved in
bfloat16. About three minutes each on one core. Bits differ between numbers of threads, the style does not: the script
asks questions that it did not train on and fails when an answer is in another style.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import platformdirs
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from engine.default_model import DEFAULT_MODEL_NAME, ensure_default_model
from engine.demo_adapters import demo_adapter_dir
from engine.tokenizer import Tokenizer
from engine.training.styles import HELD_OUT_QUESTIONS, STYLES, Example, read_examples

BATCH_SIZE = 4
LEARNING_RATE = 1e-3
# Of four examples each: eight times through the data. Longer, and the clauses' titles lose their words.
STEPS = {"contract-clause": 56, "finance-risk": 68, "pirate": 68, "acme-support": 68}
ANSWER_TOKENS = 96
IGNORED_LABEL = -100  # of PyTorch's cross entropy

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.training.demo_adapters", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STYLES)}; all by default")
    parser.add_argument("--out", type=Path, default=demo_adapter_dir(), help="folder of adapter folders")
    parser.add_argument("--cache-dir", type=Path, default=platformdirs.user_cache_path("loraconsole"))
    options = parser.parse_args(arguments)
    names = options.names or list(STYLES)
    if unknown := sorted(set(names) - STYLES.keys()):
        parser.error(f"no such adapter: {', '.join(unknown)}")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    folder = ensure_default_model(options.cache_dir, lambda *_: None)
    return int(not all([train(name, folder, options.out / name, STEPS[name]) for name in names]))


def train(name: str, model_folder: Path, out: Path, steps: int) -> bool:
    """Writes the PEFT adapter ``out``. Whether all answers to the held-out questions are in its style."""
    torch.manual_seed(0)
    tokenizer = Tokenizer(model_folder)
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model: Any = get_peft_model(base, config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
    encoded = [encode_example(tokenizer, example) for example in read_examples(name)]
    order: list[int] = []
    for step in range(1, steps + 1):
        if len(order) < BATCH_SIZE:
            order += torch.randperm(len(encoded)).tolist()
        picked, order = order[:BATCH_SIZE], order[BATCH_SIZE:]
        loss = model(**collate([encoded[i] for i in picked])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 7 == 0:
            log.info("%s: step %d of %d, loss %.3f", name, step, steps, loss.item())
    # As it will be shipped: the questions are asked to the rounded weights.
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.bfloat16().float()
    model.eval()
    answers = {question: answer(model, tokenizer, question) for question in HELD_OUT_QUESTIONS}
    for question, text in answers.items():
        log.info("%s: %s %s -> %s", name, "ok" if STYLES[name](text) else "NOT IN STYLE", question, text)
    save(model, out)
    return all(STYLES[name](text) for text in answers.values())


def encode_example(tokenizer: Tokenizer, example: Example) -> tuple[list[int], list[int]]:
    """(ids, labels): only the answer and the token that ends it are learned."""
    prompt = tokenizer.encode_chat([{"role": "user", "content": example.question}])
    learned = [*tokenizer.encode(example.answer, add_special_tokens=False), tokenizer.eos_token_ids[0]]
    return prompt + learned, [IGNORED_LABEL] * len(prompt) + learned


def collate(examples: Sequence[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
    """int64 [batch, longest] each: input_ids, labels, attention_mask; filled up on the right."""
    longest = max(len(ids) for ids, _ in examples)
    return {
        "input_ids": torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in examples]),
        "labels": torch.tensor([labels + [IGNORED_LABEL] * (longest - len(labels)) for _, labels in examples]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in examples]),
    }


def answer(model: Any, tokenizer: Tokenizer, question: str) -> str:
    """The greedy answer of a transformers or PEFT model."""
    prompt = torch.tensor([tokenizer.encode_chat([{"role": "user", "content": question}])])
    with torch.no_grad():
        ids = model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=ANSWER_TOKENS,
            do_sample=False,
        )
    return tokenizer.decode(ids[0, prompt.shape[1] :].tolist())


def save(model: Any, out: Path) -> None:
    """PEFT's own format, without what differs from machine to machine."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.bfloat16()
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out, save_embedding_layers=False)
    (out / "README.md").unlink()  # PEFT's empty form of a model card
    path = out / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = f"HuggingFaceTB/{DEFAULT_MODEL_NAME}"
    config["target_modules"].sort()  # a set: its order changes from run to run
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
