"""With the client that our users have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from engine.demo_adapters import demo_adapter_dir
from tests.running_engine import RunningEngine

ASK = [{"role": "user", "content": "hello"}]


@pytest_asyncio.fixture
async def client(engine: RunningEngine) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as opened:
        yield opened


async def test_models_are_the_base_and_its_adapters(client: AsyncOpenAI) -> None:
    models = [model async for model in client.models.list()]
    assert [model.id for model in models] == ["modelled", "acme-support", "contract-clause", "finance-risk", "pirate"]


async def test_chat_whole_and_streamed_are_the_same(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model="pirate", messages=ASK, max_tokens=12, temperature=0)
    text, finish, usage = "", None, None
    stream = await client.chat.completions.create(
        model="pirate", messages=ASK, max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert text == whole.choices[0].message.content
    assert len(text) == 12
    assert finish == whole.choices[0].finish_reason == "length"
    assert usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens == 12
    assert usage.prompt_tokens == whole.usage.prompt_tokens


async def test_adapters_answer_differently(client: AsyncOpenAI) -> None:
    answers = {
        name: (await client.completions.create(model=name, prompt="hello", max_tokens=20, temperature=0))
        .choices[0]
        .text
        for name in ("modelled", "pirate", "finance-risk")
    }
    assert len(set(answers.values())) == 3


async def test_stop_strings_cut_and_abort(client: AsyncOpenAI, engine: RunningEngine) -> None:
    whole = (await client.completions.create(model="pirate", prompt="x", max_tokens=30, temperature=0)).choices[0].text
    stop = whole[10:12]
    cut = await client.completions.create(model="pirate", prompt="x", max_tokens=900, temperature=0, stop=[stop])
    assert cut.choices[0].text == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    assert (await engine.gauges(lambda g: g.running == 0)).aborted_total == 1


async def test_logprobs(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="pirate", messages=ASK, max_tokens=3, temperature=0, logprobs=True, top_logprobs=1
    )
    content = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in content) == answer.choices[0].message.content
    assert [len(entry.top_logprobs) for entry in content] == [1, 1, 1]


async def test_unknown_model_and_long_prompt_have_openai_errors(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(model="nobody", messages=ASK)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        await client.completions.create(model="pirate", prompt="x" * 1000, max_tokens=100)
    assert long.value.code == "context_length_exceeded"
    assert "1000 in the prompt and 100 to generate" in str(long.value)


async def test_a_client_who_leaves_frees_everything(client: AsyncOpenAI, engine: RunningEngine) -> None:
    stream = await client.chat.completions.create(model="pirate", messages=ASK, max_tokens=900, stream=True)
    async for _ in stream:
        break
    await stream.close()
    latest = engine.client.telemetry()
    async for message in latest:
        if message.gauges.running == 0 and message.gauges.aborted_total == 1:  # type: ignore[union-attr]
            assert message.gauges.kv_pages == 0  # type: ignore[union-attr]
            break


async def test_adapters_come_and_go_as_in_vllm(client: AsyncOpenAI, engine: RunningEngine) -> None:
    path = str(demo_adapter_dir() / "pirate")
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as http:
        gone = await http.post("/v1/unload_lora_adapter", json={"lora_name": "pirate"})
        assert gone.status_code == 200
        assert "pirate" not in await engine.client.models()
        back = await http.post("/v1/load_lora_adapter", json={"lora_name": "captain", "lora_path": path})
        assert back.status_code == 200
        assert "captain" in await engine.client.models()
        twice = await http.post("/v1/load_lora_adapter", json={"lora_name": "captain", "lora_path": path})
        assert (twice.status_code, twice.json()["error"]["code"]) == (400, "adapter_exists")
        outside = await http.post("/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": "/etc"})
        assert outside.status_code == 403
        assert "--adapter-dir" in outside.json()["error"]["message"]
    assert (await client.completions.create(model="captain", prompt="x", max_tokens=2)).usage.completion_tokens == 2


async def test_two_hundred_at_once(client: AsyncOpenAI, engine: RunningEngine) -> None:
    async def one(number: int) -> int:
        name = ("pirate", "acme-support", "finance-risk", "modelled")[number % 4]
        answer = await client.completions.create(model=name, prompt=f"{number}", max_tokens=8, temperature=0)
        return answer.usage.completion_tokens

    assert await asyncio.gather(*map(one, range(200))) == [8] * 200
    await engine.gauges(lambda gauges: gauges.finished_total == 200)
