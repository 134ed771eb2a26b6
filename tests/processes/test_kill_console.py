"""However the console ends, in a real terminal, nothing is left of its engine within five seconds."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.running_engine import alive, free_port, tree_of

LEFT_WITHIN_S = 5.0


@contextmanager
def console(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """``loraconsole launch`` on a pseudo-terminal of 120x40 that somebody reads."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = os.environ | {
        "TERM": "xterm-256color",
        "LORACONSOLE_DATA_DIR": str(folder / "data"),
        "LORACONSOLE_STATE_DIR": str(folder / "state"),
    }
    command = [sys.executable, "-c", "from console.cli import main; main()", "launch", "--engine", "sim"]
    with subprocess.Popen(
        [*command, "--port", str(port)],
        stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        threading.Thread(target=_drain, args=(controller,), daemon=True).start()
        try:
            yield process
        finally:
            process.kill()


def _drain(controller: int) -> None:
    try:
        while os.read(controller, 65536):
            pass
    except OSError:  # the other end is closed
        os.close(controller)


def wait_ready(port: int, timeout_s: float = 40.0) -> None:
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the engine did not come up")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    with console(tmp_path, port) as process:
        wait_ready(port)
        tree = tree_of(process.pid)
        assert len(tree) == 3, "console, server, core"
        process.send_signal(number)
        _, left = psutil.wait_procs(tree[1:], timeout=LEFT_WITHIN_S)
        assert not alive(left), f"left: {left}"
        process.wait(timeout=LEFT_WITHIN_S)
        if number is not signal.SIGKILL:
            assert process.returncode == 128 + number
