"""The engine's output: written by the child straight to a file, so no full pipe can stop it; bounded and followed."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

TAIL_LINES = 200
_MOST_BYTES = 10 << 20
_MOST_READ = 1 << 20
_MOST_LINE = 2000


class LogFile:
    """``tail``: the last 200 lines. One older file is kept as ``.1``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._offset = 0
        self._partial = b""

    def open_for_child(self) -> BinaryIO:
        """Start a new file. Appending, so that the child goes on at the start of a file that was cut."""
        with suppress(FileNotFoundError):
            os.replace(self.path, self.path.with_suffix(".log.1"))
        self._offset = 0
        self._partial = b""
        self.tail.clear()
        return open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")

    def follow(self) -> bool:
        """Take up what was written since the last call; True when there was anything. Cuts a file that grew large."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = max(min(self._offset, size), size - _MOST_READ)
                file.seek(start)
                data = file.read()
        except OSError:
            return False
        self._offset = start + len(data)
        if self._offset > _MOST_BYTES:
            os.truncate(self.path, 0)
            self._offset = 0
        if not data:
            return False
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-_MOST_LINE:]
        self.tail.extend(line[:_MOST_LINE].decode(errors="replace") for line in lines)
        return bool(lines)
