"""What the core asks of whatever computes: the torch executor, or the modelled one.

All calls return at once; results are collected by polling. The core owns every decision
(which pages, which batch), the executor owns every byte. An executor has a clock of its
own so that a modelled one can run on virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.messages import SamplingParams, StartPhase, TokenLogprob
from engine.packing import AdapterLayout
from engine.peft import AdapterManifest
from engine.shape import ModelShape

# A token id that stands for "what the previous step sampled for this sequence": lets a GPU
# step be submitted before the tokens of the one before were read back.
PREVIOUS_TOKEN = -1


@dataclass(frozen=True, slots=True)
class Location:
    """Where one extent of an adapter lies in the pool: ``offset`` bytes into ``page``."""

    page: int
    offset: int


@dataclass(frozen=True, slots=True)
class SequenceSlice:
    """The tokens of one sequence that one step computes.

    ``block_table``: KV blocks of the sequence in order, each ``page * blocks_per_page + slot``;
    long enough for ``start + len(token_ids)`` tokens. ``adapter``: serial, -1 for the base model.
    ``sample``: whether the last of these tokens yields a new one (false inside a chunked prefill).
    ``output_index``: how many tokens the request has produced, so that a seeded request draws the
    same numbers in whatever batch it runs.
    """

    request_id: str
    adapter: int
    token_ids: Sequence[int]
    start: int
    block_table: Sequence[int]
    sample: bool
    sampling: SamplingParams
    output_index: int


@dataclass(frozen=True, slots=True)
class StepBatch:
    step: int
    slices: tuple[SequenceSlice, ...]


@dataclass(frozen=True, slots=True)
class SampledToken:
    request_id: str
    token_id: int
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """``failed`` names requests whose logits were not finite: they fail alone."""

    step: int
    started_ns: int
    ended_ns: int
    tokens: tuple[SampledToken, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransferDone:
    """A read (disk to host) or a copy (host to pool) that ended. ``error_code`` is empty on success."""

    kind: Literal["read", "copy"]
    serial: int
    started_ns: int
    ended_ns: int
    bytes: int
    content_hash: str = ""
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ExecutorInfo:
    """What only the executor knows about where it runs."""

    device: str
    device_name: str
    link: str
    dtype: str
    threads: int
    products: str  # which matrix products run, for people
    weights_bytes: int
    model_name: str
    model_path: str
    eos_token_ids: tuple[int, ...]


class Executor(Protocol):
    """Contract. Order of calls: ``open``, then anything, then ``close``."""

    def open(self, num_pages: int, page_bytes: int, block_tokens: int, report: Callable[[StartPhase], None]) -> None:
        """Load the weights and allocate the pool (``num_pages * page_bytes`` bytes, one allocation).

        Raises ModelFolderError or ConfigError; reports progress by phase.
        """

    @property
    def shape(self) -> ModelShape:
        """Known before ``open``: read from config.json alone."""

    @property
    def info(self) -> ExecutorInfo:
        """Valid after ``open``."""

    def now_ns(self) -> int:
        """The executor's clock: CLOCK_MONOTONIC, or virtual time."""

    def begin_read(self, serial: int, manifest: AdapterManifest, layout: AdapterLayout) -> None:
        """Disk to host: read, check that every value is finite, fold the scale in, pack into page images."""

    def begin_copy(self, serial: int, locations: Sequence[Location]) -> None:
        """Host to pool: one copy per extent of the adapter's layout. Its image must be in host memory.

        After the matching TransferDone the adapter may appear in batches.
        """

    def retire(self, serial: int) -> None:
        """The adapter left the pool: its locations mean nothing from now on. Its host image stays."""

    def drop_host(self, serial: int) -> None:
        """Forget the host image. No read or copy of it may be under way."""

    def copy_blocks(self, moves: Sequence[tuple[int, int]]) -> None:
        """Copy KV blocks (source, destination) in order, before the next submitted step reads them."""

    def submit(self, batch: StepBatch) -> None:
        """Start one step. At most one step may be in flight on an executor that computes synchronously."""

    def collect(self) -> StepResult | None:
        """The oldest finished step that was not collected yet, or None."""

    def transfers(self) -> list[TransferDone]:
        """Transfers that ended since the last call."""

    def busy(self) -> bool:
        """Whether a step or a transfer is under way, so that waiting makes sense."""

    def wait(self, timeout_s: float) -> None:
        """Sleep until something may have ended, or until the time is over. Virtual clocks jump instead."""

    def close(self) -> None:
        """Free everything. A no-op the second time."""
