"""From what was asked for, the model and the memory to the numbers that an engine runs with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.config import GIB, MIB, EngineConfig
from engine.errors import ConfigError
from engine.shape import ModelShape

_MOST_CPU_POOL_BYTES = 4 * GIB
_GPU_POOL_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Sizes:
    """``kv_floor_pages``: pages that adapters never take; they hold at least one sequence of ``max_model_len``."""

    num_pages: int
    page_bytes: int
    block_tokens: int
    block_bytes: int
    blocks_per_page: int
    kv_floor_pages: int
    host_budget_bytes: int
    max_seqs: int
    max_batch_tokens: int
    max_model_len: int

    @property
    def adapter_limit_pages(self) -> int:
        """The most pages that all adapters together may hold."""
        return self.num_pages - self.kv_floor_pages


def resolve_sizes(
    config: EngineConfig, shape: ModelShape, host_memory_bytes: int, device_memory_bytes: int | None = None
) -> Sizes:
    """Fill in what the configuration leaves open (0).

    ``device_memory_bytes`` is what a GPU has left once the weights are there; None: the pool is host memory.
    On the CPU the pool is a quarter of the memory and 4 GiB at most, and page images may take a quarter too.
    The longest sequence is the model's own limit, or what half the pool holds if that is less, so that adapters
    always find room beside it. Raises ConfigError, with the arithmetic, when a page can't hold one block, when the
    pool has no page, or when a sequence length was asked for that the model or the pool does not have.
    """
    on_gpu = device_memory_bytes is not None
    page_bytes = config.page_bytes
    block_bytes = shape.block_bytes(config.block_tokens)
    if block_bytes > page_bytes:
        raise ConfigError(
            f"--page-mib {config.page_mib}: a page of {page_bytes} bytes can't hold a KV block of {block_bytes} bytes "
            f"({config.block_tokens} tokens x {shape.kv_bytes_per_token} bytes)"
        )
    if config.pool_mib:
        pool_bytes = config.pool_mib * MIB
    elif device_memory_bytes is not None:
        pool_bytes = int(device_memory_bytes * _GPU_POOL_SHARE)
    else:
        pool_bytes = min(host_memory_bytes // 4, _MOST_CPU_POOL_BYTES)
    num_pages = pool_bytes // page_bytes
    if num_pages < 2:
        raise ConfigError(
            f"--pool-mib {pool_bytes // MIB}: KV and adapters need at least 2 pages of {config.page_mib} MiB"
        )
    blocks_per_page = page_bytes // block_bytes
    page_tokens = blocks_per_page * config.block_tokens
    max_model_len = config.max_model_len or min(shape.max_positions, num_pages // 2 * page_tokens)
    if max_model_len > shape.max_positions:
        raise ConfigError(f"--max-model-len {max_model_len}: the model has {shape.max_positions} positions")
    longest_pages = math.ceil(max_model_len / page_tokens)
    if longest_pages > num_pages:
        raise ConfigError(
            f"--max-model-len {max_model_len} takes {longest_pages} pages of {page_tokens} tokens, "
            f"the pool has {num_pages}: use a larger --pool-mib or a shorter length"
        )
    return Sizes(
        num_pages=num_pages,
        page_bytes=page_bytes,
        block_tokens=config.block_tokens,
        block_bytes=block_bytes,
        blocks_per_page=blocks_per_page,
        kv_floor_pages=max(math.ceil(config.kv_floor * num_pages), longest_pages),
        host_budget_bytes=config.host_mib * MIB or host_memory_bytes // 4,
        max_seqs=config.max_seqs or (256 if on_gpu else 64),
        max_batch_tokens=config.max_batch_tokens or (8192 if on_gpu else 512),
        max_model_len=max_model_len,
    )
