"""Where things live. Each folder can be moved by an environment variable; nothing is created before it is used."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_APP = "loraconsole"


def _folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser().absolute()


def cache_dir() -> Path:
    """The default model: can be fetched again."""
    return _folder("LORACONSOLE_CACHE_DIR", platformdirs.user_cache_dir(_APP))


def state_dir() -> Path:
    """The engine's log, its configuration, locks."""
    return _folder("LORACONSOLE_STATE_DIR", platformdirs.user_state_dir(_APP))


def data_dir() -> Path:
    """What is worth a backup: history and adapters that were made here."""
    return _folder("LORACONSOLE_DATA_DIR", platformdirs.user_data_dir(_APP))


def database_path() -> Path:
    return data_dir() / "history.db"


def adapters_dir(model_name: str) -> Path:
    """Adapters made for this model: they fit no other."""
    return data_dir() / "adapters" / model_name
