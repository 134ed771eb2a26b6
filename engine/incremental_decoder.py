"""Token ids to text while they arrive: no half character is ever shown, and nothing is decoded twice."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Set
from functools import cache
from typing import Protocol

from tokenizers import Tokenizer as RustTokenizer

REPLACEMENT = "\ufffd"


class IncrementalDecoder(Protocol):
    """The pieces that ``push`` and ``finish`` return, joined, are the text of all ids. Special tokens have no text."""

    def push(self, ids: Iterable[int]) -> str:
        """Text that is certain now; the start of a character waits for its other bytes."""

    def finish(self) -> str:
        """What was held back: U+FFFD for a character that never became whole. The decoder is spent."""


class ByteLevelDecoder:
    """For byte-level BPE (GPT-2 and its heirs): a token is a byte string, so UTF-8's own rule finds the characters."""

    def __init__(self, tokenizer: RustTokenizer, special_ids: Set[int], byte_cache: dict[int, bytes]) -> None:
        """``byte_cache``: bytes by token id, shared between the streams of one tokenizer."""
        self._tokenizer = tokenizer
        self._special_ids = special_ids
        self._byte_cache = byte_cache
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, ids: Iterable[int]) -> str:
        return self._utf8.decode(b"".join(self._bytes_of(i) for i in ids if i not in self._special_ids))

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)

    def _bytes_of(self, token_id: int) -> bytes:
        found = self._byte_cache.get(token_id)
        if found is None:
            token = self._tokenizer.id_to_token(token_id) or ""
            alphabet = byte_alphabet()
            try:
                found = bytes(alphabet[char] for char in token)
            except KeyError:  # a token added by hand is plain text
                found = token.encode()
            self._byte_cache[token_id] = found
        return found


class WindowDecoder:
    """For every other tokenizer: decode a short window with and without the new tokens, and show the difference.

    The window starts at the last token that was shown, so that a rule about the first token of a text (SentencePiece
    drops its leading space) acts on both sides alike.
    """

    # A character has at most 4 bytes, one token each in the worst case. A tail that stays undecodable for longer is
    # not text; holding it back would make the window, and with it the cost of each token, grow without end.
    _MOST_PENDING = 16

    def __init__(self, tokenizer: RustTokenizer, special_ids: Set[int]) -> None:
        self._tokenizer = tokenizer
        self._special_ids = special_ids
        self._window: list[int] = []
        self._shown = 0  # so many ids of the window are on the screen already
        self._shown_text = ""

    def push(self, ids: Iterable[int]) -> str:
        pieces = []
        for token_id in ids:
            if token_id in self._special_ids:
                continue
            self._window.append(token_id)
            pieces.append(self._emit(even_if_broken=len(self._window) - self._shown >= self._MOST_PENDING))
        return "".join(pieces)

    def finish(self) -> str:
        return self._emit(even_if_broken=True)

    def _emit(self, even_if_broken: bool) -> str:
        text = self._tokenizer.decode(self._window, skip_special_tokens=False)
        if len(text) <= len(self._shown_text) or (text.endswith(REPLACEMENT) and not even_if_broken):
            return ""
        new = text[len(self._shown_text) :]
        self._window = self._window[self._shown :]
        self._shown = len(self._window)
        self._shown_text = self._tokenizer.decode(self._window, skip_special_tokens=False)
        return new


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes, by character."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
