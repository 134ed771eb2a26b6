"""Moves adapters: disk to page images in host memory, images to the pool. One thread for each, neither waits for the
other, and a step waits for neither."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from engine.errors import AdapterInvalidError, EngineError
from engine.executor import Location, TransferDone
from engine.kernels.pool_view import PoolView
from engine.packing import AdapterLayout
from engine.peft import AdapterManifest, MatrixEntry, read_manifest
from engine.shape import ModelShape

_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


class Transfers:
    """``notify`` is called from a worker thread whenever one ended."""

    def __init__(self, pool: PoolView, shape: ModelShape, notify: Callable[[], None]) -> None:
        self._pool = pool
        self._shape = shape
        self._notify = notify
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="adapter-read")
        self._copier = ThreadPoolExecutor(1, thread_name_prefix="adapter-copy")
        self._images: dict[int, tuple[torch.Tensor, AdapterLayout]] = {}
        self._done: deque[TransferDone] = deque()
        self.pending = 0

    def begin_read(self, serial: int, manifest: AdapterManifest, layout: AdapterLayout) -> None:
        self.pending += 1
        self._reader.submit(self._read, serial, manifest, layout)

    def begin_copy(self, serial: int, locations: Sequence[Location]) -> None:
        self.pending += 1
        self._copier.submit(self._copy, serial, list(locations))

    def drop(self, serial: int) -> None:
        del self._images[serial]

    def layout(self, serial: int) -> AdapterLayout:
        """Of an adapter whose image is in host memory."""
        return self._images[serial][1]

    def collect(self) -> list[TransferDone]:
        found = []
        while self._done:
            found.append(self._done.popleft())
        self.pending -= len(found)
        return found

    def close(self) -> None:
        for executor in (self._reader, self._copier):
            executor.shutdown(wait=True, cancel_futures=True)

    # --- in the worker threads ------------------------------------------------------

    def _finish(self, done: TransferDone) -> None:
        self._done.append(done)
        self._notify()

    def _read(self, serial: int, manifest: AdapterManifest, layout: AdapterLayout) -> None:
        started = time.monotonic_ns()
        try:
            image, content_hash = read_image(manifest, layout, self._shape, self._pool.elements.dtype)
        except EngineError as error:
            self._finish(TransferDone("read", serial, started, time.monotonic_ns(), 0, "", error.code, str(error)))
        except Exception as error:  # whatever it is, one adapter fails and the engine goes on
            text = f"{manifest.weights_file}: {error}"
            code = AdapterInvalidError.code
            self._finish(TransferDone("read", serial, started, time.monotonic_ns(), 0, "", code, text))
        else:
            self._images[serial] = image, layout
            self._finish(TransferDone("read", serial, started, time.monotonic_ns(), image.numel(), content_hash))

    def _copy(self, serial: int, locations: list[Location]) -> None:
        started = time.monotonic_ns()
        (image, layout), at = self._images[serial], 0
        for location, size in zip(locations, layout.extent_bytes, strict=True):
            self._pool.extent(location.page, location.offset, size).copy_(image[at : at + size])
            at += size
        self._finish(TransferDone("copy", serial, started, time.monotonic_ns(), at))


def read_image(
    manifest: AdapterManifest, layout: AdapterLayout, shape: ModelShape, dtype: torch.dtype
) -> tuple[torch.Tensor, str]:
    """The page image, uint8 ``[image_bytes]``, and the SHA-256 of the weights file.

    Raises AdapterInvalidError when the file is not what ``manifest`` says (any more) or holds NaN or infinity.
    """
    # Not a memory map: a file that shrinks under a map ends the process with SIGBUS.
    try:
        data = bytearray(manifest.weights_file.read_bytes())
    except OSError as error:
        raise AdapterInvalidError(f"{manifest.weights_file}: {error.strerror or error}") from error
    # Offsets and scales were read when the adapter was registered, perhaps hours ago.
    if read_manifest(manifest.folder, shape) != manifest:
        raise AdapterInvalidError(f"{manifest.folder}: changed since it was registered; unload it and add it again")
    image = torch.zeros(layout.image_bytes, dtype=torch.uint8)
    elements = image.view(dtype)
    starts = [sum(layout.extent_bytes[:extent]) for extent in range(len(layout.extent_bytes))]
    entries = {(entry.layer, entry.module, entry.side): entry for entry in manifest.matrices}
    for place in layout.placements:
        matrix = _matrix(data, entries[place.layer, place.module, place.side], manifest)
        if place.side == "B":
            matrix = matrix * manifest.scales[place.layer, place.module]
        start = (starts[place.extent] + place.offset) // dtype.itemsize
        elements[start : start + place.rows * place.cols] = matrix.to(dtype).flatten()
    if not torch.isfinite(elements).all():
        raise AdapterInvalidError(f"{manifest.weights_file}: scaled weights are too large for {dtype}")
    return image, hashlib.sha256(data).hexdigest()


def _matrix(data: bytearray, entry: MatrixEntry, manifest: AdapterManifest) -> torch.Tensor:
    """``[rows, cols]`` float32."""
    if entry.offset + entry.nbytes > len(data):
        raise AdapterInvalidError(f"{manifest.weights_file}: became shorter while it was read")
    raw = torch.frombuffer(data, dtype=torch.uint8, count=entry.nbytes, offset=entry.offset)
    # A copy: where the header ends, and so whether a matrix is aligned, is the file's choice.
    matrix = raw.clone().view(_DTYPES[entry.dtype]).float().view(entry.rows, entry.cols)
    if not torch.isfinite(matrix).all():
        name = f"layer {entry.layer} {entry.module} lora_{entry.side}"
        raise AdapterInvalidError(f"{manifest.weights_file}: {name} holds NaN or infinity")
    return matrix
