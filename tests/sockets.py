"""The TCP connections of this process, as its kernel holds them."""

from __future__ import annotations

import os
import socket

import psutil


def nodelay_of_connections(port: int) -> list[bool]:
    """Whether Nagle's algorithm is off, for each open connection of this process to or from ``port``, either end."""
    found = []
    for connection in psutil.Process().net_connections("tcp"):
        ends = [address.port for address in (connection.laddr, connection.raddr) if address]
        if connection.status == psutil.CONN_ESTABLISHED and port in ends:
            with socket.socket(fileno=os.dup(connection.fd)) as sock:
                found.append(bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
    return found
