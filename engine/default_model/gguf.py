"""Reads a GGUF file (version 3): its metadata, and its tensors as float32. NumPy only.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Tensor types: those of the default model, F32, Q4_1
and Q8_0. The file's checksum is verified before, so that a malformed one is a bug and not an input.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCK_VALUES = 32  # of both quantised types
_BLOCKS = {
    _Q4_1: np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("nibbles", "u1", 16)]),
    _Q8_0: np.dtype([("scale", "<f2"), ("values", "i1", 32)]),
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """``shape``: rows first, as in a Hugging Face checkpoint (GGUF itself writes the fastest dimension first)."""

    shape: tuple[int, ...]
    kind: int
    offset: int  # bytes into the file


class GgufFile:
    """``data``: the whole file. ``metadata``: its key-value pairs; ``tensors``: by GGUF's names."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4
        magic, version = data[:4], self._scalar("I")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"not a GGUF file of version 3: {magic!r}, version {version}")
        num_tensors, num_pairs = self._scalar("Q"), self._scalar("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(num_pairs):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("I"))
        found = {}
        for _ in range(num_tensors):
            name = self._string()
            dims = tuple(self._scalar("Q") for _ in range(self._scalar("I")))
            found[name] = GgufTensor(dims[::-1], self._scalar("I"), self._scalar("Q"))
        alignment = self.metadata.get("general.alignment", 32)
        base = -(-self._at // alignment) * alignment
        self.tensors = {name: GgufTensor(t.shape, t.kind, base + t.offset) for name, t in found.items()}

    def read(self, name: str) -> NDArray[np.float32]:
        """The tensor ``name`` dequantised, float32, in its shape."""
        tensor = self.tensors[name]
        count = int(np.prod(tensor.shape))
        if tensor.kind == _F32:
            return np.frombuffer(self._data, "<f4", count, tensor.offset).reshape(tensor.shape)
        if tensor.kind not in _BLOCKS:
            raise ValueError(f"{name}: GGUF tensor type {tensor.kind} is not supported")
        blocks = np.frombuffer(self._data, _BLOCKS[tensor.kind], count // _BLOCK_VALUES, tensor.offset)
        scale = blocks["scale"].astype(np.float32)[:, None]
        if tensor.kind == _Q8_0:
            values = blocks["values"] * scale
        else:
            nibbles = blocks["nibbles"]
            # The low halves of the 16 bytes are the block's first 16 values, the high halves its last.
            values = np.concatenate([nibbles & 15, nibbles >> 4], axis=1) * scale
            values += blocks["minimum"].astype(np.float32)[:, None]
        return values.reshape(tensor.shape)

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self._at)
        self._at += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        length = self._scalar("Q")
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            item_kind, count = self._scalar("I"), self._scalar("Q")
            return [self._value(item_kind) for _ in range(count)]
        return self._scalar(_SCALARS[kind])
