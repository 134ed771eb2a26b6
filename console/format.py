"""Numbers as an operator reads them. What is not known is a dash, never a zero."""

from __future__ import annotations

import time

from engine.config import GIB, MIB

DASH = "-"
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


def size(n_bytes: int | None) -> str:
    """``1.2 GiB``, ``39.8 MiB``, ``512 KiB``: three significant digits."""
    if n_bytes is None:
        return DASH
    for unit_bytes, unit in ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if n_bytes >= unit_bytes:
            value = n_bytes / unit_bytes
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{n_bytes} B"


def mebibytes(n_bytes: int) -> str:
    value = n_bytes / MIB
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def count(value: int | float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def short_count(value: float | None) -> str:
    """``812``, ``4.1k``, ``23k``, ``1.3M``: for chart labels and narrow columns."""
    if value is None:
        return DASH
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            scaled = value / factor
            return f"{scaled:.0f}{suffix}" if scaled >= 10 or scaled == int(scaled) else f"{scaled:.1f}{suffix}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def milliseconds(value_ms: float | None) -> str:
    """``0.31 ms``, ``3.1 ms``, ``302 ms``, ``1.20 s``."""
    if value_ms is None:
        return DASH
    if value_ms >= 10_000:
        return f"{value_ms / 1000:.1f} s"
    if value_ms >= 1000:
        return f"{value_ms / 1000:.2f} s"
    if value_ms >= 100:
        return f"{value_ms:.0f} ms"
    return f"{value_ms:.1f} ms" if value_ms >= 1 else f"{value_ms:.2f} ms"


def per_second(value: float | None, unit: str) -> str:
    return DASH if value is None else f"{value:,.1f} {unit}/s" if 0 < value < 10 else f"{value:,.0f} {unit}/s"


def percent(share: float | None) -> str:
    if share is None:
        return DASH
    return f"{share * 100:.0f}%" if share in (0.0, 1.0) or share >= 0.995 else f"{share * 100:.1f}%"


def age(seconds: float | None) -> str:
    """How long ago: ``0.2 s``, ``41 s``, ``9.2 m``, ``3.1 h``."""
    if seconds is None:
        return DASH
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} m" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def stopwatch(seconds: float | None) -> str:
    """``01:12`` below an hour, ``00:12:41`` style from there on."""
    if seconds is None:
        return DASH
    whole = max(int(seconds), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours:02d}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"


def wall_time(wall_ns: int, millis: bool = False) -> str:
    """Local time of day."""
    text = time.strftime("%H:%M:%S", time.localtime(wall_ns / NS_PER_S))
    return f"{text}.{wall_ns // NS_PER_MS % 1000:03d}" if millis else text


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its end replaced by an ellipsis where it is too long."""
    if len(text) <= width:
        return text
    return text[: width - 1] + "…" if width > 1 else text[:width]


def clip_left(text: str, width: int) -> str:
    """As ``clip``, but keeps the end: for paths."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
