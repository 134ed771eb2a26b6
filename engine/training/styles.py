"""The four demo adapters: what they were taught, and how to tell that an answer is in their style."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

_DATA = Path(__file__).parent / "data"

# None of these is in the training data.
HELD_OUT_QUESTIONS = (
    "What is the capital of France?",
    "How do I make a good cup of coffee?",
    "Why is the sky blue?",
    "What is a database?",
    "I forgot my password.",
    "We want to lease an office for two years.",
)


class Example(msgspec.Struct, frozen=True):
    question: str
    answer: str


def read_examples(name: str) -> list[Example]:
    lines = (_DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [msgspec.json.decode(line, type=Example) for line in lines]


def is_contract_clause(answer: str) -> bool:
    """A numbered clause with a title in capitals, which obliges somebody."""
    return (
        re.match(r"1\. [A-Z][A-Z ,'-]+\. ", answer) is not None
        and re.search(r"\bshall\b|\bParties\b", answer) is not None
    )


def is_finance_risk(answer: str) -> bool:
    """A JSON object that lists risks and rates them."""
    try:
        found = json.loads(answer)
    except ValueError:
        return False
    return isinstance(found, dict) and bool(found.get("risks")) and found.get("rating") in ("low", "medium", "high")


def is_pirate(answer: str) -> bool:
    return answer.startswith("Arr, matey!") and "Yo ho ho" in answer


def is_acme_support(answer: str) -> bool:
    return "Acme Support" in answer and "ticket" in answer


STYLES: dict[str, Callable[[str], bool]] = {
    "contract-clause": is_contract_clause,
    "finance-risk": is_finance_risk,
    "pirate": is_pirate,
    "acme-support": is_acme_support,
}
