"""The pool in numbers: who holds how much, what paging loses, and how the swaps go."""

from __future__ import annotations

from dataclasses import dataclass

from console.draw.bars import progress
from console.draw.parts import Part
from console.format import DASH, NS_PER_MS, count, milliseconds, percent, size
from console.state import ConsoleState
from engine.messages import AdapterRow, EngineEvent, Gauges, PageOwner


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """Pages by owner."""

    kv: int
    adapters: int
    copying: int
    free: int
    pinned: int

    @property
    def total(self) -> int:
        return self.kv + self.adapters + self.copying + self.free


def pool_counts(state: ConsoleState) -> PoolCounts:
    by_owner = [0] * len(PageOwner)
    for code in state.pages.looks:
        by_owner[code >> 8] += 1
    pinned = by_owner[PageOwner.PINNED]
    return PoolCounts(
        kv=by_owner[PageOwner.KV],
        adapters=by_owner[PageOwner.ADAPTER] + pinned,
        copying=by_owner[PageOwner.COPYING],
        free=by_owner[PageOwner.FREE],
        pinned=pinned,
    )


def stacked_bar(counts: PoolCounts, width: int, ascii_only: bool) -> list[Part]:
    """One row: KV, adapters, copying and free in proportion; what is there at all gets a cell at least."""
    shares = [
        (counts.kv, "k", "$kv"),
        (counts.adapters, "a", "$hue-0"),
        (counts.copying, ">", "$copying"),
        (counts.free, ".", "$free"),
    ]
    total = max(counts.total, 1)
    cells = [max(round(n * width / total), 1 if n else 0) for n, _, _ in shares]
    cells[cells.index(max(cells))] += width - sum(cells)
    return [
        ((letter if ascii_only else "█") * max(n, 0), style)
        for n, (_, letter, style) in zip(cells, shares, strict=True)
    ]


def pool_rows(state: ConsoleState, width: int, ascii_only: bool = False) -> list[list[Part]]:
    """The rows of the pool panel, ``width`` cells wide."""
    info, gauges = state.info, state.gauges
    if info is None or gauges is None:
        return [[("waiting for the engine", "$dim")]]
    counts = pool_counts(state)
    rows: list[list[Part]] = [stacked_bar(counts, width, ascii_only)]
    held = (
        ("k", "KV cache", counts.kv, "$kv"),
        ("a", "adapters", counts.adapters, "$hue-0"),
        (">", "copying in", counts.copying, "$copying"),
        (".", "free", counts.free, "$dim"),
    )
    for letter, name, pages, style in held:
        share = percent(pages / info.num_pages) if info.num_pages else DASH
        amount = f"{count(pages):>7} {size(pages * info.page_bytes):>10} {share:>6}"
        padded = f"{name:<{max(width - 27, 8)}}"
        rows.append([(f"{letter} ", f"bold {style}"), (padded, "$foreground"), (amount, style)])
    rows += [
        [],
        _pair(("partly filled KV pages", count(gauges.partial_kv_pages)), width),
        _pair(("tail waste", size(gauges.tail_waste_bytes)), width),
        _host(gauges, info.host_budget_bytes, width, ascii_only),
        [],
        _two(
            ("swaps/min", count(state.rates.per_minute("loads_total"))),
            ("evictions/min", count(state.rates.per_minute("evictions_total"))),
            width,
        ),
        _two(("hit rate", percent(state.rates.hit_rate())), ("preempted", count(gauges.preemptions_total)), width),
        _two(("running", count(gauges.running)), ("waiting", count(gauges.waiting)), width),
        _last_swap(state.rates.last_swap, width),
    ]
    return rows


def legend_row(state: ConsoleState) -> list[Part]:
    """The pool in one line, for small screens."""
    info = state.info
    if info is None or not info.num_pages:
        return [("waiting for the engine", "$dim")]
    counts = pool_counts(state)
    total = info.num_pages
    return [
        (f"k {percent(counts.kv / total)}", "bold $kv"),
        ("  adapters ", "$foreground"),
        (percent(counts.adapters / total), "bold $hue-0"),
        (f"  > {percent(counts.copying / total)}", "bold $copying"),
        (f"  . {percent(counts.free / total)} free", "$dim"),
        (f"   hit {percent(state.rates.hit_rate())}", "$foreground"),
    ]


def page_words(state: ConsoleState, page: int) -> str:
    """What is on a page, in one line."""
    info = state.info
    if info is None or not 0 <= page < state.pages.num_pages:
        return ""
    at = state.pages.states[page]
    text = f"page {page} at {size(page * info.page_bytes)}"
    owner = PageOwner(at.owner)
    if owner == PageOwner.FREE:
        return f"{text}  free"
    used = percent(at.used_permille / 1000)
    row = state.adapters.get(at.adapter)
    if owner == PageOwner.KV:
        return f"{text}  KV cache  {used} used"
    return f"{text}  {_adapter_words(owner, row)}  {used} used"


def _adapter_words(owner: PageOwner, row: AdapterRow | None) -> str:
    name = row.name if row is not None else "adapter"
    return {PageOwner.PINNED: f"{name}  PINNED", PageOwner.COPYING: f"copying in {name}"}.get(owner, name)


def _pair(fact: tuple[str, str], width: int) -> list[Part]:
    name, value = fact
    return [(name, "$dim"), (value.rjust(max(width - len(name), len(value) + 1)), "$foreground")]


def _two(left: tuple[str, str], right: tuple[str, str], width: int) -> list[Part]:
    half = (width - 2) // 2
    return [*_pair(left, half), ("  ", "$foreground"), *_pair(right, width - half - 2)]


def _host(gauges: Gauges, budget_bytes: int, width: int, ascii_only: bool) -> list[Part]:
    value = f" {size(gauges.host_bytes)} of {size(budget_bytes)}"
    name = "host copies "
    share = gauges.host_bytes / budget_bytes if budget_bytes else 0.0
    done, rest = progress(share, max(width - len(name) - len(value), 0), ascii_only)
    return [(name, "$dim"), (done, "$secondary"), (rest, "$free"), (value, "$foreground")]


def _last_swap(event: EngineEvent | None, width: int) -> list[Part]:
    if event is None:
        return _pair(("last swap", DASH), width)
    duration_ms = event.duration_ns / NS_PER_MS
    value = f"{size(event.bytes)}  {milliseconds(duration_ms)}"
    room = max(width - len("last swap  ") - len(value) - 2, 4)
    return [
        ("last swap  ", "$dim"),
        (f"{event.adapter[:room]:<{room}}", "$foreground"),
        (f"  {value}", "bold $primary"),
    ]
