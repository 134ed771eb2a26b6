"""One request on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.adapters import Adapter, Residency
from engine.messages import AddRequest, FinishReason, RequestRow, RequestTiming


@dataclass(slots=True, eq=False)
class Sequence:
    """``order``: place in the line, by arrival. ``computed``: tokens whose KV is in the cache; with ``tokens``, the
    prompt and what was sampled so far, that tells what the next step must compute."""

    request: AddRequest
    adapter: Adapter | None
    order: int
    residency: Residency
    tokens: list[int] = field(default_factory=list)
    computed: int = 0
    in_flight: int = 0  # tokens that the submitted step computes for it
    aborted: bool = False
    scheduled_ns: int = 0
    first_token_ns: int = 0
    preemptions: int = 0

    @property
    def id(self) -> str:
        return self.request.request_id

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def missing(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return len(self.tokens) - self.computed

    @property
    def decoding(self) -> bool:
        return self.missing == 1 and self.output_tokens > 0

    def finish_reason(self, token_id: int, eos_token_ids: frozenset[int]) -> FinishReason | None:
        """Why it ends with ``token_id``, which is among its tokens already; None when it goes on."""
        sampling = self.request.sampling
        if token_id in sampling.stop_token_ids or (token_id in eos_token_ids and not sampling.ignore_eos):
            return "stop"
        return "length" if self.output_tokens >= sampling.max_tokens else None

    def timing(self, finished_ns: int) -> RequestTiming:
        arrival_ns = self.request.arrival_ns
        return RequestTiming(
            arrival_ns=arrival_ns,
            scheduled_ns=self.scheduled_ns,
            first_token_ns=self.first_token_ns,
            finished_ns=finished_ns,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            preemptions=self.preemptions,
            residency=self.residency,
            switch_ns=max(0, self.scheduled_ns - arrival_ns) if self.adapter and self.scheduled_ns else 0,
        )

    def row(self, now_ns: int, running: bool) -> RequestRow:
        return RequestRow(
            request_id=self.id,
            adapter=self.adapter.name if self.adapter else "",
            phase=("decode" if self.decoding else "prefill") if running else "waiting",
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            age_ns=max(0, now_ns - self.request.arrival_ns),
        )
