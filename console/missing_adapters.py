"""Random adapters for a test that asks for more than the engine knows: can they be made here, and making them."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from console import paths
from engine.errors import EngineError
from engine.messages import EngineInfo
from engine.model_folder import read_shape
from engine.modelled_executor import MODELLED_SHAPE
from engine.shape import ModelShape
from stress.scenarios import TENANT_PREFIX, TooFewAdaptersError

RANK = 16  # the article's


def can_make(error: TooFewAdaptersError, info: EngineInfo) -> bool:
    """Not for an engine whose model lies on another machine, nor where the test wants other names."""
    fits = not error.only or fnmatchcase(f"{TENANT_PREFIX}000", error.only)
    return fits and _shape(info) is not None


def make_missing(count: int, info: EngineInfo, on_progress: Callable[[int, int], None]) -> list[Path]:
    """Blocks. Numbers go on after the tenants that exist. Raises AdapterError or OSError."""
    from engine.random_adapters import make_adapters, next_number  # NumPy: not at the start of a console

    shape = _shape(info)
    assert shape is not None
    out = folder(info)
    first = next_number(out, TENANT_PREFIX)
    return make_adapters(out, shape, count, RANK, TENANT_PREFIX, first=first, on_progress=on_progress)


def folder(info: EngineInfo) -> Path:
    """Where engines that are started here look for adapters of this model."""
    return paths.adapters_dir(Path(info.model_path).name if info.model_path else info.model)


def ways_on(error: TooFewAdaptersError, info: EngineInfo, url: str) -> list[str]:
    """Commands, for who reads the refusal in a shell."""
    from engine.random_adapters import next_number

    lines = []
    if can_make(error, info) and info.model_path:
        first = next_number(folder(info), TENANT_PREFIX)
        start = f" --first {first}" if first else ""
        lines.append(
            f"make the missing ones: loraconsole adapters make --count {error.missing}{start} "
            f"--model {info.model_path} --add --url {url}"
        )
    if error.there:
        lines.append(f"run over those that are there, which is another test: --adapters {len(error.there)}")
    else:
        lines.append("run on the base model alone, which is another test: --adapters 0")
    return lines


def _shape(info: EngineInfo) -> ModelShape | None:
    if info.engine == "sim":
        return MODELLED_SHAPE
    try:
        return read_shape(Path(info.model_path), element_bytes=2)
    except (EngineError, OSError):
        return None
