from __future__ import annotations

import resource
from collections import Counter

import msgspec
import pytest

from stress.scenarios import PRESETS, TooFewAdaptersError, adapter_words, departures, preset_spec
from stress.spec import SpecError, StressSpec
from stress.sse import SseReader
from stress.workload import plan, plan_hash, probabilities

NAMES = tuple(f"tenant-adapter-{index:03d}" for index in range(100))
URL = "http://127.0.0.1:8000"


def test_presets_are_the_articles() -> None:
    for name, requests in (("article-500", 500), ("article-5000", 5000)):
        spec = preset_spec(name, URL, "base", NAMES)
        assert (spec.requests, spec.workers, spec.max_tokens, spec.temperature) == (requests, 200, 128, 0.2)
        assert spec.adapters == NAMES
        assert spec.assignment == "uniform"
    spec = preset_spec("article-cpu", URL, "base", NAMES)
    assert (spec.requests, spec.workers, spec.max_tokens, spec.adapter_count) == (100, 16, 16, 16)
    assert spec.adapters == NAMES[:16]


def test_a_preset_runs_as_asked_or_not_at_all() -> None:
    with pytest.raises(TooFewAdaptersError, match=r"^article-cpu asks for 16 adapters, the engine knows 2$") as refused:
        preset_spec("article-cpu", URL, "base", ["b", "a"])
    assert (refused.value.missing, refused.value.there) == (14, ("a", "b"))
    fewer = preset_spec("article-cpu", URL, "base", ["b", "a"], accept_fewer=True)
    assert (fewer.adapters, fewer.adapter_count) == (("a", "b"), 16)
    assert departures(fewer) == ["2 adapters instead of 16"]
    with pytest.raises(TooFewAdaptersError):  # none at all is no smaller test of adapters
        preset_spec("article-cpu", URL, "base", [], accept_fewer=True)
    base = preset_spec("article-cpu", URL, "base", [], changes={"adapter_count": 0})
    assert departures(base) == ["0 adapters instead of 16"]
    assert adapter_words(base) == "no adapter, the base model"
    assert departures(preset_spec("article-cpu", URL, "base", NAMES)) == []


def test_only_chooses_by_name_and_tenants_come_first() -> None:
    names = ["acme", "zeta", *NAMES[:20]]
    mixed = preset_spec("article-cpu", URL, "base", names, changes={"adapter_count": 21})
    assert mixed.adapters == (*NAMES[:20], "acme")
    assert adapter_words(mixed) == "21 adapters (tenant-adapter-000 ... acme)"
    only = preset_spec("article-cpu", URL, "base", names, changes={"adapter_count": 1, "only": "z*a"})
    assert only.adapters == ("zeta",)
    with pytest.raises(TooFewAdaptersError, match=r"knows 10 named like 'tenant-adapter-00\*'"):
        preset_spec("article-cpu", URL, "base", names, changes={"only": "tenant-adapter-00*"})
    with pytest.raises(SpecError, match="no adapter of this engine is named like that"):
        preset_spec("article-cpu", URL, "base", names, changes={"only": "nobody-*"})


def test_workers_without_a_request() -> None:
    fewer = preset_spec("article-cpu", URL, "base", NAMES, changes={"requests": 7})
    assert (fewer.workers, departures(fewer)) == (7, ["7 requests instead of 100", "7 workers instead of 16"])
    with pytest.raises(SpecError, match="workers is 9: 7 requests keep 7 busy at most"):
        preset_spec("article-cpu", URL, "base", NAMES, changes={"requests": 7, "workers": 9})


def test_workers_over_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, 100))
    with pytest.raises(SpecError, match="workers is 200: 36 connections are this user's limit"):
        preset_spec("article-500", URL, "base", NAMES)


def test_plan_depends_on_the_seed_alone() -> None:
    spec = preset_spec("article-500", URL, "base", NAMES)
    other = msgspec.structs.replace(spec, seed=2)
    assert plan(spec) == plan(spec)
    assert plan(spec) != plan(other)
    assert plan_hash(spec) == plan_hash(msgspec.structs.replace(spec, base_url="http://elsewhere", workers=3))
    assert plan_hash(spec) != plan_hash(other)
    assert set(plan(spec)) <= set(NAMES)


def test_laws() -> None:
    spec = preset_spec("article-5000", URL, "base", NAMES)
    in_turn = msgspec.structs.replace(spec, assignment="round_robin")
    assert set(Counter(plan(in_turn)).values()) == {50}
    zipf = msgspec.structs.replace(spec, assignment="zipf", zipf_s=1.0)
    assert probabilities(zipf)[0] == pytest.approx(0.193, abs=0.001)
    assert sum(probabilities(zipf)) == pytest.approx(1)
    assert Counter(plan(zipf)).most_common(1)[0][0] == NAMES[0]
    assert plan(msgspec.structs.replace(spec, adapters=())) == [""] * 5000


@pytest.mark.parametrize(("change", "word"), [
    ({"requests": 0}, "requests"), ({"workers": 0}, "workers"), ({"base_url": "ftp://x"}, "base_url"),
    ({"model": "", "adapters": ()}, "neither"), ({"adapters": ("a", "a")}, "twice"), ({"timeout_s": 0.0}, "timeout_s"),
    ({"model": "", "warm_up": "base"}, "base model"), ({"prompt": ""}, "prompt"), ({"zipf_s": -1.0}, "zipf_s"),
    ({"temperature": 3.0}, "temperature"), ({"timeout_s": float("nan")}, "timeout_s"),
])  # fmt: skip
def test_bad_specs_are_refused_by_name(change: dict[str, object], word: str) -> None:
    good = preset_spec("article-cpu", URL, "base", NAMES)
    with pytest.raises(SpecError, match=word):
        msgspec.structs.replace(good, **change).checked()


def test_unknown_preset_names_the_known() -> None:
    with pytest.raises(SpecError, match=", ".join(PRESETS)):
        preset_spec("article", URL, "base", NAMES)


def test_spec_keeps_no_secret() -> None:
    spec = StressSpec(scenario="x", requests=1, workers=1, max_tokens=1, base_url=URL, model="m", api_key="secret")
    assert b"secret" not in msgspec.json.encode(spec.public())


def test_events_come_out_whole_however_they_are_cut() -> None:
    raw = b': keep-alive\n\ndata: {"a":1}\r\n\r\nevent: x\ndata: one\ndata: two\n\ndata:[DONE]\n\nda'
    for size in range(1, len(raw)):
        reader = SseReader()
        found = [event for at in range(0, len(raw), size) for event in reader.push(raw[at : at + size])]
        assert found == [b'{"a":1}', b"one\ntwo", b"[DONE]"]
        assert reader.incomplete
