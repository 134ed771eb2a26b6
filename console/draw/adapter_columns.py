"""The columns of the adapters table: heading, width, text, and at which table width they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from console.format import age, count, mebibytes, milliseconds
from console.words import state_word, tier_word
from engine.messages import AdapterRow, EngineInfo

Tone = Literal["plain", "name", "tier", "quiet", "busy", "state"]


@dataclass(frozen=True, slots=True)
class CellContext:
    """What a cell needs besides its row: the engine, and its clock now."""

    info: EngineInfo | None
    now_ns: int


@dataclass(frozen=True, slots=True)
class TableColumn:
    """``from_width``: the narrowest table that shows it. A width of 0 takes what is left. Numbers align right."""

    heading: str
    width: int
    text: Callable[[AdapterRow, CellContext], str]
    tone: Tone = "plain"
    right: bool = True
    from_width: int = 0


def _since(row: AdapterRow, context: CellContext) -> str:
    return age((context.now_ns - row.last_used_ns) / 1e9 if row.last_used_ns else None)


def _dash_zero(value: int) -> str:
    return count(value) if value else "·"


COLUMNS: tuple[TableColumn, ...] = (
    TableColumn("adapter", 0, lambda row, _: row.name, "name", right=False),
    TableColumn("tier", 5, lambda row, context: tier_word(row.tier, context.info), "tier", right=False),
    TableColumn("rank", 4, lambda row, _: str(row.rank), "quiet", from_width=88),
    TableColumn("MiB", 7, lambda row, _: mebibytes(row.bytes)),
    TableColumn("pages", 5, lambda row, _: _dash_zero(row.pages), "quiet", from_width=88),
    TableColumn("run", 4, lambda row, _: _dash_zero(row.running), "busy"),
    TableColumn("wait", 4, lambda row, _: _dash_zero(row.waiting), "busy", from_width=88),
    TableColumn("hits", 7, lambda row, _: _dash_zero(row.hits)),
    TableColumn("last used", 9, _since, "quiet", from_width=110),
    TableColumn("swap p50", 8, lambda row, _: milliseconds(row.swap_p50_ms), from_width=100),
    TableColumn("swap p95", 8, lambda row, _: milliseconds(row.swap_p95_ms)),
    TableColumn("state", 8, lambda row, context: state_word(row, context.info), "state", right=False),
)
CHIP_WIDTH = 4  # the adapter's letter on its colour
GAP = 2


def layout(table_width: int) -> list[tuple[TableColumn, int]]:
    """The columns that show at ``table_width``, each with its width."""
    shown = [column for column in COLUMNS if table_width >= column.from_width]
    fixed = CHIP_WIDTH + sum(column.width for column in shown) + GAP * len(shown)
    return [(column, column.width or max(table_width - fixed, 8)) for column in shown]
