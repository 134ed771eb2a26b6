"""Reads a PEFT adapter folder as it is on disk, without torch and without reading the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """One LoRA matrix in the safetensors file: ``rows x cols`` of ``dtype`` at byte ``offset`` of the file."""

    layer: int
    module: str
    side: str  # "A": [rank, in], "B": [out, rank]
    rows: int
    cols: int
    dtype: str  # safetensors' name: F32, BF16, F16
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class AdapterManifest:
    """A validated adapter. ``scales``: what multiplies B @ A @ x, by (layer, module)."""

    folder: Path
    weights_file: Path
    rank: int  # the largest of its matrices
    modules: tuple[str, ...]
    matrices: tuple[MatrixEntry, ...]
    scales: Mapping[tuple[int, str], float]
    base_model: str
    warnings: tuple[str, ...] = ()
