"""The console over an engine of its own."""

from __future__ import annotations

from pathlib import Path

from console.app import run_console
from console.options import ConsoleOptions
from engine.config import EngineConfig
from engine.supervisor import EngineSupervisor


def launch_console(config: EngineConfig, database_path: Path, state_dir: Path, options: ConsoleOptions) -> int:
    supervisor = EngineSupervisor(config, state_dir)
    return run_console(supervisor, config.base_url, config.api_key, database_path, state_dir, options)
