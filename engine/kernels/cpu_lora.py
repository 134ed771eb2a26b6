"""LoRA over the pool on the CPU: for each adapter of a batch one shrink a group of modules and one expand a module.

The grouping is that of SGMV (Chen et al., Punica, 2023, arXiv:2310.18547): rows of one adapter lie side by side, so
its weights are read once a step. No weight is copied: the matrices are views of the adapter's pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from engine.executor import Location
from engine.kernels.pool_view import PoolView
from engine.packing import AdapterLayout, MatrixPlacement
from engine.shape import ModelShape

Group = Literal["qkv", "o", "gate_up", "down"]
GROUPS: Mapping[Group, tuple[str, ...]] = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "o": ("o_proj",),
    "gate_up": ("gate_proj", "up_proj"),
    "down": ("down_proj",),
}


@dataclass(frozen=True, slots=True)
class _Expand:
    """Columns ``rank_lo:rank_hi`` of the shrunk rows times ``b_t`` ``[rank, out]`` go to ``out_lo:out_hi``."""

    rank_lo: int
    rank_hi: int
    b_t: torch.Tensor
    out_lo: int
    out_hi: int


@dataclass(frozen=True, slots=True)
class _Shrink:
    """``a_t``: ``[in, rank sum]`` of modules whose A lie side by side."""

    a_t: torch.Tensor
    expands: tuple[_Expand, ...]


class LoraViews:
    """The matrices of one adapter as views of the pool. The scale is folded into B."""

    def __init__(self, pool: PoolView, layout: AdapterLayout, locations: Sequence[Location], shape: ModelShape) -> None:
        placed = {(p.layer, p.module, p.side): p for p in layout.placements}

        def view(first: MatrixPlacement, rows: int) -> torch.Tensor:
            at = locations[first.extent]
            return pool.matrix(at.page, at.offset + first.offset, rows, first.cols)

        self._by_layer: list[dict[Group, tuple[_Shrink, ...]]] = []
        for layer in range(shape.num_layers):
            groups: dict[Group, tuple[_Shrink, ...]] = {}
            for group, modules in GROUPS.items():
                starts = _output_starts(modules, shape)
                present = [(module, placed[layer, module, "A"]) for module in modules if (layer, module, "A") in placed]
                shrinks = []
                for run in _adjacent(present, pool.elements.element_size()):
                    a = view(run[0][1], sum(p.rows for _, p in run))
                    expands, rank = [], 0
                    for module, p in run:
                        b = placed[layer, module, "B"]
                        lo = starts[module]
                        expands.append(_Expand(rank, rank + p.rows, view(b, b.rows).t(), lo, lo + b.rows))
                        rank += p.rows
                    shrinks.append(_Shrink(a.t(), tuple(expands)))
                if shrinks:
                    groups[group] = tuple(shrinks)
            self._by_layer.append(groups)

    def has(self, layer: int, group: Group) -> bool:
        return group in self._by_layer[layer]

    def add(self, layer: int, group: Group, x: torch.Tensor, out: torch.Tensor) -> None:
        """``out += B A x`` for each module of a group that it has.

        ``x``: ``[rows, in]``; ``out``: ``[rows, the group's out]``.
        """
        for shrink in self._by_layer[layer][group]:
            shrunk = x @ shrink.a_t
            for e in shrink.expands:
                out[:, e.out_lo : e.out_hi].addmm_(shrunk[:, e.rank_lo : e.rank_hi], e.b_t)


@dataclass(frozen=True, slots=True)
class LoraSegment:
    """Rows ``lo:hi`` of the batch belong to one adapter."""

    lo: int
    hi: int
    views: LoraViews


class LoraPlan:
    """The adapters of one step."""

    def __init__(self, segments: Sequence[LoraSegment]) -> None:
        self._segments = segments

    def add(self, layer: int, group: Group, x: torch.Tensor, out: torch.Tensor) -> None:
        for segment in self._segments:
            if segment.views.has(layer, group):
                segment.views.add(layer, group, x[segment.lo : segment.hi], out[segment.lo : segment.hi])


def _output_starts(modules: Sequence[str], shape: ModelShape) -> dict[str, int]:
    starts, end = {}, 0
    for module in modules:
        starts[module] = end
        end += shape.module_dims(module)[1]
    return starts


def _adjacent(
    present: list[tuple[str, MatrixPlacement]], element_bytes: int
) -> list[list[tuple[str, MatrixPlacement]]]:
    """Runs of matrices that follow one another without a gap in one extent."""
    runs: list[list[tuple[str, MatrixPlacement]]] = []
    for module, p in present:
        if runs:
            last = runs[-1][-1][1]
            if p.extent == last.extent and p.offset == last.offset + last.rows * last.cols * element_bytes:
                runs[-1].append((module, p))
                continue
        runs.append([(module, p)])
    return runs
