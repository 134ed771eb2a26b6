"""How one adapter is cut into extents: whole pages of its own and a tail in 1 MiB units."""

from __future__ import annotations

from dataclasses import dataclass


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
