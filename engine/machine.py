"""What this machine offers, as far as the standard library can tell."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes() -> int:
    """Physical memory, or less where a container's limit is lower."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        try:
            limit = path.read_text().strip()
        except OSError:
            continue
        if limit.isdigit():  # "max" means: no limit
            memory = min(memory, int(limit))
    return memory
