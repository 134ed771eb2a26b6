"""How one adapter is cut into extents: whole pages of its own and a tail in 1 MiB units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.errors import AdapterTooLargeError
from engine.peft import AdapterManifest, MatrixEntry

_MIB = 1 << 20

# One shrink reads the A of a whole group, one expand writes from one B: so A lies in groups, B alone.
_FUSED_GROUPS = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))


@dataclass(frozen=True, slots=True)
class MatrixPlacement:
    """One matrix of an adapter: ``rows x cols`` elements, row-major, ``offset`` bytes into its extent.

    ``side`` is "A" (shrink, ``[rank, in]``) or "B" (expand, ``[out, rank]``). A matrix never
    straddles two extents.
    """

    layer: int
    module: str
    side: str
    extent: int
    offset: int
    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class AdapterLayout:
    """``extent_bytes``: the size of each extent; all but the last are whole pages, the last may be a tail."""

    page_bytes: int
    unit_bytes: int
    extent_bytes: tuple[int, ...]
    placements: tuple[MatrixPlacement, ...]
    payload_bytes: int  # bytes of the matrices alone; the rest is padding

    @property
    def image_bytes(self) -> int:
        """Bytes of the page images in host memory, and of one swap."""
        return sum(self.extent_bytes)

    @property
    def whole_pages(self) -> int:
        return sum(size == self.page_bytes for size in self.extent_bytes)

    @property
    def tail_units(self) -> int:
        """Units of the shared page that the tail takes; 0 when the adapter ends with a whole page."""
        last = self.extent_bytes[-1]
        return 0 if last == self.page_bytes else last // self.unit_bytes

    @property
    def most_pages(self) -> int:
        """Pages it takes when its tail finds no page to share."""
        return len(self.extent_bytes)


def pack(
    manifest: AdapterManifest, element_bytes: int, page_bytes: int, unit_bytes: int = _MIB, align: int = 256
) -> AdapterLayout:
    """Place every matrix of an adapter: best fit, largest first (Johnson, 1973), so that little of a page is lost.

    The A of q/k/v of one layer follow one another without a gap (one ``[rank_q + rank_k + rank_v, in]`` matrix for a
    fused shrink), likewise the A of gate/up; every group and every B starts at a multiple of ``align`` bytes. Only a
    group larger than a page is laid matrix by matrix. ``placements`` are in the order in which layers read them.
    Raises AdapterTooLargeError when one matrix is larger than a page.
    """
    unit_bytes = min(unit_bytes, page_bytes)
    assert page_bytes % unit_bytes == 0
    assert page_bytes % align == 0
    assert manifest.matrices, "a manifest holds at least one matrix"
    runs = [part for run in _runs(manifest) for part in _split(run, element_bytes, page_bytes)]
    ends: list[int] = []  # bytes used of each extent
    places: dict[int, tuple[int, int]] = {}  # run -> (extent, offset)
    for index in sorted(range(len(runs)), key=lambda index: -_size(runs[index], element_bytes)):
        padded = -(-_size(runs[index], element_bytes) // align) * align
        extent = max((e for e, end in enumerate(ends) if end + padded <= page_bytes), key=ends.__getitem__, default=-1)
        if extent < 0:
            extent = len(ends)
            ends.append(0)
        places[index] = extent, ends[extent]
        ends[extent] += padded

    # The emptiest page is the tail: it may share its page with others.
    order = sorted(range(len(ends)), key=lambda extent: -ends[extent])
    rank_of = {extent: rank for rank, extent in enumerate(order)}
    placements = []
    for index, run in enumerate(runs):
        extent, offset = places[index]
        for entry in run:
            placements.append(
                MatrixPlacement(entry.layer, entry.module, entry.side, rank_of[extent], offset, entry.rows, entry.cols)
            )
            offset += _size([entry], element_bytes)
    tail = -(-ends[order[-1]] // unit_bytes) * unit_bytes
    return AdapterLayout(
        page_bytes=page_bytes,
        unit_bytes=unit_bytes,
        extent_bytes=(page_bytes,) * (len(ends) - 1) + (tail,),
        placements=tuple(placements),
        payload_bytes=_size(manifest.matrices, element_bytes),
    )


def _size(entries: Iterable[MatrixEntry], element_bytes: int) -> int:
    return sum(entry.rows * entry.cols for entry in entries) * element_bytes


def _split(run: list[MatrixEntry], element_bytes: int, page_bytes: int) -> list[list[MatrixEntry]]:
    """The group as it is when it fits a page, else its matrices alone."""
    if _size(run, element_bytes) <= page_bytes:
        return [run]
    for entry in run:
        if (size := _size([entry], element_bytes)) > page_bytes:
            raise AdapterTooLargeError(
                f"{entry.module} {entry.side} of layer {entry.layer} is {entry.rows} x {entry.cols} "
                f"({size} bytes), larger than a page ({page_bytes} bytes): use a larger --page-mib"
            )
    return [[entry] for entry in run]


def _runs(manifest: AdapterManifest) -> Iterator[list[MatrixEntry]]:
    """Matrices that must lie side by side, in the order of packing."""
    by_key = {(entry.layer, entry.module, entry.side): entry for entry in manifest.matrices}
    for layer in sorted({entry.layer for entry in manifest.matrices}):
        for group in _FUSED_GROUPS:
            shrinks = [entry for module in group if (entry := by_key.get((layer, module, "A")))]
            if shrinks:
                yield shrinks
            for module in group:
                if expand := by_key.get((layer, module, "B")):
                    yield [expand]
