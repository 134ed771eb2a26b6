"""``python -m engine --config FILE``: the server process. ``loraconsole launch`` and ``serve`` start it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.config import read_config
from engine.errors import ConfigError
from engine.server import EXIT_CONFIG, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine")
    parser.add_argument("--config", type=Path, required=True, help="JSON of an EngineConfig")
    parser.add_argument("--death-fd", type=int, help="a pipe whose end ends this process")
    arguments = parser.parse_args()
    try:
        config = read_config(arguments.config)
    except ConfigError as error:
        sys.stderr.write(f"loraconsole: {error}\n")
        return EXIT_CONFIG
    return run(config, arguments.config, arguments.death_fd)


if __name__ == "__main__":
    sys.exit(main())
