"""An executor that computes nothing: times come from a simple model, tokens from a hash.

It drives the very core that the torch executor drives. On virtual time the scheduler's tests run as fast as Python
does; paced by the real clock it feeds the console without a model. Whatever it shows is labelled "modelled".
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.config import EngineConfig
from engine.executor import (
    ExecutorInfo,
    Location,
    SampledToken,
    SequenceSlice,
    StepBatch,
    StepResult,
    TransferDone,
)
from engine.messages import StartPhase, TokenLogprob
from engine.packing import AdapterLayout
from engine.peft import AdapterManifest
from engine.shape import ModelShape

MODELLED_NAME = "modelled"
# SmolLM2-135M's, so that a page holds as many tokens as with the default model; tokens are bytes.
MODELLED_SHAPE = ModelShape(
    architecture="ModelledForCausalLM",
    num_layers=30,
    hidden_size=576,
    intermediate_size=1536,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    vocab_size=258,
    max_positions=8192,
    element_bytes=2,
)
EOS_TOKEN_ID = 257
_ALPHABET = b"  etaoinshrdlucmfwyp"


@dataclass(frozen=True, slots=True)
class CostModel:
    """Times of an imaginary device. Defaults: a step of 8 ms and 20 us a token; a PCIe gen5 link at 50 GB/s and
    a disk at 2 GB/s, 0.1 ms to start either."""

    step_ns: int = 8_000_000
    token_ns: int = 20_000
    copy_ns_per_byte: float = 0.02
    read_ns_per_byte: float = 0.5
    transfer_ns: int = 100_000


@dataclass(order=True, slots=True)
class _Pending:
    end_ns: int
    number: int
    result: StepResult | TransferDone = field(compare=False)


class ModelledExecutor:
    """``realtime`` paces everything by CLOCK_MONOTONIC; without it ``wait`` jumps to the next end.

    Copies share one link and reads one disk: each waits for those before it. A prompt's answer depends on its tokens,
    its adapter's name and its seed alone, never on the batch.
    """

    def __init__(
        self,
        config: EngineConfig,
        shape: ModelShape = MODELLED_SHAPE,
        costs: CostModel | None = None,
        realtime: bool = True,
    ) -> None:
        self._config = config
        self._shape = shape
        self._costs = costs or CostModel()
        self._realtime = realtime
        self._virtual_ns = 1
        self._number = 0
        self._steps: deque[_Pending] = deque()
        self._transfers: list[_Pending] = []
        self._link_free_ns = self._disk_free_ns = 0
        self._names: dict[int, str] = {}
        self._layouts: dict[int, AdapterLayout] = {}
        self._images: set[int] = set()
        self._resident: set[int] = set()

    @property
    def shape(self) -> ModelShape:
        return self._shape

    @property
    def info(self) -> ExecutorInfo:
        return ExecutorInfo(
            device="modelled",
            device_name="modelled device",
            link="modelled",
            dtype="modelled",
            threads=1,
            products="none: times come from a model",
            weights_bytes=0,
            model_name=MODELLED_NAME,
            model_path="",
            eos_token_ids=(EOS_TOKEN_ID,),
        )

    def open(self, num_pages: int, page_bytes: int, block_tokens: int, report: Callable[[StartPhase], None]) -> None:
        report(StartPhase("pool", f"{num_pages} modelled pages", num_pages, num_pages, self.now_ns()))

    def now_ns(self) -> int:
        return time.monotonic_ns() if self._realtime else self._virtual_ns

    def sleep_until(self, t_ns: int) -> None:
        """Virtual time only: let a time pass in which nothing was asked."""
        assert not self._realtime
        self._virtual_ns = max(self._virtual_ns, t_ns)

    # --- transfers --------------------------------------------------------------

    def begin_read(self, serial: int, manifest: AdapterManifest, layout: AdapterLayout) -> None:
        self._names[serial] = manifest.folder.name
        self._layouts[serial] = layout
        start = max(self.now_ns(), self._disk_free_ns)
        size = layout.image_bytes
        end = self._disk_free_ns = start + self._transfer_ns(size, self._costs.read_ns_per_byte)
        content_hash = hashlib.sha256(str(manifest.folder).encode()).hexdigest()
        self._push(TransferDone("read", serial, start, end, size, content_hash))

    def begin_copy(self, serial: int, locations: Sequence[Location]) -> None:
        assert serial in self._images
        assert len(locations) == len(self._layouts[serial].extent_bytes)
        start = max(self.now_ns(), self._link_free_ns)
        size = self._layouts[serial].image_bytes
        end = self._link_free_ns = start + self._transfer_ns(size, self._costs.copy_ns_per_byte)
        self._push(TransferDone("copy", serial, start, end, size))

    def _transfer_ns(self, size: int, ns_per_byte: float) -> int:
        return self._costs.transfer_ns + int(size * ns_per_byte)

    def _push(self, done: TransferDone) -> None:
        self._number += 1
        heapq.heappush(self._transfers, _Pending(done.ended_ns, self._number, done))

    def retire(self, serial: int) -> None:
        self._resident.remove(serial)

    def drop_host(self, serial: int) -> None:
        self._images.remove(serial)

    def copy_blocks(self, moves: Sequence[tuple[int, int]]) -> None:
        pass  # there are no bytes to move

    def transfers(self) -> list[TransferDone]:
        done: list[TransferDone] = []
        while self._transfers and self._transfers[0].end_ns <= self.now_ns():
            result = heapq.heappop(self._transfers).result
            assert isinstance(result, TransferDone)
            (self._images if result.kind == "read" else self._resident).add(result.serial)
            done.append(result)
        return done

    # --- steps ------------------------------------------------------------------

    def submit(self, batch: StepBatch) -> None:
        assert not self._steps, "one step at a time"
        assert all(part.adapter < 0 or part.adapter in self._resident for part in batch.slices)
        now_ns = self.now_ns()
        tokens = sum(len(part.token_ids) for part in batch.slices)
        end_ns = now_ns + self._costs.step_ns + tokens * self._costs.token_ns
        sampled = tuple(self._sample(part) for part in batch.slices if part.sample)
        self._steps.append(_Pending(end_ns, 0, StepResult(batch.step, now_ns, end_ns, sampled)))

    def collect(self) -> StepResult | None:
        if not self._steps or self._steps[0].end_ns > self.now_ns():
            return None
        result = self._steps.popleft().result
        assert isinstance(result, StepResult)
        return result

    def _sample(self, part: SequenceSlice) -> SampledToken:
        position = part.start + len(part.token_ids)
        seed = f"{self._names.get(part.adapter, '')}/{part.token_ids[-1]}/{position}/{part.sampling.seed}"
        digest = hashlib.sha256(seed.encode()).digest()
        token_id = _ALPHABET[digest[0] % len(_ALPHABET)]
        logprob = TokenLogprob(token_id, 0.0, ((token_id, 0.0),)) if part.sampling.logprobs else None
        return SampledToken(part.request_id, token_id, logprob)

    # --- time -------------------------------------------------------------------

    def busy(self) -> bool:
        return bool(self._steps or self._transfers)

    def wait(self, timeout_s: float) -> None:
        ends = [pending.end_ns for pending in (*self._steps, *self._transfers[:1])]
        if not self._realtime:
            self._virtual_ns = max(self._virtual_ns, min(ends, default=self._virtual_ns + int(timeout_s * 1e9)))
        else:
            until = min((end - self.now_ns()) / 1e9 for end in ends) if ends else timeout_s
            time.sleep(max(0.0, min(until, timeout_s)))

    def close(self) -> None:
        self._steps.clear()
        self._transfers.clear()
