"""What tests of several packages need: the default model, fetched once a machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from engine.default_model import ensure_default_model


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model's Hugging Face folder, in the cache that ``loraconsole launch`` uses too."""
    given = os.environ.get("LORACONSOLE_CACHE_DIR")
    cache_dir = Path(given) if given else platformdirs.user_cache_path("loraconsole")
    return ensure_default_model(cache_dir, lambda _stage, _done, _total: None)
