from __future__ import annotations

from pathlib import Path

import pytest

from console.stress_plan import plan
from engine.demo_adapters import demo_adapter_dir
from engine.modelled_executor import MODELLED_SHAPE
from engine.random_adapters import make_adapters
from stress.scenarios import TooFewAdaptersError
from stress.spec import ARTICLE_PROMPT, SpecError
from tests.running_engine import running_engine


async def test_a_preset_takes_the_tenants_first_and_as_many_as_asked(tmp_path: Path) -> None:
    make_adapters(tmp_path / "adapters", MODELLED_SHAPE, 30, 4)
    roots = (str(demo_adapter_dir()), str(tmp_path / "adapters"))
    async with running_engine(tmp_path / "state", adapter_dirs=roots) as engine:
        default = await plan(engine.client, "article-cpu", "", {})
        assert default.adapters == tuple(f"tenant-adapter-{n:03d}" for n in range(16))
        more = await plan(engine.client, "article-cpu", "", {"adapter_count": 33, "requests": 7, "seed": None})
        assert (len(more.adapters), more.adapter_count, more.requests, more.seed) == (33, 33, 7, 1234)
        assert more.asked == {"requests": 100, "workers": 16, "adapters": 16}
        assert more.adapters[30:] == ("acme-support", "contract-clause", "finance-risk")
        base = await plan(engine.client, "article-cpu", "", {"adapter_count": 0})
        assert base.adapters == ()
        assert base.model == "modelled"
        with pytest.raises(SpecError, match="no preset"):
            await plan(engine.client, "nothing", "", {})
        with pytest.raises(TooFewAdaptersError, match="article-5000 asks for 100 adapters, the engine knows 34"):
            await plan(engine.client, "article-5000", "", {})


async def test_what_the_engine_would_refuse_or_cut_short_is_refused(tmp_path: Path) -> None:
    roots = (str(demo_adapter_dir()),)
    async with running_engine(tmp_path, adapter_dirs=roots, max_model_len=256, max_seqs=4, max_waiting=4) as engine:
        four = {"adapter_count": 4, "workers": 8}
        prompt = await engine.client.count_tokens([{"role": "user", "content": ARTICLE_PROMPT}])
        assert (await plan(engine.client, "article-cpu", "", four | {"max_tokens": 256 - prompt})).workers == 8
        with pytest.raises(SpecError, match=f"longest sequence of this engine is 256 .* so {256 - prompt} at most"):
            await plan(engine.client, "article-cpu", "", four | {"max_tokens": 257 - prompt})
        with pytest.raises(SpecError, match="workers is 9: this engine takes 8 requests at a time"):
            await plan(engine.client, "article-cpu", "", four | {"workers": 9})
