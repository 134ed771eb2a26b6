"""Rows of a step grouped by adapter, as the SGMV kernels read them.

A *tile* is at most ``block_rows`` neighbouring rows of one adapter; a *unit* is one tile and one block of
``block_rank`` of its ranks. Rows of the base model (slot -1) belong to no tile and cost nothing.
The device sees one int32 array of a fixed size: ``[tiles, units, 0, 0]``, then the tiles, then the units, four
numbers each ``(slot, first row, rows, rank block)``. A CUDA graph that was captured over it serves any mix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
RECORD = 4  # int32 numbers of the header, of a tile and of a unit: one 16-byte load each
BASE_ROW = -1


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """``tiles`` and ``units``: int32 ``[n, 4]`` of (slot, first row, rows, rank block); a tile's rank block is 0."""

    tiles: IntArray
    units: IntArray
    block_rows: int
    block_rank: int


@dataclass(frozen=True, slots=True)
class SegmentCapacity:
    """How many tiles and units a device array has room for."""

    tiles: int
    units: int

    @classmethod
    def for_rows(cls, rows: int, max_rank: int, block_rank: int) -> SegmentCapacity:
        """Room for any mix of adapters over ``rows`` rows."""
        return cls(tiles=rows, units=rows * -(-max_rank // block_rank))

    @property
    def elements(self) -> int:
        return RECORD * (1 + self.tiles + self.units)

    @property
    def units_start(self) -> int:
        """Element at which the units begin."""
        return RECORD * (1 + self.tiles)


def adapter_order(row_slots: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """The permutation that brings rows of one adapter together, base rows first, else in the given order."""
    return np.argsort(np.asarray(row_slots), kind="stable")


def plan_segments(row_slots: npt.ArrayLike, slot_ranks: npt.ArrayLike, block_rows: int, block_rank: int) -> SegmentPlan:
    """Tiles and units of one step.

    ``row_slots`` ``[rows]``: adapter slot of each row in the order of the activations, -1 for the base model;
    rows of one adapter should be neighbours (``adapter_order``), else its weights are read once for each run.
    ``slot_ranks`` ``[slots]``: the largest rank of each slot. Large ranks come first, so that the last tiles to
    run are short ones.
    """
    slots = np.asarray(row_slots, dtype=np.int32)
    ranks = np.asarray(slot_ranks, dtype=np.int32)
    if slots.size == 0:
        empty = np.zeros((0, RECORD), dtype=np.int32)
        return SegmentPlan(empty, empty, block_rows, block_rank)
    first = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
    length = np.diff(np.concatenate((first, [slots.size])))
    adapters = (slots[first] >= 0) & (ranks[slots[first]] > 0)
    first, length = first[adapters], length[adapters]

    tiles_of_run = -(-length // block_rows)
    run = np.repeat(np.arange(len(first)), tiles_of_run)
    within = _counting_up(tiles_of_run)
    tiles = np.zeros((len(run), RECORD), dtype=np.int32)
    tiles[:, 1] = first[run] + within * block_rows
    tiles[:, 2] = np.minimum(length[run] - within * block_rows, block_rows)
    tiles[:, 0] = slots[tiles[:, 1]]
    tiles = tiles[np.argsort(-ranks[tiles[:, 0]], kind="stable")]

    blocks_of_tile = -(-ranks[tiles[:, 0]] // block_rank)
    units = np.repeat(tiles, blocks_of_tile, axis=0)
    units[:, 3] = _counting_up(blocks_of_tile)
    return SegmentPlan(tiles, units, block_rows, block_rank)


def write_segments(plan: SegmentPlan, capacity: SegmentCapacity, out: IntArray) -> None:
    """Put a plan into the fixed-size array that the kernels read (``out``: int32 ``[capacity.elements]``)."""
    assert len(plan.tiles) <= capacity.tiles, f"{len(plan.tiles)} tiles, room for {capacity.tiles}"
    assert len(plan.units) <= capacity.units, f"{len(plan.units)} units, room for {capacity.units}"
    out[:RECORD] = (len(plan.tiles), len(plan.units), 0, 0)
    out[RECORD : RECORD + plan.tiles.size] = plan.tiles.reshape(-1)
    out[capacity.units_start : capacity.units_start + plan.units.size] = plan.units.reshape(-1)


def _counting_up(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """0..c-1 for each c, one after another: [2, 3] gives [0, 1, 0, 1, 2]."""
    total = int(counts.sum())
    return np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
