"""From the options of the command line to an engine's configuration: fetches the default model where none is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from console import paths
from console.engine_options import api_key
from console.output import talk
from engine.config import EngineConfig
from engine.modelled_executor import MODELLED_NAME


def engine_config(
    engine: str, model: Path | None, adapter_dirs: tuple[Path, ...], demo_adapters: bool, **rest: Any
) -> EngineConfig:
    """Raises ConfigError. Shows the progress of a download on stderr."""
    roots = [str(path.expanduser().absolute()) for path in adapter_dirs]
    folder = model.expanduser().absolute() if model is not None else None
    if engine == "unified" and folder is None:
        folder = default_model()
        if demo_adapters:
            from engine.demo_adapters import demo_adapter_dir

            roots.append(str(demo_adapter_dir()))
    if demo_adapters:
        roots += _made_here(folder.name if folder is not None else MODELLED_NAME)
    values: dict[str, Any] = {
        "engine": engine,
        "model": str(folder or ""),
        "adapter_dirs": tuple(roots),
        "api_key": api_key(),
    }
    return EngineConfig(**values | rest).checked()


def _made_here(model_name: str) -> list[str]:
    """The root of adapters that are made here for this model, now or while the engine runs."""
    made = paths.adapters_dir(model_name)
    try:
        made.mkdir(parents=True, exist_ok=True)
    except OSError:
        return []  # a data folder that can't be written: then none can be made either
    return [str(made)]


def default_model() -> Path:
    """The default model's folder, after fetching it with a progress bar if it is not there yet."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from engine.default_model import ensure_default_model

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=talk(), transient=True) as progress:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=None)
            progress.update(tasks[stage], completed=done, total=total or None)

        return ensure_default_model(paths.cache_dir(), report)
