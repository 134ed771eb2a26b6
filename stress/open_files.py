"""Each worker holds a connection, and each connection is an open file, of which a process may have only so many."""

from __future__ import annotations

import resource

# Pipes, the event loop's own, the interpreter's.
_OTHER_FILES = 64


def most_workers() -> int:
    """That this user's limits allow."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard - _OTHER_FILES


def allow(workers: int) -> None:
    """Raise this process's own limit as far as needed; within the hard limit, which ``most_workers`` tells."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < workers + _OTHER_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (workers + _OTHER_FILES, hard))
