"""Paged attention (Kwon et al., 2023, arXiv:2309.06180) on the CPU, straight from the pool.

Decoding sequences of similar length are one batch, and so are neighbouring chunks of prompts that are equally far.
Padding of a batch is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from engine.kernels.pool_view import PoolView

# Sequences share a padded batch while the shortest has at least this share of the longest's blocks.
_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class KVSpan:
    """Tokens ``start`` to ``start + count`` of one sequence are rows ``row`` ... of the step's batch."""

    row: int
    start: int
    count: int
    block_table: Sequence[int]


@dataclass(slots=True)
class _Group:
    """``rows``: of the batch, a slice where they follow one another. ``index``: of each layer's runs, see
    PoolView.run_index, ``[layers, runs]``.

    ``mask``: added to the scores, ``[sequences x kv heads, 1, length]`` or ``[count, length]``. ``runs``: where keys
    and values are gathered; one buffer for all layers stays in the cache.
    """

    rows: torch.Tensor | slice
    index: torch.Tensor
    length: int
    mask: torch.Tensor | None
    runs: torch.Tensor
    decode: bool


class AttentionPlan:
    """Everything about one step that is the same in all layers. ``spans`` must cover the batch's rows in order."""

    def __init__(self, pool: PoolView, spans: Sequence[KVSpan], dtype: torch.dtype) -> None:
        self._pool = pool
        self._dtype = dtype
        positions = [torch.arange(span.start, span.start + span.count) for span in spans]
        blocks = torch.cat(
            [torch.tensor(span.block_table)[p // pool.block_tokens] for span, p in zip(spans, positions, strict=True)]
        )
        self.positions = torch.cat(positions)
        offsets = self.positions % pool.block_tokens
        self._layers = torch.arange(pool.layers)[:, None]
        self._write = pool.row_index(blocks, offsets).flatten() + self._layers * pool.layer_step(pool.rows)
        # A block that starts now may hold anything; what is masked must still be a number, or 0 x NaN would show.
        for block in blocks[offsets == 0].tolist():
            pool.block(block).zero_()
        self._groups = [self._chunks(alike) for alike in _equally_far([s for s in spans if s.count > 1])]
        self._groups += [
            self._decodes(group) for group in _alike([s for s in spans if s.count == 1], pool.block_tokens)
        ]

    def _blocks(self, span: KVSpan) -> int:
        return -(-(span.start + span.count) // self._pool.block_tokens)

    def _group(
        self, rows: torch.Tensor | slice, blocks: torch.Tensor, length: int, mask: torch.Tensor | None, decode: bool
    ) -> _Group:
        pool = self._pool
        index = pool.run_index(blocks).flatten() + self._layers * pool.layer_step(pool.runs)
        runs = pool.runs.new_empty(index.shape[1], pool.runs.shape[1])
        return _Group(rows, index, length, mask, runs, decode)

    def _chunks(self, spans: list[KVSpan]) -> _Group:
        """Of sequences that follow one another and are equally far."""
        first, last = spans[0], spans[-1]
        end = first.start + first.count
        mask = torch.full((first.count, end), float("-inf"), dtype=self._dtype).triu(first.start + 1)
        blocks = torch.tensor([list(span.block_table[: self._blocks(span)]) for span in spans])
        return self._group(slice(first.row, last.row + last.count), blocks, end, mask, decode=False)

    def _decodes(self, spans: list[KVSpan]) -> _Group:
        spans = sorted(spans, key=lambda span: span.row)
        used = max(map(self._blocks, spans))
        tables = [[*span.block_table[: self._blocks(span)]] for span in spans]
        # Padding repeats a block of the sequence's own: finite numbers, which the mask then hides.
        blocks = torch.tensor([table + [table[0]] * (used - len(table)) for table in tables])
        ends = torch.tensor([span.start + 1 for span in spans])
        length = int(ends.max())
        mask = None
        if int(ends.min()) < length:
            hidden = (torch.arange(length)[None, :] >= ends[:, None]).repeat_interleave(self._pool.kv_heads, 0)
            mask = torch.zeros(hidden.shape, dtype=self._dtype).masked_fill_(hidden, float("-inf")).unsqueeze(1)
        first, last = spans[0].row, spans[-1].row
        together = last - first + 1 == len(spans)
        rows = slice(first, last + 1) if together else torch.tensor([span.row for span in spans])
        return self._group(rows, blocks, length, mask, decode=True)

    def write(self, layer: int, kv: torch.Tensor) -> None:
        """``kv``: ``[tokens, K heads then V heads, head_dim]`` of this step's tokens."""
        self._pool.rows[self._write[layer]] = kv.reshape(-1, self._pool.head_dim)

    def attend(self, layer: int, q: torch.Tensor, out: torch.Tensor) -> None:
        """``q``, ``out``: ``[tokens, heads, head_dim]``. Reads what ``write`` stored in this step too."""
        for group in self._groups:
            torch.index_select(self._pool.runs, 0, group.index[layer], out=group.runs)
            if group.decode:
                self._decode(group, q, out)
            else:
                self._prefill(group, q, out)

    def _decode(self, group: _Group, q: torch.Tensor, out: torch.Tensor) -> None:
        pool = self._pool
        mine = q[group.rows]
        batch = mine.shape[0] * pool.kv_heads
        k, v = group.runs.view(2, batch, -1, pool.head_dim)[:, :, : group.length]
        mine = mine.reshape(batch, -1, pool.head_dim)
        scale = pool.head_dim**-0.5
        if group.mask is None:
            scores = torch.bmm(mine, k.transpose(1, 2)).mul_(scale)
        else:
            scores = torch.baddbmm(group.mask, mine, k.transpose(1, 2), alpha=scale)
        found = torch.bmm(scores.softmax(-1), v)
        out[group.rows] = found.view(-1, *out.shape[1:])

    def _prefill(self, group: _Group, q: torch.Tensor, out: torch.Tensor) -> None:
        pool = self._pool
        assert group.mask is not None
        count = group.mask.shape[0]
        mine = q[group.rows].view(-1, count, *q.shape[1:]).transpose(1, 2)
        sequences = mine.shape[0]
        k, v = group.runs.view(2, sequences, pool.kv_heads, -1, pool.head_dim)[..., : group.length, :]
        found = F.scaled_dot_product_attention(mine, k, v, attn_mask=group.mask, enable_gqa=True)
        out[group.rows] = found.transpose(1, 2).reshape(-1, *out.shape[1:])


def _equally_far(chunks: list[KVSpan]) -> list[list[KVSpan]]:
    """Runs of chunks whose rows follow one another and that have the same start and count."""
    groups: list[list[KVSpan]] = []
    for span in chunks:
        last = groups[-1][-1] if groups else None
        if last and (last.start, last.count, last.row + last.count) == (span.start, span.count, span.row):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _alike(spans: list[KVSpan], block_tokens: int) -> list[list[KVSpan]]:
    """Groups whose padded batch wastes less than half."""
    groups: list[list[KVSpan]] = []
    for span in sorted(spans, key=lambda span: -span.start):
        if groups and span.start + block_tokens >= _ALIKE * groups[-1][0].start:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups
