"""In which order the adapters stand in the table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from console.words import TIER_ORDER
from engine.messages import AdapterRow

_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts ``tenant-9`` before ``tenant-10``."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name.lower()) if part)


def ordered(rows: Iterable[AdapterRow]) -> list[AdapterRow]:
    """What holds pages first, pinned before the rest, then by name: rows move only when an adapter changes tier."""
    return sorted(rows, key=lambda row: (_place(row), not row.pinned, natural(row.name)))


def _place(row: AdapterRow) -> int:
    return 0 if row.state == "copying" else TIER_ORDER[row.tier]
