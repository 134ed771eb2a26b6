"""Styled text as plain values: pure functions make it, widgets draw it, tests read it."""

from __future__ import annotations

from collections.abc import Sequence

Part = tuple[str, str]
"""Text and the style it is drawn in, in Textual's notation with theme variables: ``bold $primary``."""

Row = Sequence[Part]


# For --ascii: what stands for each sign that the screens use. All are one cell wide.
ASCII = str.maketrans("●○◌◐✖▲·…━▌█✔▸", "*oooX!-~=|#x>")


def text_of(row: Row) -> str:
    return "".join(text for text, _ in row)


def cut(row: Row, width: int) -> list[Part]:
    """The first ``width`` cells of ``row``."""
    kept: list[Part] = []
    for text, style in row:
        if width <= 0:
            break
        kept.append((text[:width], style))
        width -= len(text)
    return kept


def spread(left: Row, right: Row, width: int) -> list[Part]:
    """``left`` and ``right`` at both ends of ``width``; where they do not both fit, ``left`` is cut."""
    room = max(width - len(text_of(right)), 0)
    kept = cut(left, room)
    return [*kept, (" " * (room - len(text_of(kept))), "$foreground"), *right]
