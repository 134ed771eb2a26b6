from __future__ import annotations

from pathlib import Path

import pytest

from engine.adapters import Place
from engine.modelled_executor import MODELLED_SHAPE
from engine.random_adapters import make_adapters
from tests.engine.core_harness import Harness


def test_a_request_on_the_base_model_is_answered() -> None:
    h = Harness()
    answer = h.request("r", max_tokens=5)
    h.run()
    assert len(answer.tokens) == 5
    assert answer.finish == "length"
    assert answer.timing is not None
    assert answer.timing.residency == "base"
    assert answer.timing.prompt_tokens == 8
    assert 0 < answer.timing.scheduled_ns <= answer.timing.first_token_ns <= answer.timing.finished_ns


def test_residency_is_cold_then_hit_then_warm() -> None:
    h = Harness()
    h.register("a")
    seen = []
    for number in range(3):
        answer = h.request(f"r{number}", "a")
        h.run()
        assert answer.timing is not None
        seen.append(answer.timing.residency)
        if number == 1:
            assert h.code("evict", "a") == ""
    assert seen == ["cold", "hit", "warm"]
    row = h.core.table.get("a").row(0)
    assert (row.hits, row.misses, row.loads, row.evictions) == (1, 2, 2, 1)


def test_the_phases_of_a_swap_add_up_to_its_duration() -> None:
    h = Harness()
    h.register("a")
    h.request("r", "a")
    h.run()
    (load,) = h.events_of("load")
    assert load.duration_ns == load.queue_ns + load.disk_ns + load.copy_ns
    assert load.disk_ns > 0
    assert load.copy_ns > 0
    assert load.by == "request"
    assert load.pages == 3


def test_a_request_waits_for_its_adapter_while_others_run() -> None:
    h = Harness()
    h.register("a", rank=64)
    slow = h.request("slow", "a", max_tokens=1)
    quick = h.request("quick", max_tokens=1)
    h.run(lambda: quick.finish is not None)
    assert slow.finish is None
    h.run()
    assert slow.finish == "length"


def test_a_starving_request_is_no_longer_overtaken() -> None:
    """Base requests keep all of the pool's free pages busy; the large adapter gets in nevertheless."""
    h = Harness(num_pages=12, starvation_ms=100, kv_floor=0.1)
    h.register("large", rank=64)
    running = 0
    for running in range(60):
        h.request(f"before{running}", prompt=100, max_tokens=60)
    h.run(lambda: h.core.pool.free_pages < 3)
    starving = h.request("starving", "large", max_tokens=1)
    late = [h.request(f"late{number}", prompt=100, max_tokens=60) for number in range(200)]
    h.run(lambda: starving.finish is not None)
    assert sum(answer.finish is None for answer in late) > 150
    h.run()
    assert all(answer.finish == "length" for answer in late)


def test_the_youngest_is_preempted_and_loses_nothing() -> None:
    alone = Harness(num_pages=4)
    expected = alone.request("r7", prompt=16, max_tokens=150, seed=7)
    alone.run()
    h = Harness(num_pages=4)
    answers = [h.request(f"r{n}", prompt=16, max_tokens=150, seed=7) for n in range(8)]
    h.run()
    assert h.core.scheduler.preemptions > 0
    assert all(answer.tokens == expected.tokens for answer in answers)
    first, *_ = h.events_of("preempt")
    assert first.detail.startswith("r")
    assert sum(answer.timing.preemptions for answer in answers if answer.timing) == h.core.scheduler.preemptions


def test_idle_adapters_leave_for_kv_before_anyone_is_preempted() -> None:
    h = Harness(num_pages=8, kv_floor=0.25)
    for name in ("a", "b"):
        h.register(name)
        h.request(name, name)
    h.run()
    assert h.core.pool.adapter_pages == 5  # two whole pages each, and one that their tails share
    for number in range(5):
        h.request(f"r{number}", prompt=100, max_tokens=70)
    h.run()
    assert h.core.scheduler.preemptions == 0
    evictions = h.events_of("evict")
    assert evictions
    assert all(event.by == "policy" for event in evictions)
    assert "KV" in evictions[0].detail


