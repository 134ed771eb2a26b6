"""Segmented gather matrix-vector products (SGMV) of LoRA over the page pool, on CUDA through Triton.

After Punica's SGMV (Chen et al., MLSys 2024, arXiv:2310.18547) and S-LoRA's kernels over a unified pool (Sheng et al.,
arXiv:2311.03285). For each row: ``y += (x A^T) B`` with the A and B of the row's adapter; the scale is folded into B.

Design. Rows of one adapter are neighbours (``segments.adapter_order``), so each adapter's weights are read once a step.
Mixed ranks run in one launch at their true rank; rows of the base model are in no segment. q/k/v share one shrink and
one expand, likewise gate/up. A is ``[rank, in]`` and B is ``[rank, out]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.kernels.segments import IntArray, SegmentCapacity, SegmentPlan, write_segments
from engine.kernels.sgmv_kernels import expand_kernel, shrink_decode_kernel, shrink_prefill_kernel
from engine.shape import LORA_MODULES, MODULE_INDEX, ModelShape


@dataclass(frozen=True, slots=True)
class LoraGroup:
    """Modules that read one input and write one output side by side: neighbours in LORA_MODULES, three at most."""

    modules: tuple[str, ...]
    in_features: int
    out_features: tuple[int, ...]

    @property
    def first_module(self) -> int:
        return MODULE_INDEX[self.modules[0]]

    @property
    def width(self) -> int:
        return sum(self.out_features)


def lora_groups(shape: ModelShape) -> tuple[LoraGroup, LoraGroup, LoraGroup, LoraGroup]:
    """q/k/v, o, gate/up and down of one layer."""

    def group(*modules: str) -> LoraGroup:
        dims = [shape.module_dims(module) for module in modules]
        return LoraGroup(modules, dims[0][0], tuple(out for _, out in dims))

    return (
        group("q_proj", "k_proj", "v_proj"),
        group("o_proj"),
        group("gate_proj", "up_proj"),
        group("down_proj"),
    )


@dataclass(frozen=True, slots=True)
class ShrinkTile:
    """``parts``: how often the K dimension is cut; 0 means one part for each block_k."""

    block_rows: int
    block_rank: int
    block_k: int
    parts: int
    warps: int
    stages: int
    programs_per_sm: int

    def parts_of(self, in_features: int) -> int:
        return self.parts or -(-in_features // self.block_k)


@dataclass(frozen=True, slots=True)
class ExpandTile:
    block_rows: int
    block_rank: int
    block_out: int
    warps: int
    programs_per_sm: int


@dataclass(frozen=True, slots=True)
class SgmvTiles:
    """``prefill``: whether the shrink loops over K with many rows a tile."""

    prefill: bool
    shrink: ShrinkTile
    expand: ExpandTile


DECODE_TILES = SgmvTiles(
    prefill=False,
    shrink=ShrinkTile(block_rows=16, block_rank=16, block_k=512, parts=0, warps=4, stages=1, programs_per_sm=4),
    expand=ExpandTile(block_rows=16, block_rank=16, block_out=512, warps=4, programs_per_sm=4),
)
PREFILL_TILES = SgmvTiles(
    prefill=True,
    shrink=ShrinkTile(block_rows=64, block_rank=16, block_k=128, parts=4, warps=4, stages=4, programs_per_sm=3),
    expand=ExpandTile(block_rows=64, block_rank=16, block_out=128, warps=4, programs_per_sm=4),
)


@dataclass(frozen=True, slots=True)
class AdapterTables:
    """Where the adapters lie. ``pool``: flat, of the adapters' dtype. ``offsets``: int64
    ``[slots, layers, modules, 2]``, absolute element offset of A and of B, multiples of 8. ``ranks``: int32
    ``[slots, layers, modules]``, 0 where the adapter lacks the module.
    """

    pool: torch.Tensor
    offsets: torch.Tensor
    ranks: torch.Tensor

    def __post_init__(self) -> None:
        slots, layers = self.ranks.shape[:2]
        assert self.offsets.dtype == torch.int64
        assert self.ranks.dtype == torch.int32
        assert self.ranks.shape == (slots, layers, len(LORA_MODULES))
        assert self.offsets.shape == (slots, layers, len(LORA_MODULES), 2)


class SegmentBuffer:
    """The segments of one step on the device, at addresses that a CUDA graph may keep.

    ``update`` copies through pinned staging buffers in turn, so that ``in_flight`` steps may be queued at once.
    """

    def __init__(self, capacity: SegmentCapacity, device: torch.device, in_flight: int = 4) -> None:
        self.capacity = capacity
        self._array = torch.zeros(capacity.elements, dtype=torch.int32, device=device)
        pinned = device.type == "cuda"
        self._staging = [
            torch.zeros(capacity.elements, dtype=torch.int32, pin_memory=pinned) for _ in range(in_flight)
        ]
        self._turn = 0
        self.header = self._array[:4]
        self.tiles = self._array[4 : capacity.units_start]
        self.units = self._array[capacity.units_start :]

    def update(self, plan: SegmentPlan) -> None:
        """Queue the copy of a plan on the current stream."""
        staging = self._staging[self._turn]
        self._turn = (self._turn + 1) % len(self._staging)
        out: IntArray = staging.numpy()
        write_segments(plan, self.capacity, out)
        self._array.copy_(staging, non_blocking=True)


class Sgmv:
    """Launches the kernels for one set of tile shapes and owns the intermediate h.

    ``max_rows`` and ``max_rank`` bound every call. The segments must have been planned with the ``block_rows`` and
    ``block_rank`` of ``tiles``. ``pdl``: programmatic dependent launch (compute capability 9.0 and later).
    """

    def __init__(
        self,
        tables: AdapterTables,
        groups: Sequence[LoraGroup],
        max_rows: int,
        max_rank: int,
        tiles: SgmvTiles,
        pdl: bool | None = None,
        processors: int = 0,
    ) -> None:
        device = tables.pool.device
        self.tables = tables
        self.tiles = tiles
        self.pdl = _supports_pdl(device) if pdl is None else pdl
        self.max_rows = max_rows
        self._processors = processors or _processors(device)
        self._h_ranks = -(-max_rank // tiles.shrink.block_rank) * tiles.shrink.block_rank
        partial_sums = max(len(group.modules) * tiles.shrink.parts_of(group.in_features) for group in groups)
        self._h = torch.empty((partial_sums * max_rows * self._h_ranks,), dtype=torch.float32, device=device)
        self._shrink = shrink_prefill_kernel if tiles.prefill else shrink_decode_kernel

    def shrink(self, x: torch.Tensor, segments: SegmentBuffer, group: LoraGroup, layer: int) -> None:
        """h = x A^T for every module of the group. ``x``: ``[rows, in]``, rows contiguous."""
        tile = self.tiles.shrink
        assert x.shape[0] <= self.max_rows
        assert x.shape[1] == group.in_features
        assert x.stride(1) == 1
        tables = self.tables
        self._shrink[(self._processors * tile.programs_per_sm,)](
            x, x.stride(0), tables.pool, tables.offsets, tables.ranks, segments.header, segments.units,
            self._h, self.max_rows, layer,
            LAYERS=tables.ranks.shape[1], TABLE_MODULES=len(LORA_MODULES), FIRST_MODULE=group.first_module,
            MODULES=len(group.modules), K=group.in_features, PARTS=tile.parts_of(group.in_features),
            H_RANKS=self._h_ranks, BLOCK_ROWS=tile.block_rows, BLOCK_RANK=tile.block_rank, BLOCK_K=tile.block_k,
            PDL=self.pdl, num_warps=tile.warps, num_stages=tile.stages, **self._launch_options(),
        )  # fmt: skip

    def expand(self, y: torch.Tensor, segments: SegmentBuffer, group: LoraGroup, layer: int) -> None:
        """y += h B for every module of the group. ``y``: ``[rows, sum of out]``, rows contiguous."""
        tile = self.tiles.expand
        assert y.shape[0] <= self.max_rows
        assert y.shape[1] == group.width
        assert y.stride(1) == 1
        tables = self.tables
        out_0, out_1, out_2 = (*group.out_features, 0, 0)[:3]
        expand_kernel[(self._processors * tile.programs_per_sm,)](
            y, y.stride(0), tables.pool, tables.offsets, tables.ranks, segments.header, segments.tiles,
            self._h, self.max_rows, layer,
            LAYERS=tables.ranks.shape[1], TABLE_MODULES=len(LORA_MODULES), FIRST_MODULE=group.first_module,
            MODULES=len(group.modules), OUT_0=out_0, OUT_1=out_1, OUT_2=out_2,
            PARTS=self.tiles.shrink.parts_of(group.in_features), H_RANKS=self._h_ranks,
            BLOCK_ROWS=tile.block_rows, BLOCK_RANK=tile.block_rank, BLOCK_OUT=tile.block_out,
            PDL=self.pdl, num_warps=tile.warps, num_stages=1, **self._launch_options(),
        )  # fmt: skip

    def _launch_options(self) -> dict[str, bool]:
        return {"launch_pdl": True} if self.pdl else {}


def _supports_pdl(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
