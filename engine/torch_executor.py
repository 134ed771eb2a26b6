"""The executor that computes: torch, on the CPU."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.executor import ExecutorInfo, Location, SequenceSlice, StepBatch, StepResult, TransferDone
from engine.kernels.cpu_attention import KVSpan
from engine.kernels.cpu_lora import LoraPlan, LoraSegment, LoraViews
from engine.kernels.cpu_products import products_text
from engine.kernels.pool_view import PoolView
from engine.messages import StartPhase
from engine.model_folder import read_model_config
from engine.models.llama import Llama
from engine.packing import AdapterLayout
from engine.peft import AdapterManifest
from engine.sampling import Sampler
from engine.shape import ModelShape
from engine.transfer import Transfers
from engine.weights import load_weights

_DTYPES = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}


class TorchExecutor:
    """One step at a time, on a thread of its own; reads and copies of adapters on two others."""

    def __init__(self, config: EngineConfig) -> None:
        if config.device == "cuda":
            raise ConfigError("--device cuda: this version computes on the CPU")
        if config.dtype not in _DTYPES:
            raise ConfigError(f"--dtype {config.dtype}: on the CPU float32 and bfloat16 are served")
        self._config = config
        self._folder = Path(config.model)
        self._dtype = _DTYPES[config.dtype]
        self._model_config = read_model_config(self._folder, self._dtype.itemsize)
        self._threads = config.threads or max(1, len(os.sched_getaffinity(0)) - 1)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="step", initializer=self._set_threads)
        self._step: Future[StepResult] | None = None
        self._ended = threading.Condition()
        self._ends = 0
        self._views: dict[int, LoraViews] = {}
        self._sampler = Sampler(config.seed)

    def _set_threads(self) -> None:
        # OpenMP keeps this setting per thread.
        torch.set_num_threads(self._threads)

    @property
    def shape(self) -> ModelShape:
        return self._model_config.shape

    @property
    def info(self) -> ExecutorInfo:
        return ExecutorInfo(
            device="cpu",
            device_name=cpu_name(),
            link="host copy",
            dtype=str(self._dtype).removeprefix("torch."),
            threads=self._threads,
            products=products_text(self._dtype),
            weights_bytes=self._weights.nbytes,
            model_name=self._folder.name,
            model_path=str(self._folder),
            eos_token_ids=self._model_config.eos_token_ids,
        )

    def open(self, num_pages: int, page_bytes: int, block_tokens: int, report: Callable[[StartPhase], None]) -> None:
        def told(detail: str, done: int, total: int) -> None:
            report(StartPhase("weights", detail, done, total, self.now_ns()))

        self._set_threads()
        self._weights = load_weights(self._folder, self._model_config, self._dtype, told)
        report(StartPhase("pool", f"{num_pages} pages", 0, num_pages, self.now_ns()))
        try:
            data = torch.empty(num_pages * page_bytes, dtype=torch.uint8)
        except RuntimeError as error:
            raise ConfigError(f"--pool-mib {num_pages * page_bytes >> 20}: not enough memory") from error
        self._pool = PoolView(data, page_bytes, block_tokens, self.shape, self._dtype)
        positions = min(self.shape.max_positions, num_pages * self._pool.blocks_per_page * block_tokens)
        self._model = Llama(self._model_config, self._weights, self._pool, positions)
        self._transfers = Transfers(self._pool, self.shape, self._notify)

    def now_ns(self) -> int:
        return time.monotonic_ns()

    # --- adapters -------------------------------------------------------------------

    def begin_read(self, serial: int, manifest: AdapterManifest, layout: AdapterLayout) -> None:
        self._transfers.begin_read(serial, manifest, layout)

    def begin_copy(self, serial: int, locations: Sequence[Location]) -> None:
        self._views[serial] = LoraViews(self._pool, self._transfers.layout(serial), locations, self.shape)
        self._transfers.begin_copy(serial, locations)

    def retire(self, serial: int) -> None:
        del self._views[serial]

    def drop_host(self, serial: int) -> None:
        self._transfers.drop(serial)

    def transfers(self) -> list[TransferDone]:
        return self._transfers.collect()

    # --- steps ----------------------------------------------------------------------

    def copy_blocks(self, moves: Sequence[tuple[int, int]]) -> None:
        assert self._step is None
        for source, destination in moves:
            self._pool.block(destination).copy_(self._pool.block(source))

    def submit(self, batch: StepBatch) -> None:
        assert self._step is None, "one step at a time"
        self._step = self._worker.submit(self._compute, batch)
        self._step.add_done_callback(lambda _future: self._notify())

    def collect(self) -> StepResult | None:
        if self._step is None or not self._step.done():
            return None
        step, self._step = self._step, None
        return step.result()

    def _compute(self, batch: StepBatch) -> StepResult:
        started = time.monotonic_ns()
        with torch.inference_mode():
            slices = sorted(batch.slices, key=lambda part: part.adapter)
            sampled = [part for part in slices if part.sample]
            logits = self.logits(slices)
            tokens, failed = self._sampler.sample(logits, sampled) if sampled else ([], [])
        return StepResult(batch.step, started, time.monotonic_ns(), tuple(tokens), tuple(failed))

    def logits(self, slices: Sequence[SequenceSlice], every_row: bool = False) -> torch.Tensor:
        """``[rows, vocab]`` float32 of the slices that sample, or of every token. ``slices``: sorted by adapter."""
        token_ids: list[int] = []
        spans, segments, last = [], [], []
        for adapter, group in groupby(slices, key=lambda part: part.adapter):
            start = len(token_ids)
            for part in group:
                spans.append(KVSpan(len(token_ids), part.start, len(part.token_ids), part.block_table))
                token_ids.extend(part.token_ids)
                if part.sample:
                    last.append(len(token_ids) - 1)
            if adapter >= 0:
                segments.append(LoraSegment(start, len(token_ids), self._views[adapter]))
        rows = torch.arange(len(token_ids)) if every_row else torch.tensor(last, dtype=torch.int64)
        return self._model.forward(torch.tensor(token_ids), spans, LoraPlan(segments), rows)

    # --- waiting --------------------------------------------------------------------

    def busy(self) -> bool:
        return self._step is not None or self._transfers.pending > 0

    def wait(self, timeout_s: float) -> None:
        with self._ended:
            seen, self._ends = self._ends, 0
            if not seen:
                self._ended.wait(timeout_s)
                self._ends = 0

    def _notify(self) -> None:
        with self._ended:
            self._ends += 1
            self._ended.notify_all()

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        if hasattr(self, "_transfers"):
            self._transfers.close()


def cpu_name() -> str:
    """As the processor calls itself, or at least its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