def test_a_member_of_the_batch_is_never_a_victim() -> None:
    """Three adapters, room for two, round robin: whoever runs stays until it is done."""
    h = Harness(num_pages=8, kv_floor=0.25)
    for name in "abc":
        h.register(name)
    answers = [h.request(f"{name}{n}", name, max_tokens=6) for n in range(4) for name in "abc"]
    while not h.core.drained():
        before = {adapter.name for adapter in h.core.table if adapter.running}
        h.core.tick()
        h.core.check_integrity()
        assert all(h.core.table.get(name).pool is Place.HERE or not h.core.table.get(name).running for name in before)
    assert all(answer.finish == "length" for answer in answers)
    # Grouped by adapter, each is loaded once or twice, not once a request.
    assert h.core.residency.counters.loads <= 5


def test_compaction_makes_whole_pages_for_an_adapter() -> None:
    """Requests of one block each, every tenth goes on: their blocks are spread thinly over many pages."""
    h = Harness(num_pages=12, kv_floor=0.1, starvation_ms=10)
    h.register("a")
    blocks = 12 * h.core.pool.blocks_per_page
    long = []
    for number in range(60):
        goes_on = number % 10 == 0
        answer = h.request(f"r{number}", prompt=8, max_tokens=100 if goes_on else 8)
        if goes_on:
            long.append(answer)
    assert blocks > 60
    h.run(lambda: h.core.scheduler.num_running == 6)
    h.command("load", "a")
    moved = False
    while not h.core.drained():
        h.core.tick()
        moved = moved or bool(h.core._moved)
        h.core.check_integrity()
    assert all(answer.finish == "length" for answer in long)
    assert h.core.table.get("a").pool is Place.HERE


def test_what_can_never_fit_is_refused_at_once() -> None:
    h = Harness()
    answer = h.request("r", prompt=170, max_tokens=7)
    assert answer.failed is not None
    assert answer.failed.code == "context_length_exceeded"
    assert "170 in the prompt and 7 to generate" in answer.failed.message


def test_a_full_line_refuses() -> None:
    h = Harness(max_waiting=2)
    answers = [h.request(f"r{n}") for n in range(3)]
    assert [answer.failed.code if answer.failed else "" for answer in answers] == ["", "", "overloaded"]
    h.run()
    assert answers[1].finish == "length"


def test_an_unknown_adapter_fails_alone() -> None:
    h = Harness()
    bad, good = h.request("bad", "nobody"), h.request("good")
    h.run()
    assert bad.failed is not None
    assert bad.failed.code == "adapter_not_found"
    assert good.finish == "length"


@pytest.mark.parametrize("ticks", [0, 1, 2, 5])
def test_an_aborted_request_gives_everything_back(ticks: int) -> None:
    from engine.messages import AbortRequest

    h = Harness()
    h.register("a")
    answer = h.request("r", "a", max_tokens=100)
    for _ in range(ticks):
        h.core.tick()
    h.core.handle(AbortRequest("r"))
    h.run()
    assert answer.finish == "abort"
    assert h.core.pool.kv_pages == 0
    h.core.check_integrity()


def test_host_budget_drops_the_longest_unused_image() -> None:
    h = Harness(num_pages=40, host_mib=25)  # two images of 10 MiB
    for name in "abc":
        h.register(name)
        h.request(name, name)
        h.run()
    assert [adapter.host for adapter in h.core.table] == [Place.ABSENT, Place.HERE, Place.HERE]
    assert h.code("evict", "a") == ""
    assert h.core.table.get("a").tier == "disk"


