"""``loraconsole status``: the overview in a dozen lines of plain text."""

from __future__ import annotations

from console.format import count, milliseconds, percent, size
from console.words import TIER_ORDER, load_words, pool_words, tier_word
from engine.messages import Snapshot


def status_lines(snapshot: Snapshot) -> list[str]:
    info, gauges = snapshot.info, snapshot.gauges
    tiers = dict.fromkeys(TIER_ORDER, 0)
    for row in snapshot.adapters:
        tiers[row.tier] += 1
    held = " / ".join(f"{tiers[tier]} {tier_word(tier, info)}" for tier in TIER_ORDER)
    asked = gauges.hits_total + gauges.misses_total
    latencies = sorted(row.last_swap_ms for row in snapshot.adapters if row.last_swap_ms is not None)
    last = f", last swaps {milliseconds(latencies[0])} to {milliseconds(latencies[-1])}" if latencies else ""
    return [
        f"engine      {info.engine} {info.version}, {info.model} ({info.dtype}) on {info.device_name}",
        f"requests    {gauges.running} running, {gauges.waiting} waiting; {count(gauges.finished_total)} finished, "
        f"{count(gauges.failed_total)} failed, {count(gauges.aborted_total)} aborted",
        f"pool        {pool_words(info)}, {size(info.num_pages * info.page_bytes)}: {gauges.kv_pages} pages KV, "
        f"{gauges.adapter_pages} adapters, {gauges.free_pages} free",
        f"adapters    {len(snapshot.adapters)}: {held}",
        f"residency   {count(gauges.hits_total)} hits of {count(asked)} "
        f"({percent(gauges.hits_total / asked if asked else None)}), {count(gauges.evictions_total)} evictions",
        f"swaps       {count(gauges.loads_total)} by {load_words(info)}, {size(gauges.load_bytes_total)}{last}",
        f"tokens      {count(gauges.prompt_tokens_total)} read, {count(gauges.generated_tokens_total)} generated, "
        f"last step {milliseconds(gauges.step_ms)}",
    ]
