"""Sampling: each row by its own parameters, whatever batch it is in."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from engine.executor import SampledToken, SequenceSlice
from engine.messages import SamplingParams
from engine.sampling import Sampler

VOCAB = 1000


def part(name: str = "r", output_index: int = 0, **sampling: object) -> SequenceSlice:
    return SequenceSlice(name, -1, [1], 0, [0], True, SamplingParams(**sampling), output_index)  # type: ignore[arg-type]


def logits(rows: int, spread: float = 3.0, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * spread


def tokens(found: tuple[list[SampledToken], list[str]]) -> list[int]:
    assert not found[1]
    return [token.token_id for token in found[0]]


def drawn(row: torch.Tensor, count: int, **sampling: object) -> Counter[int]:
    """Tokens drawn from one row with seeds 0, 1, ..."""
    parts = [part(seed=seed, **sampling) for seed in range(count)]
    return Counter(tokens(Sampler(0).sample(row.expand(count, -1), parts)))


def test_temperature_zero_takes_the_best() -> None:
    rows = logits(5)
    assert tokens(Sampler(0).sample(rows, [part(temperature=0.0)] * 5)) == rows.argmax(-1).tolist()


def test_draws_follow_the_probabilities() -> None:
    row = torch.full((VOCAB,), -100.0)
    row[[3, 5, 7]] = torch.tensor([0.5, 0.3, 0.2]).log()
    counts = drawn(row, 2000)
    assert set(counts) == {3, 5, 7}
    for token, probability in ((3, 0.5), (5, 0.3), (7, 0.2)):
        # Five standard deviations; the seeds are fixed, so this can't change from run to run.
        assert abs(counts[token] / 2000 - probability) < 5 * math.sqrt(probability * (1 - probability) / 2000)


def test_a_low_temperature_sharpens() -> None:
    row = torch.full((VOCAB,), -100.0)
    row[[3, 5]] = torch.tensor([0.6, 0.4]).log()
    assert 300 < drawn(row, 1000)[5] < 500
    assert drawn(row, 1000, temperature=0.2)[5] < 200  # 0.4^5 against 0.6^5: 12 %


@pytest.mark.parametrize("temperature", [1e-5, 1e-300, 5e-324])
def test_no_temperature_is_too_small(temperature: float) -> None:
    row = logits(1)[0] * 100
    assert set(drawn(row, 20, temperature=temperature)) == {int(row.argmax())}


def nucleus(row: torch.Tensor, top_k: int, top_p: float) -> set[int]:
    """By the definition, without shortcuts."""
    values, ids = row.double().softmax(-1).sort(descending=True, stable=True)
    values, ids = values[: top_k or VOCAB], ids[: top_k or VOCAB]
    values = values / values.sum()
    count = int((values.cumsum(0) < top_p).sum()) + 1
    return set(ids[:count].tolist())


@pytest.mark.parametrize(("top_k", "top_p"), [(1, 1.0), (5, 1.0), (0, 0.1), (0, 0.5), (600, 0.02), (20, 0.3)])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_draws_come_from_the_whole_nucleus_and_from_nowhere_else(top_k: int, top_p: float, spread: float) -> None:
    row = logits(1, spread)[0]
    expected = nucleus(row, top_k, top_p)
    found = set(drawn(row, 4000, top_k=top_k, top_p=top_p))
    assert found <= expected
    if len(expected) <= 20 and spread < 1:  # tokens about equally likely, so each was drawn
        assert found == expected


def test_a_nucleus_wider_than_the_first_look() -> None:
    row = logits(1, 0.1)[0]
    expected = nucleus(row, 0, 0.7)
    assert len(expected) > 256
    found = set(drawn(row, 4000, top_p=0.7))
    assert found <= expected
    assert len(found) > 0.95 * len(expected)


def test_top_k_beyond_the_vocabulary_is_off() -> None:
    row = logits(1)[0]
    assert drawn(row, 50, top_k=VOCAB + 1) == drawn(row, 50)


def test_a_seeded_draw_is_the_same_in_any_batch() -> None:
    rows = logits(8)
    mine = {"seed": 7, "output_index": 3, "top_p": 0.9}
    alone = tokens(Sampler(0).sample(rows[4:5], [part(**mine)]))
    others = [part(seed=seed, temperature=0.5) for seed in range(8)]
    others[4] = part(**mine)
    others[0] = part()  # takes from the shared numbers
    assert tokens(Sampler(99).sample(rows, others))[4] == alone[0]


def test_a_seed_draws_anew_at_each_position() -> None:
    row = logits(1, 0.1)
    found = {tokens(Sampler(0).sample(row, [part(seed=7, output_index=index)]))[0] for index in range(20)}
    assert len(found) > 10


@pytest.mark.parametrize("seed", [0, -1, -(1 << 63), (1 << 63) - 1])
def test_every_seed_of_64_bits_works(seed: int) -> None:
    row = logits(1, 0.1)
    first, second = (tokens(Sampler(0).sample(row, [part(seed=seed)])) for _ in range(2))
    assert first == second


def test_without_a_seed_the_engine_s_seed_decides() -> None:
    rows, parts = logits(20, 0.1), [part()] * 20
    assert tokens(Sampler(1).sample(rows, parts)) == tokens(Sampler(1).sample(rows, parts))
    assert tokens(Sampler(1).sample(rows, parts)) != tokens(Sampler(2).sample(rows, parts))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_fails_alone(bad: float) -> None:
    rows = logits(3)
    expected = rows.argmax(-1).tolist()
    rows[1, 17] = bad
    found, failed = Sampler(0).sample(rows, [part(name, temperature=0.0) for name in "abc"])
    assert failed == ["b"]
    assert [(token.request_id, token.token_id) for token in found] == [("a", expected[0]), ("c", expected[2])]


def test_logprobs() -> None:
    row = logits(1)
    found, _ = Sampler(0).sample(row, [part(temperature=0.0, logprobs=3)])
    expected = row[0].log_softmax(-1)
    best = expected.topk(3)
    logprob = found[0].logprob
    assert logprob is not None
    assert logprob.token_id == int(best.indices[0])
    assert logprob.logprob == pytest.approx(float(best.values[0]), abs=1e-6)
    assert [token for token, _ in logprob.top] == best.indices.tolist()
    assert [value for _, value in logprob.top] == pytest.approx(best.values.tolist(), abs=1e-6)


def test_logprobs_only_where_asked() -> None:
    found, _ = Sampler(0).sample(logits(2), [part("a", logprobs=1), part("b")])
    assert found[0].logprob is not None
    assert found[1].logprob is None
