"""The pool as a tensor: how a KV block is laid out inside a page, and index arithmetic for it.

A block holds ``[layer][K, V][kv head][token][head_dim]``: the keys of one head of one layer are one run of
``block_tokens * head_dim`` elements. So one gather gives keys and values of a batch in the order in which a batched
matrix product wants them. Blocks need not start at a multiple of that run: the views overlap, with the greatest common
divisor as their stride, so that every run is an integer index.
"""

from __future__ import annotations

import math

import torch

from engine.shape import ModelShape


class PoolView:
    """``data``: the whole pool, uint8. All other sizes are in elements of ``dtype``."""

    def __init__(
        self, data: torch.Tensor, page_bytes: int, block_tokens: int, shape: ModelShape, dtype: torch.dtype
    ) -> None:
        self.data = data
        self.elements = data.view(dtype)
        self.page_bytes = page_bytes
        self.block_tokens = block_tokens
        self.layers = shape.num_layers
        self.kv_heads = shape.num_kv_heads
        self.head_dim = shape.head_dim
        self._element_bytes = dtype.itemsize
        block_bytes = shape.block_bytes(block_tokens)
        self.blocks_per_page = page_bytes // block_bytes
        self._page = page_bytes // dtype.itemsize
        self._block = block_bytes // dtype.itemsize
        self._run = block_tokens * shape.head_dim
        self.runs = self._view(self._run)
        self.rows = self._view(shape.head_dim)

    def _view(self, length: int) -> torch.Tensor:
        """``[count, length]``: every run of ``length`` elements at a multiple of the common stride."""
        stride = math.gcd(self._page, self._block, length)
        count = (self.elements.numel() - length) // stride + 1
        return self.elements.as_strided((count, length), (stride, 1))

    def extent(self, page: int, offset: int, size: int) -> torch.Tensor:
        """``size`` bytes, uint8."""
        start = page * self.page_bytes + offset
        return self.data[start : start + size]

    def matrix(self, page: int, offset: int, rows: int, cols: int) -> torch.Tensor:
        """``[rows, cols]`` at ``offset`` bytes into ``page``."""
        start = (page * self.page_bytes + offset) // self._element_bytes
        return self.elements[start : start + rows * cols].view(rows, cols)

    def block(self, number: int) -> torch.Tensor:
        """All elements of one block."""
        start = int(self._starts(torch.tensor(number)))
        return self.elements[start : start + self._block]

    def run_index(self, blocks: torch.Tensor) -> torch.Tensor:
        """Where layer 0's runs lie in ``runs``: ``[sequences, blocks]`` to ``[K V, sequences, kv heads, blocks]``."""
        heads = torch.arange(2 * self.kv_heads).view(2, 1, self.kv_heads, 1) * self._run
        return (self._starts(blocks)[None, :, None, :] + heads) // self.runs.stride(0)

    def row_index(self, blocks: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Where layer 0's rows of tokens lie in ``rows``: ``[tokens]`` twice to ``[tokens, K V and kv heads]``."""
        heads = torch.arange(2 * self.kv_heads) * self._run
        start = self._starts(blocks) + offsets * self.head_dim
        return (start[:, None] + heads) // self.rows.stride(0)

    def layer_step(self, view: torch.Tensor) -> int:
        """What to add to an index into ``view`` for the next layer."""
        return 2 * self.kv_heads * self._run // view.stride(0)

    def _starts(self, blocks: torch.Tensor) -> torch.Tensor:
        page = torch.div(blocks, self.blocks_per_page, rounding_mode="floor")
        return page * self._page + (blocks - page * self.blocks_per_page) * self._block
