from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import MIB
from engine.errors import AdapterTooLargeError
from engine.packing import AdapterLayout, MatrixPlacement, pack
from engine.shape import LORA_MODULES, ModelShape
from tests.engine.synthetic import TINY_SHAPE, make_manifest

LLAMA_8B = ModelShape("LlamaForCausalLM", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 2)
LLAMA_70B = ModelShape("LlamaForCausalLM", 80, 8192, 28672, 64, 8, 128, 128256, 131072, 2)


def bytes_of(placement: MatrixPlacement, element_bytes: int) -> int:
    return placement.rows * placement.cols * element_bytes


def check_layout(layout: AdapterLayout, element_bytes: int) -> None:
    ends = [0] * len(layout.extent_bytes)
    for placement in sorted(layout.placements, key=lambda p: (p.extent, p.offset)):
        assert placement.offset >= ends[placement.extent]
        ends[placement.extent] = placement.offset + bytes_of(placement, element_bytes)
    for end, size in zip(ends, layout.extent_bytes, strict=True):
        assert 0 < end <= size
    assert all(size == layout.page_bytes for size in layout.extent_bytes[:-1])
    assert layout.extent_bytes[-1] % layout.unit_bytes == 0
    assert layout.extent_bytes[-1] - ends[-1] < layout.unit_bytes
    assert layout.payload_bytes == sum(bytes_of(placement, element_bytes) for placement in layout.placements)


@given(
    rank=st.integers(1, 32),
    modules=st.lists(st.sampled_from(LORA_MODULES), min_size=1, unique=True),
    ranks=st.dictionaries(st.sampled_from(LORA_MODULES), st.integers(1, 32)),
    page_kib=st.sampled_from([16, 32, 64, 256]),
)
def test_every_matrix_has_a_place_of_its_own(
    rank: int, modules: list[str], ranks: dict[str, int], page_kib: int
) -> None:
    manifest = make_manifest("a", rank=rank, modules=tuple(modules), ranks=ranks)
    layout = pack(manifest, 4, page_kib * 1024, unit_bytes=4096)
    check_layout(layout, 4)
    packed = sorted((p.layer, p.module, p.side, p.rows, p.cols) for p in layout.placements)
    assert packed == sorted((m.layer, m.module, m.side, m.rows, m.cols) for m in manifest.matrices)


@pytest.mark.parametrize("group", [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")])
def test_what_one_kernel_reads_lies_side_by_side(group: tuple[str, ...]) -> None:
    manifest = make_manifest("a", ranks={"q_proj": 3, "v_proj": 5})
    layout = pack(manifest, 4, 64 * 1024, unit_bytes=4096)
    for layer in range(TINY_SHAPE.num_layers):
        shrinks = [p for p in layout.placements if p.layer == layer and p.side == "A" and p.module in group]
        assert [p.module for p in shrinks] == list(group)
        assert shrinks[0].offset % 256 == 0
        for left, right in pairwise(shrinks):
            assert right.extent == left.extent
            assert right.offset == left.offset + bytes_of(left, 4)


@pytest.mark.parametrize(
    ("shape", "rank", "pages"), [(LLAMA_8B, 16, 5), (LLAMA_8B, 128, 40), (LLAMA_70B, 16, 25), (LLAMA_8B, 256, 80)]
)
def test_pages_of_real_models(shape: ModelShape, rank: int, pages: int) -> None:
    layout = pack(make_manifest("a", shape, rank), 2, 16 * MIB)
    check_layout(layout, 2)
    assert layout.most_pages == pages
    assert layout.image_bytes < 1.07 * layout.payload_bytes


def test_a_small_adapter_is_one_tail() -> None:
    smollm = ModelShape("LlamaForCausalLM", 30, 576, 1536, 9, 3, 64, 49152, 8192, 2)
    layout = pack(make_manifest("a", smollm, 4, ("q_proj", "v_proj")), 2, 16 * MIB)
    assert layout.extent_bytes == (MIB,)
    assert (layout.whole_pages, layout.tail_units) == (0, 1)


def test_a_matrix_larger_than_a_page_is_refused() -> None:
    with pytest.raises(AdapterTooLargeError, match="larger than a page"):
        pack(make_manifest("a", rank=64), 4, 16 * 1024)
