"""Server-sent events out of raw bytes, split here and not by a text iterator: the client is on the clock."""

from __future__ import annotations

_LONGEST_EVENT_BYTES = 8 << 20


class OversizedEventError(ValueError):
    """The server sends an event without end."""


class SseReader:
    """Feed bytes as they come, get the data of each complete event. Comments (keep-alives) are dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def push(self, chunk: bytes) -> list[bytes]:
        """Raises OversizedEventError."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST_EVENT_BYTES:
            raise OversizedEventError(f"an event of more than {_LONGEST_EVENT_BYTES} bytes")
        events = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events

    @property
    def incomplete(self) -> bool:
        """Whether the bytes so far end within an event."""
        return bool(self._rest or self._data)
