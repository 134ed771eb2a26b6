"""``python -m tests.bench.help_time``: how long ``loraconsole --help`` takes, median of ten; at most 0.3 s."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

AIM_S = 0.3


def main() -> int:
    command = Path(sys.executable).with_name("loraconsole")
    program = str(command) if command.exists() else shutil.which("loraconsole")
    assert program, "loraconsole is not installed"
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    seconds = statistics.median(times)
    sys.stdout.write(f"loraconsole --help: {seconds:.3f} s (aim {AIM_S} s) {'ok' if seconds <= AIM_S else 'MISSED'}\n")
    return 0 if seconds <= AIM_S else 1


if __name__ == "__main__":
    sys.exit(main())
