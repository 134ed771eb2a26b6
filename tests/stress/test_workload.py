from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from stress.spec import PRESETS, SpecError, StressSpec, preset_spec
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


def test_preset_takes_the_adapters_that_there_are() -> None:
    assert preset_spec("article-cpu", URL, "base", ["b", "a"]).adapters == ("a", "b")
    assert preset_spec("article-cpu", URL, "base", []).adapter_count == 0


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
