"""A tokenizer for the modelled engine, which has no model folder: every byte is a token."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.modelled_executor import EOS_TOKEN_ID, MODELLED_SHAPE


class ByteTokenizer:
    """The surface of ``engine.tokenizer.Tokenizer``."""

    vocab_size = MODELLED_SHAPE.vocab_size
    eos_token_ids = (EOS_TOKEN_ID,)

    def encode(self, text: str) -> list[int]:
        return list(text.encode(errors="replace"))

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        return self.encode("\n".join(f"{message['role']}: {message['content']}" for message in messages))

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")

    def stream(self) -> ByteDecoder:
        return ByteDecoder()


class ByteDecoder:
    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, ids: Iterable[int]) -> str:
        return self._utf8.decode(bytes(i for i in ids if i < 256))

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)
