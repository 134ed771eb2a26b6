"""``python -m engine.core_process``: the only process that touches the device. The server starts it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import zmq

from engine import ipc
from engine.config import EngineConfig, read_config
from engine.core import EngineCore
from engine.death_pipe import leave_at_end_of
from engine.errors import ConfigError
from engine.executor import Executor
from engine.messages import CoreFailed, CoreMessage, StartPhase, TelemetryDelta


def main() -> int:
    parser = argparse.ArgumentParser(prog="engine.core_process")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--ipc", type=Path, required=True, help="folder of the sockets")
    parser.add_argument("--death-fd", type=int, required=True)
    arguments = parser.parse_args()
    leave_at_end_of(arguments.death_fd)
    # Ctrl-C reaches every process of the terminal; it is the server that says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    context = zmq.Context()
    inbox, outbox = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    outbox.setsockopt(zmq.SNDHWM, 0)  # the core never waits for the server
    outbox.setsockopt(zmq.LINGER, 1000)
    inbox.connect(ipc.to_core(arguments.ipc))
    outbox.connect(ipc.to_server(arguments.ipc))

    def publish(message: CoreMessage) -> None:
        outbox.send(ipc.encode(message))
        if isinstance(message, TelemetryDelta):
            for event in message.events:
                if event.kind == "error":  # the log outlives the console's list of events
                    sys.stderr.write(f"{event.adapter}: {event.detail}\n")

    try:
        return _run(read_config(arguments.config), inbox, publish)
    except ConfigError as error:
        publish(CoreFailed(error.code, str(error), permanent=True))
        return 2
    except Exception as error:
        traceback.print_exc()
        publish(CoreFailed("engine_error", f"{type(error).__name__}: {error}", permanent=False))
        return 1
    finally:
        context.destroy(linger=1000)


def _run(config: EngineConfig, inbox: zmq.Socket[bytes], publish: ipc.Publish) -> int:
    executor = _executor(config, publish)
    core = EngineCore(config, executor, publish)
    core.open()
    info = core.info
    sys.stderr.write(f"loraconsole: {info.model} on {info.device_name}, {info.threads} thread(s): {info.products}\n")
    try:
        while not core.stopping:
            while inbox.poll(0):
                core.handle(ipc.decode_server_message(inbox.recv()))
            if not core.tick():
                inbox.poll(int(core.idle_wait_s() * 1000) + 1)
    finally:
        core.close()
    return 0


def _executor(config: EngineConfig, publish: ipc.Publish) -> Executor:
    if config.engine == "sim":
        from engine.modelled_executor import ModelledExecutor

        return ModelledExecutor(config)
    publish(StartPhase("importing", "torch", 0, 0, time.monotonic_ns()))
    # Threads that wait without spinning leave the other cores to the server and the console; torch reads it once.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from engine.torch_executor import TorchExecutor

    return TorchExecutor(config)


if __name__ == "__main__":
    sys.exit(main())
