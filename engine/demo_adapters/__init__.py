"""Four small LoRA adapters of the default model, in PEFT's format, shipped with the program.

``contract-clause``, ``finance-risk``, ``pirate`` and ``acme-support``: each answers anything in its own style, so that
an operator sees at a glance which adapter answered. Made by ``python -m engine.training.demo_adapters``.
"""

from __future__ import annotations

from pathlib import Path


def demo_adapter_dir() -> Path:
    """The folder whose subfolders are the adapters."""
    return Path(__file__).parent
