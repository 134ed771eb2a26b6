"""Which colour and which letter an adapter has. Both come from its serial, so neither moves while it lives."""

from __future__ import annotations

HUES = 8
KV_LETTER = "k"
COPYING_LETTER = ">"
FREE_LETTER = "."
RESERVED_LETTER = "#"
LETTERS = "abcdefghijlmnopqrstuvwxyz"  # without k, which is the KV cache


def hue_of(serial: int) -> int:
    return serial % HUES


def letter_of(serial: int, pinned: bool = False) -> str:
    """Lower case may be evicted, upper case is pinned."""
    letter = LETTERS[serial % len(LETTERS)]
    return letter.upper() if pinned else letter
