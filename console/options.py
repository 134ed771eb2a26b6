"""How the console draws. One value, written by the command line; imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

FRAME_RATES = (1, 2, 4, 10, 30)
LOCAL_FRAME_RATE = 10
SSH_FRAME_RATE = 4  # a worst-case map sends 600 KiB/s at 10 frames a second, too much for a slow line


def default_frame_rate(environ: Mapping[str, str] = os.environ) -> int:
    return SSH_FRAME_RATE if environ.get("SSH_CONNECTION") else LOCAL_FRAME_RATE


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """``frame_rate`` is one of FRAME_RATES, 0 to choose by the line; ``theme`` is a Textual theme's name."""

    ascii: bool = False
    frame_rate: int = 0
    theme: str = "loraconsole"
