"""The options that say how an engine is started: ``launch`` and ``serve`` have the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

API_KEY_VARIABLE = "LORACONSOLE_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--engine", type=click.Choice(["unified", "sim"]), default="unified", show_default=True,
                 help="unified: our own. sim: no model, modelled times, to try the console."),
    click.option("--model", type=click.Path(path_type=Path), help="A local Hugging Face folder of the Llama family. "
                 "Default: SmolLM2-135M-Instruct, fetched once."),
    click.option("--served-model-name", default="", help="Its name in the API. Default: the folder's name."),
    click.option("--adapter-dir", "adapter_dirs", type=click.Path(path_type=Path), multiple=True,
                 help="A folder of PEFT adapters, registered at start. Paths outside all of these are refused. "
                 "Repeatable."),
    click.option("--demo-adapters/--no-demo-adapters", default=True, show_default=True,
                 help="Register the shipped adapters and those of `adapters make`."),
    click.option("--host", default="127.0.0.1", show_default=True,
                 help=f"Other than loopback needs an API key in ${API_KEY_VARIABLE}."),
    click.option("--port", type=int, default=8000, show_default=True),
    click.option("--device", type=click.Choice(["auto", "cpu"]), default="auto", show_default=True),
    click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True),
    click.option("--threads", type=int, default=0, help="CPU threads of the engine. Default: cores - 1."),
    click.option("--pool-mib", type=int, default=0, help="Size of the page pool. Default: a quarter of the memory, "
                 "4096 at most."),
    click.option("--page-mib", type=int, default=16, show_default=True, help="Size of a page: a power of two."),
    click.option("--kv-floor", type=float, default=0.25, show_default=True,
                 help="Share of the pool that adapters may never take from the KV cache."),
    click.option("--host-mib", type=int, default=0, help="Host memory for adapters. Default: a quarter of the memory."),
    click.option("--eviction", type=click.Choice(["cost", "lru", "lfu"]), default="cost", show_default=True,
                 help="Which idle adapter leaves first."),
    click.option("--max-model-len", type=int, default=0, help="Longest sequence, in tokens. Default: the model's."),
    click.option("--max-seqs", type=int, default=0, help="Sequences in one step. Default: 64 on the CPU."),
    click.option("--max-batch-tokens", type=int, default=0, help="Tokens in one step. Default: 512 on the CPU."),
    click.option("--max-waiting", type=int, default=4096, show_default=True,
                 help="Requests in the queue before new ones are refused."),
)  # fmt: skip


def engine_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def url_options(command: F) -> F:
    """For commands that talk to an engine that runs already."""
    return click.option("--url", default=DEFAULT_URL, show_default=True, help="The engine's address.")(command)


def api_key() -> str:
    """From the environment alone: a command line can be read by every user of the machine."""
    return os.environ.get(API_KEY_VARIABLE, "")
