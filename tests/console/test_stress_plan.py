from __future__ import annotations

from pathlib import Path

import pytest

from console.stress_plan import plan
from engine.demo_adapters import demo_adapter_dir
from engine.modelled_executor import MODELLED_SHAPE
from engine.random_adapters import make_adapters
from stress.spec import SpecError
from tests.running_engine import running_engine


async def test_a_preset_takes_the_tenants_first_and_as_many_as_asked(tmp_path: Path) -> None:
    make_adapters(tmp_path / "adapters", MODELLED_SHAPE, 30, 4)
    roots = (str(demo_adapter_dir()), str(tmp_path / "adapters"))
    async with running_engine(tmp_path / "state", adapter_dirs=roots) as engine:
        default = await plan(engine.client, "article-cpu", "", {})
        assert default.adapters == tuple(f"tenant-adapter-{n:03d}" for n in range(16))
        more = await plan(engine.client, "article-cpu", "", {"adapter_count": 33, "requests": 7, "seed": None})
        assert (len(more.adapters), more.adapter_count, more.requests, more.seed) == (33, 33, 7, 1234)
        assert more.adapters[30:] == ("acme-support", "contract-clause", "finance-risk")
        base = await plan(engine.client, "article-cpu", "", {"adapter_count": 0})
        assert base.adapters == ()
        assert base.model == "modelled"
        with pytest.raises(SpecError, match="no preset"):
            await plan(engine.client, "nothing", "", {})
