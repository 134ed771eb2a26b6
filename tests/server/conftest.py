from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from engine.demo_adapters import demo_adapter_dir
from tests.running_engine import RunningEngine, running_engine, served_engine


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[RunningEngine]:
    """The modelled engine with the demo adapters."""
    async with running_engine(tmp_path, adapter_dirs=(str(demo_adapter_dir()),), max_model_len=1024) as running:
        yield running


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one modelled engine that all tests of the module share."""
    config = {"adapter_dirs": (str(demo_adapter_dir()),), "max_model_len": 1024}
    with (
        served_engine(tmp_path_factory.mktemp("engine"), **config) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=10) as client,
    ):
        yield client
