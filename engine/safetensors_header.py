"""The header of a safetensors file, parsed by hand so that every limit is checked before a byte is believed.

Format: 8 bytes little-endian header length, a JSON object of tensors, then the data; offsets count from the data.
https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import AdapterInvalidError

# The reference reader's own limit.
_MOST_HEADER_BYTES = 100_000_000
_DTYPE_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
    "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "U32": 4, "U64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """``offset``: of its first byte, from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def read_header(path: Path) -> list[TensorEntry]:
    """The tensors of ``path`` by offset. Raises AdapterInvalidError for anything that the format forbids."""
    try:
        with path.open("rb") as file:
            file_bytes = file.seek(0, 2)
            file.seek(0)
            start = file.read(8)
            if len(start) < 8:
                raise AdapterInvalidError(f"{path}: {file_bytes} bytes is too short for a safetensors file")
            (header_bytes,) = struct.unpack("<Q", start)
            if header_bytes > min(_MOST_HEADER_BYTES, file_bytes - 8):
                raise AdapterInvalidError(
                    f"{path}: says that its header has {header_bytes} bytes, the file has {file_bytes}: "
                    "not a safetensors file, or an incomplete one"
                )
            text = file.read(header_bytes)
    except OSError as error:
        raise AdapterInvalidError(f"{path}: {error.strerror or error}") from error
    data_start = 8 + header_bytes
    entries = [
        _entry(path, name, value, data_start) for name, value in _parse(path, text).items() if name != "__metadata__"
    ]
    entries.sort(key=lambda entry: (entry.offset, entry.nbytes))
    end = data_start
    for entry in entries:
        if entry.offset != end:
            raise AdapterInvalidError(f"{path}: {entry.name!r} starts at byte {entry.offset}, expected {end}")
        end += entry.nbytes
    if end != file_bytes:
        raise AdapterInvalidError(f"{path}: incomplete or damaged: {file_bytes} bytes, its header describes {end}")
    return entries


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name appears twice")
        return found

    try:
        header = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise AdapterInvalidError(f"{path}: its header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise AdapterInvalidError(f"{path}: its header must be a JSON object")
    return header


def _entry(path: Path, name: str, value: Any, data_start: int) -> TensorEntry:
    match value:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]}:
            numbers = [*shape, begin, end]
        case _:
            raise AdapterInvalidError(f"{path}: tensor {name[:200]!r} lacks dtype, shape or data_offsets")
    if not all(type(number) is int and 0 <= number < 1 << 48 for number in numbers):
        raise AdapterInvalidError(f"{path}: tensor {name[:200]!r} has a size or offset that is no reasonable number")
    if dtype not in _DTYPE_BYTES:
        raise AdapterInvalidError(f"{path}: tensor {name[:200]!r} has the unknown dtype {dtype[:40]!r}")
    if end - begin != math.prod(shape) * _DTYPE_BYTES[dtype]:
        raise AdapterInvalidError(
            f"{path}: tensor {name[:200]!r} of shape {shape[:8]} does not fill its {end - begin} bytes"
        )
    return TensorEntry(name, dtype, tuple(shape), data_start + begin, end - begin)
