"""The line between server and core: two ZeroMQ pipes over Unix sockets, msgpack by msgspec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from engine.messages import CoreMessage, ServerMessage

Publish: TypeAlias = Callable[[CoreMessage], None]

encode = msgspec.msgpack.Encoder().encode
decode_server_message = msgspec.msgpack.Decoder(ServerMessage).decode
decode_core_message = msgspec.msgpack.Decoder(CoreMessage).decode


def to_core(folder: Path) -> str:
    return f"ipc://{folder / 'to-core'}"


def to_server(folder: Path) -> str:
    return f"ipc://{folder / 'to-server'}"
