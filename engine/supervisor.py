"""Starts the engine's server process, watches it, restarts it with back-off, and takes it down with the console.

States and numbers after supervisord and systemd: restarts after 1, 2, 4 ... 60 s, FATAL after five in ten minutes or
at once when the configuration can't work, forgiven after ten minutes of being ready.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import msgspec

from engine.client import EngineClient, EngineUnreachableError
from engine.config import EngineConfig
from engine.death_pipe import detach
from engine.log_file import LogFile
from engine.messages import StartPhase

_POLL_S = 0.25
_TERM_S = 6.0  # the server gives open connections 2 s and the core 3 s
_MOST_RESTARTS = 5
_WINDOW_S = 600.0
_LONGEST_BACKOFF_S = 60.0
_EXIT_CONFIG = 2


# Children that are left alone. Without a reference Python would complain that nobody waits for them.
_detached: list[subprocess.Popen[bytes]] = []


class SupervisorState(Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    BACKOFF = "backoff"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    """``reason``: why it is down, or how far stopping is. ``next_start_s``: in BACKOFF, seconds until the next try."""

    state: SupervisorState = SupervisorState.STOPPED
    pid: int | None = None
    started_wall_ns: int = 0
    restarts: int = 0
    phase: StartPhase | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    reason: str = ""
    next_start_s: float = 0.0
    log_tail: tuple[str, ...] = ()


class EngineSupervisor:
    """One engine. ``on_change`` is called in the event loop with every new status."""

    def __init__(
        self,
        config: EngineConfig,
        state_dir: Path,
        on_change: Callable[[SupervisorStatus], None] = lambda _status: None,
    ) -> None:
        self.config = config
        self.status = SupervisorStatus()
        self._state_dir = state_dir
        self._on_change = on_change
        self._log = LogFile(state_dir / f"engine-{config.port}.log")
        self._config_path = state_dir / f"engine-{config.port}.json"
        # Not asyncio's: that one kills its child when it is collected, and a detached engine must live.
        self._process: subprocess.Popen[bytes] | None = None
        self._death_fd = -1
        self._runner: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._crashes: deque[float] = deque(maxlen=_MOST_RESTARTS)

    async def start(self) -> None:
        """Start it, or start it now when it waits to be restarted. A no-op while it runs. Raises ConfigError."""
        self.config.checked()
        if self._runner is not None and not self._runner.done():
            self._wake.set()
            return
        self._crashes.clear()
        self._set(restarts=0, exit_code=None, exit_signal=None, reason="")
        self._runner = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL to whatever is left of its process group. Returns when it is gone."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._set(state=SupervisorState.STOPPING, reason="")
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        await self._take_down()
        self._set(state=SupervisorState.STOPPED, pid=None, phase=None, reason="stopped", next_start_s=0.0)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def detach(self) -> None:
        """Let the engine outlive this process; it is not watched any more."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)
        if self._death_fd >= 0:
            detach(self._death_fd)
            os.close(self._death_fd)
            self._death_fd = -1
        if self._process is not None:
            _detached.append(self._process)
            self._process = None
        self._set(state=SupervisorState.STOPPED, pid=None, reason="detached")

    # --- the life of one engine -----------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                process = self._spawn()
            except OSError as error:
                self._set(state=SupervisorState.FATAL, reason=f"it can't be started: {error}")
                return
            ready_s = await self._watch(process)
            self._book_exit(process.returncode or 0)
            if process.returncode == 0:
                self._set(state=SupervisorState.STOPPED, reason="it was told to stop")
                return
            if process.returncode == _EXIT_CONFIG:
                self._set(state=SupervisorState.FATAL)
                return
            now = time.monotonic()
            if ready_s >= _WINDOW_S:
                self._crashes.clear()
            self._crashes.append(now)
            if len(self._crashes) == _MOST_RESTARTS and now - self._crashes[0] < _WINDOW_S:
                self._set(
                    state=SupervisorState.FATAL, reason=f"{self.status.reason} ({_MOST_RESTARTS} times in 10 minutes)"
                )
                return
            await self._back_off(min(2.0 ** (len(self._crashes) - 1), _LONGEST_BACKOFF_S) * random.uniform(1.0, 1.2))
            self._set(restarts=self.status.restarts + 1)

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(self._config_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self.config))
        read_fd, write_fd = os.pipe()
        try:
            with self._log.open_for_child() as output:
                # A session of its own: Ctrl-C and the terminal's hang-up are for the console to answer.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "engine", "--config", str(self._config_path), "--death-fd", str(read_fd)],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=(read_fd,), start_new_session=True,
                )  # fmt: skip
        except BaseException:
            os.close(write_fd)
            raise
        finally:
            os.close(read_fd)
        self._death_fd = write_fd
        self._set(
            state=SupervisorState.STARTING, pid=self._process.pid, started_wall_ns=time.time_ns(), phase=None,
            next_start_s=0.0, reason="",
        )  # fmt: skip
        return self._process

    async def _watch(self, process: subprocess.Popen[bytes]) -> float:
        """Until it exits: follow its log and its phases. Returns for how many seconds it was ready."""
        ready_at = None
        async with aclosing(EngineClient(self.config.base_url, self.config.api_key)) as client:
            while process.poll() is None:
                if ready_at is None and await self._is_ready(client, process.pid):
                    ready_at = time.monotonic()
                    self._set(state=SupervisorState.READY, phase=None)
                self._follow_log()
                await asyncio.sleep(_POLL_S)
        return time.monotonic() - ready_at if ready_at is not None else 0.0

    async def _is_ready(self, client: EngineClient, pid: int) -> bool:
        try:
            async with asyncio.timeout(1.0):  # whoever else has the port may not speak HTTP
                answered_by, phase = await client.start_status()
                ready = await client.health()
        except (EngineUnreachableError, TimeoutError):
            return False
        if answered_by != pid:  # someone else has the port; ours is about to say so and leave
            return False
        if phase != self.status.phase:
            self._set(phase=phase)
        return ready

    async def _back_off(self, delay_s: float) -> None:
        until = time.monotonic() + delay_s
        self._wake.clear()
        while (left := until - time.monotonic()) > 0 and not self._wake.is_set():
            self._set(state=SupervisorState.BACKOFF, next_start_s=left)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(left, 0.5))

    async def _take_down(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            until = time.monotonic() + _TERM_S
            while process.poll() is None and (left := until - time.monotonic()) > 0:
                self._set(reason=f"SIGTERM sent, SIGKILL in {left:.0f} s")
                await asyncio.sleep(0.05)
            if process.returncode is None:
                self._set(reason="it does not stop: SIGKILL")
                # Its leader was not waited for yet, so the group is still ours.
                os.killpg(process.pid, signal.SIGKILL)
                await asyncio.to_thread(process.wait)
            self._book_exit(process.returncode or 0)
        self._close_pipe()
        self._process = None

    def _book_exit(self, code: int) -> None:
        self._close_pipe()
        self._follow_log()
        tail = [line for line in self._log.tail if line.strip()]
        self._set(
            pid=None,
            phase=None,
            exit_code=code if code >= 0 else None,
            exit_signal=-code if code < 0 else None,
            reason=tail[-1].removeprefix("loraconsole: ") if tail and code else "",
        )

    def _close_pipe(self) -> None:
        if self._death_fd >= 0:
            os.close(self._death_fd)
            self._death_fd = -1

    def _follow_log(self) -> None:
        if self._log.follow():
            self._set(log_tail=tuple(self._log.tail))

    def _set(self, **changes: object) -> None:
        self.status = replace(self.status, **changes)  # type: ignore[arg-type]
        self._on_change(self.status)
