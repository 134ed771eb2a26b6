"""The titles of the panels: the one line that answers the panel's question."""

from __future__ import annotations

from console.draw.page_grid import PageGrid
from console.format import count, milliseconds, size, stopwatch
from console.rates import Rates
from console.state import ConsoleState
from console.words import TIER_ORDER, load_words, pool_words, tier_word


def map_title(state: ConsoleState, grid: PageGrid) -> str:
    info = state.info
    if info is None:
        return "Pages"
    total = size(info.num_pages * info.page_bytes)
    scale = "" if grid.pages_per_tile == 1 else f", {grid.pages_per_tile} pages a cell"
    return f"{pool_words(info)} {total} = {count(info.num_pages)} pages of {size(info.page_bytes)}{scale}"


def adapters_title(state: ConsoleState) -> str:
    rows = state.adapters.values()
    held = dict.fromkeys(TIER_ORDER, 0)
    for row in rows:
        held[row.tier] += 1
    tiers = " / ".join(f"{held[tier]} {tier_word(tier, state.info)}" for tier in TIER_ORDER)
    pinned = sum(row.pinned for row in rows)
    return f"Adapters {len(rows)}: {tiers}" + (f", {pinned} pinned" if pinned else "")


def swaps_title(state: ConsoleState) -> str:
    return f"Swap latency, {load_words(state.info)}"


def swap_words(rates: Rates) -> str:
    n, p50, p95, p99 = rates.swap_quantiles()
    if not n:
        return "no swap yet"
    return f"p50 {milliseconds(p50)}  p95 {milliseconds(p95)}  p99 {milliseconds(p99)}  n={n}"


def token_words(rates: Rates) -> str:
    decode, prefill = rates.per_second("generated_tokens_total"), rates.per_second("prompt_tokens_total")
    return f"decode {count(decode)}  prefill {count(prefill)} tok/s"


def span_words(rates: Rates, columns: int) -> str:
    seconds = columns * rates.column_s(columns)
    return f"last {stopwatch(seconds)}"
