from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from engine.adapters import Adapter, AdapterTable, Place, nearest_rank
from engine.eviction import ReloadCost, fewest_victims, victims_in_order
from engine.packing import pack
from tests.engine.synthetic import make_manifest

S = 1_000_000_000


def adapters(*names: str) -> list[Adapter]:
    table = AdapterTable()
    manifests = [make_manifest(name) for name in names]
    found = [table.register(m.folder.name, m, pack(m, 4, 1 << 22)) for m in manifests]
    for adapter in found:
        adapter.pool = adapter.host = Place.HERE
    return found


def order(policy: str, found: list[Adapter], now_ns: int) -> str:
    return "".join(a.name for a in victims_in_order(policy, found, ReloadCost(), now_ns))  # type: ignore[arg-type]


def test_lru_takes_the_longest_unused_and_lfu_the_least_used() -> None:
    a, b = adapters("a", "b")
    for second in range(10):
        a.touch(second * S)
    b.touch(20 * S)
    assert order("lru", [b, a], 21 * S) == "ab"
    assert order("lfu", [b, a], 21 * S) == "ba"


def test_cost_spares_what_must_come_from_disk() -> None:
    a, b = adapters("a", "b")
    a.touch(S)
    b.touch(S)
    a.host = Place.ABSENT
    assert order("cost", [a, b], 2 * S) == "ba"


def test_a_use_counts_half_after_thirty_seconds() -> None:
    (a,) = adapters("a")
    a.touch(0)
    a.touch(0)
    assert a.recent_uses(30 * S) == 1.0
    assert a.recent_uses(60 * S) == 0.5


def test_those_that_requests_wait_for_come_last_and_the_youngest_wait_first() -> None:
    a, b, c = adapters("a", "b", "c")
    a.queue.add(1)
    b.queue.add(2)
    c.touch(9 * S)
    assert order("lru", [a, b, c], 9 * S) == "cba"


@given(sizes=st.lists(st.integers(1, 9), max_size=12), needed=st.integers(0, 60))
def test_victims_suffice_and_none_is_needless(sizes: list[int], needed: int) -> None:
    found = adapters(*(f"a{n}" for n in range(len(sizes))))

    def enough(serials: list[int]) -> bool:
        return sum(sizes[serial] for serial in serials) >= needed

    chosen = fewest_victims(found, enough)
    if chosen is None:
        assert sum(sizes) < needed
        return
    serials = [adapter.serial for adapter in chosen]
    assert enough(serials)
    assert not any(enough([s for s in serials if s != serial]) for serial in serials)


def test_reload_cost_follows_what_it_sees() -> None:
    cost = ReloadCost()
    for _ in range(60):
        cost.saw_copy(ns=2000, size=1000)
    assert abs(cost.copy_ns_per_byte - 2.0) < 0.01


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99]))
def test_nearest_rank(values: list[float], q: float) -> None:
    """The smallest value that at least a share q of all is not above."""
    ascending = sorted(values)
    found = nearest_rank(ascending, q)
    assert found in values
    assert sum(v <= found for v in values) / len(values) >= q - 1e-12
    assert sum(v < found for v in values) / len(values) < q
