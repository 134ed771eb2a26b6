"""The executor's contract: what a step, a transfer and the pool promise to the core."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from peft import LoraConfig

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.executor import SequenceSlice, StepBatch, StepResult
from engine.messages import SamplingParams, StartPhase
from engine.torch_executor import TorchExecutor
from tests.engine.oracle import Driver, peft_adapters, tiny_llama

GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def adapters(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    config = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules="all-linear")
    return peft_adapters(folder, tmp_path_factory.mktemp("adapters"), {"a": config, "b": config})


@pytest.fixture
def driver(folder: Path, adapters: dict[str, Path]) -> Iterator[Driver]:
    found = Driver(folder, adapters)
    yield found
    found.close()


def part(
    driver: Driver,
    name: str,
    ids: Sequence[int],
    adapter: str = "",
    sampling: SamplingParams = GREEDY,
    **values: object,
) -> SequenceSlice:
    start = driver.computed.get(name, 0)
    driver.kv.grow(name, start + len(ids))
    driver.computed[name] = start + len(ids)
    made = {"sample": True, "output_index": 0} | values
    return SequenceSlice(
        name, driver.serials[adapter], list(ids), start, list(driver.kv.table(name)), sampling=sampling, **made  # type: ignore[arg-type]
    )  # fmt: skip


def run(driver: Driver, *parts: SequenceSlice, step: int = 1) -> StepResult:
    driver.executor.submit(StepBatch(step, parts))
    return finish(driver.executor)


def finish(executor: TorchExecutor) -> StepResult:
    while (result := executor.collect()) is None:
        executor.wait(10.0)
    return result


def test_a_step_answers_by_request_whatever_the_order(driver: Driver) -> None:
    expected = {name: run(driver, part(driver, f"{name}-alone", [7, 8, 9], name)).tokens[0].token_id for name in "ab"}
    base = run(driver, part(driver, "base-alone", [7, 8, 9])).tokens[0].token_id
    result = run(
        driver,
        part(driver, "b1", [7, 8, 9], "b"),
        part(driver, "base", [7, 8, 9]),
        part(driver, "a1", [7, 8, 9], "a"),
        part(driver, "chunk", [5, 5, 5, 5], "a", sample=False),
        part(driver, "b2", [7, 8, 9], "b"),
        step=42,
    )
    assert result.step == 42
    assert result.failed == ()
    assert {token.request_id: token.token_id for token in result.tokens} == {
        "b1": expected["b"], "b2": expected["b"], "a1": expected["a"], "base": base
    }  # fmt: skip
    assert result.ended_ns >= result.started_ns > 0


def test_a_step_that_samples_nothing(driver: Driver) -> None:
    result = run(driver, part(driver, "s", [1, 2, 3], sample=False))
    assert (result.tokens, result.failed) == ((), ())


def test_logprobs_travel_with_the_token(driver: Driver) -> None:
    (token,) = run(driver, part(driver, "s", [1, 2, 3], sampling=SamplingParams(temperature=0.0, logprobs=2))).tokens
    assert token.logprob is not None
    assert token.logprob.top[0][0] == token.token_id


def test_submit_returns_at_once_and_wait_ends_with_the_step(driver: Driver) -> None:
    gate = threading.Event()
    compute = driver.executor._compute
    driver.executor._compute = lambda batch: gate.wait(30) and compute(batch)  # type: ignore[method-assign, assignment, return-value]
    driver.executor.submit(StepBatch(1, (part(driver, "s", [1, 2]),)))
    assert driver.executor.busy()
    assert driver.executor.collect() is None
    driver.executor.wait(0.001)
    gate.set()
    begin = time.monotonic()
    finish(driver.executor)
    assert time.monotonic() - begin < 9  # woken, not timed out
    assert not driver.executor.busy()


def test_rows_that_are_not_finite_fail_alone(driver: Driver) -> None:
    """An adapter whose numbers are finite and whose answers are not."""
    serial = driver.serials["a"]
    for layer in driver.executor._views[serial]._by_layer:
        for shrinks in layer.values():
            for shrink in shrinks:
                for expand in shrink.expands:
                    expand.b_t.fill_(1e38)
    parts = [part(driver, name, [1, 2, 3], adapter) for name, adapter in (("bad", "a"), ("good", "b"), ("base", ""))]
    result = run(driver, *parts)
    assert result.failed == ("bad",)
    assert {token.request_id for token in result.tokens} == {"good", "base"}
    # The pages that the failed request leaves behind hold NaN; who gets them next must not see it.
    driver.kv.free("bad")
    del driver.computed["bad"]
    expected = run(driver, part(driver, "fresh", [4, 5, 6], "b")).tokens[0].token_id
    driver.kv.free("fresh")
    del driver.computed["fresh"]
    again = run(driver, part(driver, "again", [4, 5, 6], "b"))
    assert again.failed == ()
    assert again.tokens[0].token_id == expected


def test_what_lay_in_the_pool_before_is_never_seen(folder: Path, adapters: dict[str, Path]) -> None:
    """Greedy tokens over a clean pool and over one full of NaN, lengths mixed so that the batch is padded."""

    def answers(dirty: bool) -> list[int]:
        driver = Driver(folder, adapters)
        try:
            for page in range(driver.pool.num_pages):
                if dirty and driver.pool.page_state(page).used_permille == 0:
                    driver.executor._pool.extent(page, 0, 1 << 20).fill_(0xFF)
            found: list[int] = []
            names = {"long": ("a", [3] * 37), "short": ("", [5, 6]), "middle": ("b", list(range(20, 40)))}
            parts = [part(driver, name, ids, adapter) for name, (adapter, ids) in names.items()]
            for _ in range(20):
                result = run(driver, *parts)
                assert result.failed == ()
                tokens = {token.request_id: token.token_id for token in result.tokens}
                found += [tokens[name] for name in names]
                parts = [part(driver, name, [tokens[name]], names[name][0]) for name in names]
            return found
        finally:
            driver.close()

    assert answers(dirty=True) == answers(dirty=False)


def test_moved_blocks_go_on_where_they_lie(driver: Driver) -> None:
    ids = [random_id % 500 + 3 for random_id in range(0, 4000, 97)]
    stay, move = (part(driver, name, ids, "a") for name in ("stay", "move"))
    run(driver, stay, move)
    used = set(stay.block_table) | set(move.block_table)
    total = driver.pool.num_pages * driver.executor._pool.blocks_per_page
    last_page = (total - 1) // driver.executor._pool.blocks_per_page
    assert driver.pool.page_state(last_page).used_permille == 0
    table = [block for block in range(total - 1, 0, -1) if block not in used][: len(move.block_table)]
    driver.executor.copy_blocks(list(zip(move.block_table, table, strict=True)))
    for block in move.block_table:
        driver.executor._pool.block(block).fill_(math.nan)
    moved = SequenceSlice("move", driver.serials["a"], [9], len(ids), table, True, GREEDY, 1)
    stayed = SequenceSlice("stay", driver.serials["a"], [9], len(ids), stay.block_table, True, GREEDY, 1)
    result = run(driver, stayed, moved)
    assert result.failed == ()
    assert len({token.token_id for token in result.tokens}) == 1


def test_an_adapter_that_was_retired_comes_back_elsewhere(driver: Driver, adapters: dict[str, Path]) -> None:
    expected = run(driver, part(driver, "before", [7, 8, 9], "a")).tokens[0].token_id
    serial = driver.serials["a"]
    driver.executor.retire(serial)
    driver.pool.free_adapter(serial)
    layout = driver.executor._transfers.layout(serial)
    driver.pool.alloc_adapter(99, layout)  # takes its place
    driver.executor.begin_copy(serial, driver.pool.alloc_adapter(serial, layout))
    while not driver.executor.transfers():
        driver.executor.wait(10.0)
    assert run(driver, part(driver, "after", [7, 8, 9], "a")).tokens[0].token_id == expected


def test_start_reports_its_phases_and_says_where_it_runs(folder: Path) -> None:
    phases: list[StartPhase] = []
    executor = TorchExecutor(EngineConfig(model=str(folder), threads=1))
    executor.open(2, 1 << 20, 16, phases.append)
    assert {phase.phase for phase in phases} == {"weights", "pool"}
    info = executor.info
    assert (info.device, info.link, info.dtype, info.threads) == ("cpu", "host copy", "float32", 1)
    assert info.model_name == folder.name
    assert info.eos_token_ids == (2,)
    parameters = sum(w.numel() for w in _state(folder).values())
    assert info.weights_bytes >= 4 * parameters * 0.99  # norms are not counted
    executor.close()
    executor.close()


def _state(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_a_pool_larger_than_the_memory(folder: Path) -> None:
    executor = TorchExecutor(EngineConfig(model=str(folder), threads=1))
    with pytest.raises(ConfigError, match="not enough memory"):
        executor.open(1 << 24, 1 << 24, 16, lambda _phase: None)
    executor.close()


@pytest.mark.parametrize("values", [{"device": "cuda"}, {"dtype": "float16"}])
def test_what_the_cpu_does_not_serve(folder: Path, values: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="CPU"):
        TorchExecutor(EngineConfig(model=str(folder), **values))  # type: ignore[arg-type]
