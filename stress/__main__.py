"""``python -m stress``: the spec as one line of JSON on stdin, messages as JSON lines on stdout.

With ``--stop-on-eof`` the end of stdin stops the run: whoever started it lets go, or is dead.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import msgspec

from stress import open_files
from stress.load_generator import LoadGenerator
from stress.metrics import StressMessage
from stress.spec import SpecError, StressSpec


def main() -> int:
    line = sys.stdin.buffer.readline()
    try:
        spec = msgspec.json.decode(line, type=StressSpec).checked()
    except (msgspec.MsgspecError, SpecError) as error:
        sys.stderr.write(f"stress: {error}\n")
        return 2
    open_files.allow(spec.workers)
    try:
        asyncio.run(_run(spec, stop_on_eof="--stop-on-eof" in sys.argv[1:]))
    except BrokenPipeError:
        # Nobody reads any more; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


async def _run(spec: StressSpec, stop_on_eof: bool) -> None:
    encoder = msgspec.json.Encoder()

    def emit(message: StressMessage) -> None:
        sys.stdout.buffer.write(encoder.encode(message) + b"\n")
        sys.stdout.buffer.flush()

    generator = LoadGenerator(spec, emit)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, generator.stop, "stopped by a signal")
    if stop_on_eof:

        def on_stdin() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                loop.remove_reader(sys.stdin.fileno())
                generator.stop("stopped by the operator")

        loop.add_reader(sys.stdin.fileno(), on_stdin)
    await generator.run()


if __name__ == "__main__":
    sys.exit(main())
