from __future__ import annotations

from dataclasses import replace

import pytest

from engine.config import GIB, EngineConfig
from engine.errors import ConfigError
from engine.modelled_executor import MODELLED_SHAPE
from engine.sizing import Sizes, resolve_sizes


def sizes(memory: int = 24 * GIB, device: int | None = None, **config: object) -> Sizes:
    return resolve_sizes(EngineConfig(engine="sim", **config), MODELLED_SHAPE, memory, device)  # type: ignore[arg-type]


def test_on_the_cpu_the_pool_is_a_quarter_of_the_memory_and_4_gib_at_most() -> None:
    assert sizes(24 * GIB).num_pages == 256
    assert sizes(2 * GIB).num_pages == 32
    assert sizes(24 * GIB).host_budget_bytes == 6 * GIB


def test_on_a_gpu_nine_tenths_of_what_is_left() -> None:
    assert sizes(device=100 * GIB).num_pages == 5760
    assert sizes(device=100 * GIB).max_seqs == 256


def test_the_kv_floor_always_holds_one_longest_sequence() -> None:
    found = sizes(pool_mib=512, kv_floor=0.0, max_model_len=8192)
    tokens = found.kv_floor_pages * found.blocks_per_page * found.block_tokens
    assert tokens >= 8192
    assert found.adapter_limit_pages == found.num_pages - found.kv_floor_pages


def test_a_small_pool_shortens_the_longest_sequence() -> None:
    found = sizes(pool_mib=64)
    assert found.max_model_len == 2 * found.blocks_per_page * 16
    assert found.adapter_limit_pages == 2


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"pool_mib": 16}, "at least 2 pages"),
        ({"max_model_len": 9000}, "has 8192 positions"),
        ({"max_model_len": 8192, "pool_mib": 64}, "use a larger --pool-mib"),
    ],
)
def test_what_can_not_be_is_refused_with_the_arithmetic(config: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sizes(**config)


def test_a_block_larger_than_a_page_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't hold a KV block"):
        resolve_sizes(EngineConfig(engine="sim", page_mib=1), replace(MODELLED_SHAPE, num_layers=300), 24 * GIB)


@pytest.mark.parametrize("field", ["pool_mib", "host_mib", "threads", "max_seqs", "max_batch_tokens", "max_model_len"])
def test_negative_numbers_are_refused_by_name(field: str) -> None:
    with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')} -1: must not be negative"):
        EngineConfig(engine="sim", **{field: -1}).checked()  # type: ignore[arg-type]
