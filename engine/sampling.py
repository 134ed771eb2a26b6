"""Picks tokens from logits, each row by its own request's parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.executor import SampledToken, SequenceSlice
from engine.messages import SamplingParams, TokenLogprob

# The nucleus is looked for among this many best tokens first, then among more; sorting a whole vocabulary is slow.
_LOOKS = (256, 4096)


class Sampler:
    """``seed``: of the numbers for requests without a seed of their own."""

    def __init__(self, seed: int) -> None:
        self._shared = torch.Generator().manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
        self._own = torch.Generator()

    def sample(self, logits: torch.Tensor, slices: Sequence[SequenceSlice]) -> tuple[list[SampledToken], list[str]]:
        """``logits``: ``[rows, vocab]`` float32, a row for each of ``slices``. Returns tokens, and the ids of requests
        whose logits are not finite numbers."""
        best = logits.max(dim=-1)
        finite = torch.isfinite(best.values) & torch.isfinite(logits.sum(dim=-1))
        greedy, fine = best.indices.tolist(), finite.tolist()
        tokens, failed = [], []
        for row, part in enumerate(slices):
            if not fine[row]:
                failed.append(part.request_id)
                continue
            token = greedy[row] if part.sampling.temperature == 0 else self._draw(logits[row], part)
            logprob = _logprob(logits[row], token, part.sampling.logprobs) if part.sampling.logprobs else None
            tokens.append(SampledToken(part.request_id, token, logprob))
        return tokens, failed

    def _draw(self, logits: torch.Tensor, part: SequenceSlice) -> int:
        probabilities, ids = _candidates(logits, part.sampling)
        cumulative = probabilities.cumsum(0)
        u = torch.rand(1, generator=self._generator(part), dtype=torch.float64).item() * float(cumulative[-1])
        index = min(int(torch.searchsorted(cumulative, u, right=True)), len(cumulative) - 1)
        return int(ids[index]) if ids is not None else index

    def _generator(self, part: SequenceSlice) -> torch.Generator:
        if part.sampling.seed is None:
            return self._shared
        # One number a token, whatever batch it is computed in and however often it is preempted.
        mixed = (part.sampling.seed * 0x9E3779B97F4A7C15 + part.output_index) & 0x7FFF_FFFF_FFFF_FFFF
        return self._own.manual_seed(mixed)


def _candidates(logits: torch.Tensor, sampling: SamplingParams) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Unnormalised probabilities in float64 and their token ids; ids None means all, in order."""
    # The best logit becomes 0, so that no temperature, however small, makes it infinite.
    probabilities = torch.softmax((logits - logits.max()).double() / sampling.temperature, -1)
    total = 1.0
    if 0 < sampling.top_k < len(logits):
        values, ids = probabilities.topk(sampling.top_k)
        if sampling.top_p >= 1:
            return values, ids
        total = float(values.sum())
    elif sampling.top_p >= 1:
        return probabilities, None
    else:
        for look in (*(look for look in _LOOKS if look < len(logits)), len(logits)):
            values, ids = probabilities.topk(look)
            if float(values.sum()) >= sampling.top_p:
                break
    # Of what top-k left: the smallest set whose probability reaches top_p (Holtzman et al., 2019).
    keep = values.cumsum(0) - values < sampling.top_p * total
    keep[0] = True
    return values[keep], ids[keep]


def _logprob(logits: torch.Tensor, token: int, count: int) -> TokenLogprob:
    logprobs = torch.log_softmax(logits, -1)
    top = logprobs.topk(min(count, len(logprobs)))
    alternatives = tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True))
    return TokenLogprob(token, float(logprobs[token]), alternatives)
