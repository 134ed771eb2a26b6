"""The server's end of the line to the core: starts it, routes what it says, and notices when it dies."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

import zmq
import zmq.asyncio

from engine import ipc
from engine.errors import CoreDiedError, EngineError, from_code
from engine.messages import (
    AbortRequest,
    AdapterAction,
    AdapterCommand,
    AddRequest,
    CommandResult,
    CoreFailed,
    CoreReady,
    RequestFailed,
    ServerMessage,
    Shutdown,
    StartPhase,
    StepOutputs,
    TelemetryDelta,
    TokenDelta,
)
from engine.telemetry import TelemetryState
from engine.telemetry_hub import TelemetryHub

_STOP_S = 3.0


class RequestStream:
    """The deltas of one request, as they arrive. Bounded by the request's own ``max_tokens``."""

    def __init__(self) -> None:
        self._items: deque[TokenDelta | EngineError] = deque()
        self._arrived = asyncio.Event()
        self.ended = False

    def put(self, item: TokenDelta | EngineError) -> None:
        self._items.append(item)
        self.ended = isinstance(item, EngineError) or item.finish_reason is not None
        self._arrived.set()

    async def next(self) -> TokenDelta:
        """Raises the EngineError that ended the request."""
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        item = self._items.popleft()
        if isinstance(item, EngineError):
            raise item
        return item


class CoreLink:
    """``on_exit`` is called once, with the reason, when the core is gone without having been asked to leave."""

    def __init__(self, config_path: Path, on_exit: Callable[[CoreFailed], None]) -> None:
        self._config_path = config_path
        self._on_exit = on_exit
        self._folder = tempfile.TemporaryDirectory(prefix="loraconsole-")  # mode 0700
        self._context = zmq.asyncio.Context()
        self._outbox = self._context.socket(zmq.PUSH)
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.setsockopt(zmq.RCVHWM, 0)
        self._streams: dict[str, RequestStream] = {}
        self._commands: dict[int, asyncio.Future[CommandResult]] = {}
        self._command_ids = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._process: asyncio.subprocess.Process | None = None
        self._death_fd = -1
        self._stopping = False
        self._failure: CoreFailed | None = None
        self.phase: StartPhase | None = None
        self.state: TelemetryState | None = None  # known once the core is ready
        self.hub = TelemetryHub()

    @property
    def ready(self) -> bool:
        return self.state is not None and self._failure is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        folder = Path(self._folder.name)
        self._outbox.bind(ipc.to_core(folder))
        self._inbox.bind(ipc.to_server(folder))
        read_fd, self._death_fd = os.pipe()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "engine.core_process",
            "--config", str(self._config_path), "--ipc", str(folder), "--death-fd", str(read_fd),
            pass_fds=(read_fd,), stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_fd)
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch(self._process))]

    async def stop(self) -> None:
        """Ask the core to leave, then make it. A no-op when it is gone."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            await self._send(Shutdown())
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail_everything("the engine is shutting down")
        if self._death_fd >= 0:
            os.close(self._death_fd)
            self._death_fd = -1
        self._context.destroy(linger=0)
        self._folder.cleanup()

    def kill(self) -> None:
        """From any thread, when this process is about to end without a word."""
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)

    # --- requests and commands ----------------------------------------------------

    async def submit(self, request: AddRequest) -> RequestStream:
        self._refuse_if_down()
        stream = self._streams[request.request_id] = RequestStream()
        await self._send(request)
        return stream

    async def close_stream(self, request_id: str) -> None:
        """Nobody reads it any more; the core is told when the request has not ended."""
        stream = self._streams.pop(request_id, None)
        if stream is not None and not stream.ended and self._failure is None and not self._stopping:
            await self._send(AbortRequest(request_id))

    async def command(
        self, action: AdapterAction, name: str, path: str = "", by: str = "operator", wait_host: bool = False
    ) -> None:
        """Raises the EngineError that the core answered."""
        self._refuse_if_down()
        command_id = next(self._command_ids)
        future = self._commands[command_id] = asyncio.get_running_loop().create_future()
        try:
            await self._send(AdapterCommand(command_id, action, name, path, by, wait_host))
            result = await future
        finally:
            self._commands.pop(command_id, None)
        if result.code:
            raise from_code(result.code, result.message)

    def _refuse_if_down(self) -> None:
        if self._failure is not None or self._stopping:
            raise CoreDiedError(self._failure.message if self._failure else "the engine is shutting down")

    # --- private ------------------------------------------------------------------

    async def _send(self, message: ServerMessage) -> None:
        await self._outbox.send(ipc.encode(message))

    async def _read(self) -> None:
        while True:
            message = ipc.decode_core_message(await self._inbox.recv())
            match message:
                case StepOutputs():
                    for delta in message.deltas:
                        if (stream := self._streams.get(delta.request_id)) is not None:
                            stream.put(delta)
                case TelemetryDelta():
                    if self.state is not None:
                        self.state.apply(message)
                        self.hub.publish(message)
                case RequestFailed(request_id, code, text):
                    if (stream := self._streams.get(request_id)) is not None:
                        stream.put(from_code(code, text))
                case CommandResult(command_id):
                    future = self._commands.get(command_id)
                    if future is not None and not future.done():
                        future.set_result(message)
                case StartPhase():
                    self.phase = message
                    self.hub.publish(message)
                case CoreReady(info):
                    self.state = TelemetryState(info)
                    self.hub.ready(self.state)
                case CoreFailed():
                    self._failure = message

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if self._stopping:
            return
        await asyncio.sleep(0.1)  # its last words may still be on the line
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._failure = self._failure or CoreFailed(
            CoreDiedError.code, f"the engine core died ({how})", permanent=False
        )
        self._fail_everything(self._failure.message)
        self.hub.close()
        self._on_exit(self._failure)

    def _fail_everything(self, message: str) -> None:
        for stream in self._streams.values():
            if not stream.ended:
                stream.put(CoreDiedError(message))
        for future in self._commands.values():
            if not future.done():
                future.set_exception(CoreDiedError(message))
        self.hub.close()
