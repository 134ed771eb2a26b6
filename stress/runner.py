"""Starts the load generator as its own process and follows it to its end, whatever that end is."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

import msgspec

from stress.metrics import Done, Outcome, RecordBatch, RequestRecord, StressMessage, StressSummary
from stress.spec import StressSpec
from stress.statistics import summarize

# After a cancel: as long as a polite end may take before the process is killed.
_POLITE_S = 1.0
_LINE_BYTES = 64 << 20
_STDERR_KEPT = 2000
_MESSAGES = msgspec.json.Decoder(StressMessage)


async def run_stress(
    spec: StressSpec, on_message: Callable[[StressMessage], None], cancel: asyncio.Event
) -> StressSummary:
    """Runs ``spec`` to its end, to ``cancel``, or to the death of the load generator; always with a summary.

    ``on_message`` gets everything the load generator says, in order. Raises SpecError for a spec that can't run,
    and whatever ``on_message`` raises, after the process has ended. If this task is cancelled, so is the run.
    """
    spec = spec.checked()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "stress", "--stop-on-eof",  # -P: never a folder that lies here by that name
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES, start_new_session=True,  # a Ctrl+C in the terminal is ours to handle
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    records: list[RequestRecord] = []
    stderr = asyncio.create_task(process.stderr.read())
    stopper = asyncio.create_task(_stop_when(cancel, process))
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(msgspec.json.encode(spec) + b"\n")
            await process.stdin.drain()
        done = await _follow(process, records, on_message)
        await process.wait()
        complaint = (await stderr).decode(errors="replace").strip()[-_STDERR_KEPT:]
    finally:
        stopper.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
        process.stdin.close()
        await asyncio.gather(stderr, stopper, return_exceptions=True)
    if done is None:
        outcome, reason = _without_end(cancel, process.returncode, complaint)
        return summarize(records, spec.requests, outcome, reason)
    return summarize(records, spec.requests, done.outcome, done.reason, done.lag_p99_ms, done.lag_max_ms)


async def _follow(
    process: asyncio.subprocess.Process, records: list[RequestRecord], on_message: Callable[[StressMessage], None]
) -> Done | None:
    assert process.stdout is not None
    done: Done | None = None
    while line := await process.stdout.readline():
        if not line.endswith(b"\n"):
            break  # it died while it wrote
        message = _MESSAGES.decode(line)
        if isinstance(message, RecordBatch):
            records.extend(message.records)
        elif isinstance(message, Done):
            done = message
        on_message(message)
    return done


async def _stop_when(cancel: asyncio.Event, process: asyncio.subprocess.Process) -> None:
    await cancel.wait()
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_POLITE_S):
            await process.wait()
    except TimeoutError:
        process.kill()


def _without_end(cancel: asyncio.Event, status: int | None, complaint: str) -> tuple[Outcome, str]:
    if cancel.is_set():
        return "interrupted", "stopped by the operator"
    how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
    return "interrupted", f"the load generator ended with {how}{': ' + complaint.splitlines()[-1] if complaint else ''}"
