"""Who listens on a port, as far as we may know."""

from __future__ import annotations

import psutil


def owner_of_port(port: int) -> str:
    """`` by NAME (pid N)``, or nothing: other users' processes are not ours to see."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return ""
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            try:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
            except psutil.Error:
                return f" by pid {connection.pid}"
    return ""
