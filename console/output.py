"""The only module that knows stdout from stderr and what an exit code means: stdout is data, stderr is talk."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Exit(IntEnum):
    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    UNREACHABLE = 3  # can't connect, can't start
    TIMEOUT = 4
    INTERRUPTED = 130


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def fail(text: str, code: Exit) -> NoReturn:
    say(f"loraconsole: {text}")
    raise SystemExit(code)


def emit(text: str) -> None:
    sys.stdout.write(text + "\n")


def emit_json(value: Any) -> None:
    """One JSON document; msgspec structs and dataclasses are objects."""
    import msgspec

    emit(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def emit_table(table: Table) -> None:
    """As wide as the terminal; into a pipe as wide as it needs, so that nothing is cut."""
    from rich.console import Console

    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = 400
    console.print(table)


def plain_table(*columns: str) -> Table:
    """Columns whose name ends with ``>`` are aligned right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left", no_wrap=True)
    return table


def talk() -> Console:
    """For progress bars: on stderr."""
    from rich.console import Console

    return Console(stderr=True)
