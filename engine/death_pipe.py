"""A process that holds the read end of a pipe and leaves when the pipe ends.

The kernel closes a dead process's files whatever killed it, so this works where no handler could run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

_DETACH = b"d"


def leave_at_end_of(fd: int, before: Callable[[], None] = lambda: None) -> None:
    """Exit this process, at once and without cleaning up, when the other end of ``fd`` closes.

    ``before`` is called first. A byte on the pipe means: never mind, from now on live without me.
    """

    def watch() -> None:
        try:
            found = os.read(fd, 1)
        except OSError:
            found = b""
        if found:
            os.close(fd)
            return
        try:
            before()
        finally:
            os._exit(0)

    threading.Thread(target=watch, name="death-pipe", daemon=True).start()


def detach(write_fd: int) -> None:
    """Tell the process at the other end that it may outlive us."""
    os.write(write_fd, _DETACH)