class TestCommands:
    def test_pin_loads_and_protects(self) -> None:
        h = Harness(num_pages=8)
        for name in "abc":
            h.register(name)
        assert h.code("pin", "a") == ""
        h.run()
        for name in "bcbc":
            h.request(f"{name}{h.executor.now_ns()}", name)
            h.run()
        assert h.core.table.get("a").pool is Place.HERE
        assert h.core.table.get("a").evictions == 0
        assert {event.adapter for event in h.events_of("evict")} == {"b", "c"}

    def test_pins_must_leave_room_for_the_largest_of_the_rest(self) -> None:
        h = Harness(num_pages=8)  # 6 pages for adapters, 3 each
        for name in "abc":
            h.register(name)
        assert h.code("pin", "a") == ""
        h.run()
        result = h.results[h.command("pin", "b")]
        assert result.code == "adapter_too_large"
        assert "would leave 0 of the 6 pages for adapters, and 'c' needs 3" in result.message
        assert h.code("unpin", "a") == ""
        assert h.code("pin", "b") == ""

    def test_a_busy_adapter_is_neither_evicted_nor_forgotten(self) -> None:
        h = Harness()
        h.register("a")
        h.request("r", "a", max_tokens=50)
        h.run(lambda: h.core.table.get("a").running == 1)
        assert h.code("evict", "a") == "adapter_busy"
        assert h.code("unload", "a") == "adapter_busy"
        h.run()
        assert h.code("unload", "a") == ""
        assert len(h.core.table) == 0
        assert h.core.pool.free_pages == 20
        h.flush_telemetry()
        assert h.state.adapters == {}

    def test_the_operator_may_evict_what_is_pinned(self) -> None:
        h = Harness()
        h.register("a")
        h.command("pin", "a")
        h.run()
        assert h.code("evict", "a") == ""
        adapter = h.core.table.get("a")
        assert not adapter.pinned
        assert adapter.tier == "host"

    def test_load_is_idempotent(self) -> None:
        h = Harness()
        h.register("a")
        assert [h.code("load", "a") for _ in range(3)] == ["", "", ""]
        h.run()
        assert h.core.residency.counters.loads == 1
        assert h.code("load", "a") == ""
        h.run()
        assert h.core.residency.counters.loads == 1


def test_telemetry_rebuilds_the_state() -> None:
    h = Harness(num_pages=10)
    for name in "abcd":
        h.register(name)
    for number in range(40):
        h.request(f"r{number}", "abcd"[number % 4], prompt=40, max_tokens=20)
    h.run()
    h.flush_telemetry()
    core, state = h.core, h.state
    assert state.pages == [core.pool.page_state(page) for page in range(10)]
    assert state.gauges.finished_total == 40
    assert state.gauges.hits_total + state.gauges.misses_total == 40
    assert state.gauges.hits_total == sum(row.hits for row in state.adapters.values())
    assert state.gauges.loads_total == sum(event.kind == "load" for event in h.events)
    assert state.gauges.evictions_total == sum(event.kind == "evict" for event in h.events)
    assert state.gauges.loads_total == sum(row.loads for row in state.adapters.values())
    assert state.gauges.generated_tokens_total == 800
    assert state.gauges.prompt_tokens_total == 1600


def test_the_last_change_is_told_at_once_and_not_with_the_next_heartbeat() -> None:
    h = Harness()
    h.request("r", max_tokens=3)
    h.run()
    assert h.core.idle_wait_s() <= 0.1
    h.executor.sleep_until(h.executor.now_ns() + int(h.core.idle_wait_s() * 1e9) + 1)
    h.core.tick()
    assert h.state.gauges.finished_total == 1
    assert h.state.gauges.kv_pages == 0
    assert h.core.idle_wait_s() > 0.5


def test_an_add_that_waits_for_the_host_is_always_answered(tmp_path: Path) -> None:
    """By the read, or by whoever unloads the adapter before there was room to read it."""
    make_adapters(tmp_path, MODELLED_SHAPE, 3, 16)
    h = Harness(adapter_dirs=(str(tmp_path),), host_mib=1)
    names = [f"tenant-adapter-{n:03d}" for n in range(3)]
    assert {adapter.name for adapter in h.core.table} == set(names)
    first = h.command("add", "again", str(tmp_path / names[0]), wait_host=True)
    second = h.command("add", "waits", str(tmp_path / names[1]), wait_host=True)
    h.core.tick()
    assert first not in h.results
    assert h.code("unload", "waits") == ""
    assert h.results[second].code == "adapter_not_found"
    h.run()
    assert h.results[first].code == ""
    h.core.check_integrity()
