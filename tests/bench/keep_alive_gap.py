"""``python -m tests.bench.keep_alive_gap``: over one kept-alive connection, how long after the head of an answer its
body comes, and how long the whole takes; median of 30, the engine is the modelled one. A gap of 40 ms is Nagle's
algorithm meeting a delayed ACK."""

from __future__ import annotations

import re
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.running_engine import served_engine

REQUESTS = 30
AIM_GAP_MS = 2.0


def ask(sock: socket.socket, host: str) -> tuple[float, float]:
    """Milliseconds from head to body, and in all."""
    begin = time.perf_counter()
    sock.sendall(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head = time.perf_counter()
    start = data.index(b"\r\n\r\n") + 4
    length = re.search(rb"(?i)content-length: *(\d+)", data[:start])
    assert length is not None, data
    while len(data) < start + int(length[1]):
        data += sock.recv(65536)
    end = time.perf_counter()
    return (end - head) * 1e3, (end - begin) * 1e3


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, served_engine(Path(folder)) as url:
        address = urlsplit(url)
        with socket.create_connection((str(address.hostname), address.port or 80)) as sock:
            times = [ask(sock, address.netloc) for _ in range(REQUESTS)]
    gap, whole = (statistics.median(column) for column in zip(*times, strict=True))
    verdict = "ok" if gap <= AIM_GAP_MS else "MISSED"
    sys.stdout.write(
        f"GET /v1/models, connection kept alive: head to body {gap:.2f} ms (aim {AIM_GAP_MS:g} ms), "
        f"whole {whole:.2f} ms {verdict}\n"
    )
    return 0 if gap <= AIM_GAP_MS else 1


if __name__ == "__main__":
    sys.exit(main())
