"""Writes safetensors files in bfloat16 without torch, one tensor at a time."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_bfloat16(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    tensor: Callable[[str], NDArray[np.float32]],
    progress: Callable[[int, int], None],
) -> None:
    """``tensor(name)`` is asked for in the order of ``shapes``, so that the memory needed is the largest one's.

    Values must be finite. Progress in bytes of data: done, total.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)  # readers map the data and want it aligned
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name, shape in shapes.items():
            values = tensor(name)
            assert values.shape == shape
            file.write(to_bfloat16(values).tobytes())
            progress(header[name]["data_offsets"][1], end)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bit patterns, rounded to nearest even. Finite values only."""
    bits = values.view(np.uint32)
    return ((bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)).astype("<u2")
