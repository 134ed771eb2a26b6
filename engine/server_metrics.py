"""``/metrics``: vLLM's names where the meaning is the same, ``loraconsole:`` for what only we have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client import Counter as PrometheusCounter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.messages import FinishReason, PageOwner
from engine.telemetry import TelemetryState

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class ServerMetrics:
    """What the server sees itself, and on every scrape what the core's telemetry says."""

    def __init__(self, state: Callable[[], TelemetryState | None]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_CoreCollector(state))
        options = {"registry": self._registry, "buckets": _SECONDS}
        self._ttft = Histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", **options)  # type: ignore[arg-type]
        self._itl = Histogram("vllm:inter_token_latency_seconds", "Between tokens of one request.", **options)  # type: ignore[arg-type]
        self._e2e = Histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", **options)  # type: ignore[arg-type]
        self._finished = PrometheusCounter(
            "vllm:request_success", "Requests that ended, by reason.", ["finished_reason"], registry=self._registry
        )

    def request(self, arrival_ns: int) -> RequestClock:
        return RequestClock(self, arrival_ns)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class RequestClock:
    """Observes one request as its tokens are handed on."""

    def __init__(self, metrics: ServerMetrics, arrival_ns: int) -> None:
        self._metrics = metrics
        self._arrival_ns = arrival_ns
        self._last_ns = 0

    def tokens(self, count: int, now_ns: int) -> None:
        if not count:
            return
        if not self._last_ns:
            self._metrics._ttft.observe((now_ns - self._arrival_ns) / 1e9)
        else:
            self._metrics._itl.observe((now_ns - self._last_ns) / 1e9)
        self._last_ns = now_ns

    def end(self, reason: FinishReason | None) -> None:
        self._metrics._finished.labels(reason or "abort").inc()
        if reason is not None and self._last_ns:
            self._metrics._e2e.observe((self._last_ns - self._arrival_ns) / 1e9)


class _CoreCollector(Collector):
    def __init__(self, state: Callable[[], TelemetryState | None]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        if state is None:
            return
        gauges, info = state.gauges, state.info
        for name, words, value in (
            ("vllm:num_requests_running", "Requests in the running batch.", gauges.running),
            ("vllm:num_requests_waiting", "Requests in the queue.", gauges.waiting),
            (
                "vllm:kv_cache_usage_perc",
                "Share of the pool that holds KV, 0 to 1.",
                gauges.kv_pages / info.num_pages,
            ),
            ("loraconsole:kv_blocks_used", "KV blocks that sequences own.", gauges.kv_blocks_used),
            ("loraconsole:kv_tokens", "Tokens in the KV cache.", gauges.kv_tokens),
            ("loraconsole:host_bytes", "Bytes of page images in host memory.", gauges.host_bytes),
            ("loraconsole:tail_waste_bytes", "Bytes in held pages that nobody owns.", gauges.tail_waste_bytes),
            ("loraconsole:step_seconds", "The newest step.", gauges.step_ms / 1e3),
        ):
            yield GaugeMetricFamily(name, words, value=value)
        for name, words, value in (
            ("vllm:prompt_tokens", "Prompt tokens computed.", gauges.prompt_tokens_total),
            ("vllm:generation_tokens", "Tokens generated.", gauges.generated_tokens_total),
            ("vllm:num_preemptions", "Sequences preempted.", gauges.preemptions_total),
            ("loraconsole:steps", "Forward passes.", gauges.steps_total),
            ("loraconsole:requests_finished", "Requests that ended well.", gauges.finished_total),
            ("loraconsole:requests_failed", "Requests that failed.", gauges.failed_total),
            ("loraconsole:requests_aborted", "Requests whose client left.", gauges.aborted_total),
            ("loraconsole:adapter_hits", "Requests that found their adapter in the pool.", gauges.hits_total),
            ("loraconsole:adapter_misses", "Requests that had to wait for it.", gauges.misses_total),
            ("loraconsole:adapter_loads", "Swaps into the pool.", gauges.loads_total),
            ("loraconsole:adapter_load_bytes", "Bytes of all swaps.", gauges.load_bytes_total),
            ("loraconsole:adapter_reads", "Reads from disk.", gauges.reads_total),
            ("loraconsole:adapter_evictions", "Adapters that left the pool.", gauges.evictions_total),
        ):
            yield CounterMetricFamily(name, words, value=value)
        pages = GaugeMetricFamily("loraconsole:pages", "Pages of the pool by owner.", labels=["owner"])
        owners = Counter(page.owner for page in state.pages)
        for owner in PageOwner:
            pages.add_metric([owner.name.lower()], owners.get(owner, 0))
        yield pages
        tiers = GaugeMetricFamily("loraconsole:adapters", "Registered adapters by tier.", labels=["tier"])
        held = Counter(row.tier for row in state.adapters.values())
        for tier in ("hbm", "host", "disk"):
            tiers.add_metric([tier], held.get(tier, 0))
        yield tiers
