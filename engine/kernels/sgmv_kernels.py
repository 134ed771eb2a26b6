"""The Triton kernels of SGMV: shrink (x A^T) and expand (y += h B) over the page pool.

Notation: an adapter's ``A`` is ``[rank, in]`` and its ``B`` is ``[rank, out]``, both row-major at an absolute element
offset of the flat pool, so every row of either is one aligned stream whatever the rank. ``h`` is the product x A^T in
float32, one partial sum for each part of the K dimension: ``[parts, modules, rows, ranks]``.

Every kernel runs a fixed number of programs which walk a work list whose length they read from the device. The weights
of the next item are asked for before the current one is computed; those of the first, before
``gdc_wait``: weights and tables never change within a step, only activations must be waited for, so under programmatic
dependent launch the stream of weights doesn't pause between kernels.
No atomics: each element of h and y has one writer, and parts are summed in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _weights_of_shrink(
    item, total, pool, offsets, ranks, units, layer,
    LAYERS: tl.constexpr, TABLE_MODULES: tl.constexpr, FIRST_MODULE: tl.constexpr, MODULES: tl.constexpr,
    K: tl.constexpr, PARTS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_RANK: tl.constexpr,
):  # fmt: skip
    """``[BLOCK_RANK, BLOCK_K]`` of A; zeros past the adapter's rank or the end of the work list."""
    live = item < total
    unit = units + (item // (MODULES * PARTS)) * 4
    module = (item // PARTS) % MODULES
    slot = tl.load(unit, mask=live, other=0)
    rank_block = tl.load(unit + 3, mask=live, other=0)
    entry = (slot * LAYERS + layer) * TABLE_MODULES + FIRST_MODULE + module
    rank = tl.load(ranks + entry, mask=live, other=0)
    offset = tl.multiple_of(tl.load(offsets + entry * 2, mask=live, other=0), 8)
    rows = rank_block * BLOCK_RANK + tl.arange(0, BLOCK_RANK)
    k = (item % PARTS) * BLOCK_K + tl.arange(0, BLOCK_K)
    mask = (rows[:, None] < rank) & (k[None, :] < K)
    return tl.load(pool + offset + (rows[:, None] * K + k[None, :]), mask=mask, other=0.0, eviction_policy="evict_first")


@triton.jit(do_not_specialize=["layer", "h_rows"])
def shrink_decode_kernel(
    x, x_stride, pool, offsets, ranks, header, units, h, h_rows, layer,
    LAYERS: tl.constexpr, TABLE_MODULES: tl.constexpr, FIRST_MODULE: tl.constexpr, MODULES: tl.constexpr,
    K: tl.constexpr, PARTS: tl.constexpr, H_RANKS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_RANK: tl.constexpr, BLOCK_K: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """h[part, module, row, rank] = sum over this part of k of x[row, k] A[rank, k]; one item is one whole part."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    total = tl.load(header + 1) * (MODULES * PARTS)
    first = tl.program_id(0)
    step = tl.num_programs(0)
    weights = _weights_of_shrink(
        first, total, pool, offsets, ranks, units, layer,
        LAYERS, TABLE_MODULES, FIRST_MODULE, MODULES, K, PARTS, BLOCK_K, BLOCK_RANK,
    )  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_wait()
    for item in range(first, total, step):
        following = _weights_of_shrink(
            item + step, total, pool, offsets, ranks, units, layer,
            LAYERS, TABLE_MODULES, FIRST_MODULE, MODULES, K, PARTS, BLOCK_K, BLOCK_RANK,
        )  # fmt: skip
        unit = units + (item // (MODULES * PARTS)) * 4
        module = (item // PARTS) % MODULES
        part = item % PARTS
        local = tl.arange(0, BLOCK_ROWS)
        inside = local < tl.load(unit + 2)
        rows = tl.load(unit + 1) + local
        k = part * BLOCK_K + tl.arange(0, BLOCK_K)
        activations = tl.load(
            x + rows[:, None].to(tl.int64) * x_stride + k[None, :], mask=inside[:, None] & (k[None, :] < K), other=0.0
        )
        product = tl.dot(activations, tl.trans(weights))
        rank = tl.load(unit + 3) * BLOCK_RANK + tl.arange(0, BLOCK_RANK)
        out = h + ((part * MODULES + module) * h_rows + rows[:, None]) * H_RANKS + rank[None, :]
        tl.store(out, product, mask=inside[:, None])
        weights = following


@triton.jit(do_not_specialize=["layer", "h_rows"])
def shrink_prefill_kernel(
    x, x_stride, pool, offsets, ranks, header, units, h, h_rows, layer,
    LAYERS: tl.constexpr, TABLE_MODULES: tl.constexpr, FIRST_MODULE: tl.constexpr, MODULES: tl.constexpr,
    K: tl.constexpr, PARTS: tl.constexpr, H_RANKS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_RANK: tl.constexpr, BLOCK_K: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """As shrink_decode_kernel for many rows an adapter: a part is a loop of BLOCK_K steps, pipelined by the compiler."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    total = tl.load(header + 1) * (MODULES * PARTS)
    PART_STEPS: tl.constexpr = (K + PARTS * BLOCK_K - 1) // (PARTS * BLOCK_K)
    for item in range(tl.program_id(0), total, tl.num_programs(0)):
        unit = units + (item // (MODULES * PARTS)) * 4
        module = (item // PARTS) % MODULES
        part = item % PARTS
        entry = (tl.load(unit) * LAYERS + layer) * TABLE_MODULES + FIRST_MODULE + module
        local = tl.arange(0, BLOCK_ROWS)
        inside = local < tl.load(unit + 2)
        rows = tl.load(unit + 1) + local
        rank = tl.load(unit + 3) * BLOCK_RANK + tl.arange(0, BLOCK_RANK)
        has_rank = rank < tl.load(ranks + entry)
        offset = tl.multiple_of(tl.load(offsets + entry * 2), 8)
        x_tile = x + rows[:, None].to(tl.int64) * x_stride
        a_tile = pool + offset + rank[None, :] * K
        product = tl.zeros((BLOCK_ROWS, BLOCK_RANK), dtype=tl.float32)
        for k0 in range(part * PART_STEPS * BLOCK_K, (part + 1) * PART_STEPS * BLOCK_K, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            activations = tl.load(x_tile + k[None, :], mask=inside[:, None] & (k[None, :] < K), other=0.0)
            weights = tl.load(a_tile + k[:, None], mask=has_rank[None, :] & (k[:, None] < K), other=0.0)
            product = tl.dot(activations, weights, product)
        out = h + ((part * MODULES + module) * h_rows + rows[:, None]) * H_RANKS + rank[None, :]
        tl.store(out, product, mask=inside[:, None])


@triton.jit
def _expand_address(
    item, total, offsets, ranks, tiles, layer,
    LAYERS: tl.constexpr, TABLE_MODULES: tl.constexpr, FIRST_MODULE: tl.constexpr,
    OUT_0: tl.constexpr, OUT_1: tl.constexpr, OUT_2: tl.constexpr, BLOCK_OUT: tl.constexpr,
):  # fmt: skip
    """Of one item: offset and rank of its B, its columns' start, their number, and the module's place in the group."""
    START_1: tl.constexpr = (OUT_0 + BLOCK_OUT - 1) // BLOCK_OUT
    START_2: tl.constexpr = START_1 + (OUT_1 + BLOCK_OUT - 1) // BLOCK_OUT
    ITEMS: tl.constexpr = START_2 + (OUT_2 + BLOCK_OUT - 1) // BLOCK_OUT
    live = item < total
    column_block = item % ITEMS
    module = (column_block >= START_1).to(tl.int32) + (column_block >= START_2).to(tl.int32)
    width = tl.where(module == 0, OUT_0, tl.where(module == 1, OUT_1, OUT_2))
    block = column_block - tl.where(module == 0, 0, tl.where(module == 1, START_1, START_2))
    slot = tl.load(tiles + (item // ITEMS) * 4, mask=live, other=0)
    entry = (slot * LAYERS + layer) * TABLE_MODULES + FIRST_MODULE + module
    rank = tl.load(ranks + entry, mask=live, other=0)
    offset = tl.multiple_of(tl.load(offsets + entry * 2 + 1, mask=live, other=0), 8)
    return offset, rank, block * BLOCK_OUT, tl.multiple_of(width, 8), module


@triton.jit
def _weights_of_expand(
    pool, offset, rank, first_rank, column, width, BLOCK_RANK: tl.constexpr, BLOCK_OUT: tl.constexpr
):
    """``[BLOCK_RANK, BLOCK_OUT]`` of B from ``first_rank`` and ``column`` on; zeros outside the matrix."""
    rows = first_rank + tl.arange(0, BLOCK_RANK)
    columns = column + tl.arange(0, BLOCK_OUT)
    # The masks end at a multiple of 8 columns, which keeps the loads 16 bytes wide.
    mask = (rows[:, None] < rank) & (columns[None, :] < width)
    return tl.load(
        pool + offset + (rows[:, None] * width + columns[None, :]), mask=mask, other=0.0, eviction_policy="evict_first"
    )


@triton.jit
def _sum_of_parts(
    h, h_rows, rows, inside, first_rank, module,
    MODULES: tl.constexpr, PARTS: tl.constexpr, H_RANKS: tl.constexpr, BLOCK_RANK: tl.constexpr,
):  # fmt: skip
    rank = first_rank + tl.arange(0, BLOCK_RANK)
    total = tl.zeros((rows.shape[0], BLOCK_RANK), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        source = h + ((part * MODULES + module) * h_rows + rows[:, None]) * H_RANKS + rank[None, :]
        total += tl.load(source, mask=inside[:, None], other=0.0)
    return total


@triton.jit(do_not_specialize=["layer", "h_rows"])
def expand_kernel(
    y, y_stride, pool, offsets, ranks, header, tiles, h, h_rows, layer,
    LAYERS: tl.constexpr, TABLE_MODULES: tl.constexpr, FIRST_MODULE: tl.constexpr, MODULES: tl.constexpr,
    OUT_0: tl.constexpr, OUT_1: tl.constexpr, OUT_2: tl.constexpr, PARTS: tl.constexpr, H_RANKS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_RANK: tl.constexpr, BLOCK_OUT: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """y[row, module's columns] += (sum of h's parts) B; modules lie side by side in y, an absent one has width 0."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    START_1: tl.constexpr = (OUT_0 + BLOCK_OUT - 1) // BLOCK_OUT
    START_2: tl.constexpr = START_1 + (OUT_1 + BLOCK_OUT - 1) // BLOCK_OUT
    ITEMS: tl.constexpr = START_2 + (OUT_2 + BLOCK_OUT - 1) // BLOCK_OUT
    total = tl.load(header) * ITEMS
    first = tl.program_id(0)
    step = tl.num_programs(0)
    offset, rank, column, width, module = _expand_address(
        first, total, offsets, ranks, tiles, layer,
        LAYERS, TABLE_MODULES, FIRST_MODULE, OUT_0, OUT_1, OUT_2, BLOCK_OUT,
    )  # fmt: skip
    weights = _weights_of_expand(pool, offset, rank, 0, column, width, BLOCK_RANK, BLOCK_OUT)
    if PDL:
        tl.extra.cuda.gdc_wait()
    for item in range(first, total, step):
        offset_2, rank_2, column_2, width_2, module_2 = _expand_address(
            item + step, total, offsets, ranks, tiles, layer,
            LAYERS, TABLE_MODULES, FIRST_MODULE, OUT_0, OUT_1, OUT_2, BLOCK_OUT,
        )  # fmt: skip
        following = _weights_of_expand(pool, offset_2, rank_2, 0, column_2, width_2, BLOCK_RANK, BLOCK_OUT)
        tile = tiles + (item // ITEMS) * 4
        local = tl.arange(0, BLOCK_ROWS)
        inside = (local < tl.load(tile + 2)) & (rank > 0)
        rows = tl.load(tile + 1) + local
        columns = column + tl.arange(0, BLOCK_OUT)
        y_start = tl.where(module == 0, 0, tl.where(module == 1, OUT_0, OUT_0 + OUT_1))
        target = y + rows[:, None].to(tl.int64) * y_stride + y_start + columns[None, :]
        y_mask = inside[:, None] & (columns[None, :] < width)
        before = tl.load(target, mask=y_mask, other=0.0)
        shrunk = _sum_of_parts(h, h_rows, rows, inside, 0, module, MODULES, PARTS, H_RANKS, BLOCK_RANK)
        product = tl.dot(shrunk.to(weights.dtype), weights)
        for first_rank in range(BLOCK_RANK, rank, BLOCK_RANK):
            weights = _weights_of_expand(pool, offset, rank, first_rank, column, width, BLOCK_RANK, BLOCK_OUT)
            shrunk = _sum_of_parts(h, h_rows, rows, inside, first_rank, module, MODULES, PARTS, H_RANKS, BLOCK_RANK)
            product = tl.dot(shrunk.to(weights.dtype), weights, product)
        tl.store(target, (before.to(tl.float32) + product).to(before.dtype), mask=y_mask)
        weights = following
        offset, rank, column, width, module = offset_2, rank_2, column_2, width_2, module_2
