"""OpenAI's endpoints, and those that vLLM added for adapters and tokens."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from engine import openai_format as shape
from engine.errors import EngineError, PromptTooLongError
from engine.generation import Generator, Piece, Usage
from engine.http_errors import engine_error_body
from engine.messages import SamplingParams
from engine.openai_schema import (
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    GenerationRequest,
    LoadAdapterRequest,
    TokenizeRequest,
    UnloadAdapterRequest,
)
from engine.sse import EventStream, event, until_disconnect

_DONE = event(b"[DONE]")


def router(generator: Generator) -> APIRouter:
    api = APIRouter()

    @api.get("/v1/models")
    async def models() -> dict[str, Any]:
        info, state = generator.info, generator.link.state
        created = info.started_wall_ns // 1_000_000_000
        base = {"id": info.model, "object": "model", "created": created, "owned_by": "loraconsole", "root": info.model,
                "parent": None, "max_model_len": info.max_model_len}  # fmt: skip
        rows = sorted(state.adapters.values(), key=lambda row: row.name) if state else []
        adapters = [base | {"id": row.name, "root": row.name, "parent": info.model} for row in rows]
        return {"object": "list", "data": [base, *adapters]}

    @api.post("/v1/chat/completions")
    async def chat(body: ChatRequest, request: Request) -> Response:
        adapter = generator.adapter_of(body.model)
        ids = await _encode_chat(generator, body.messages)
        logprobs = max(1, body.top_logprobs or 0) if body.logprobs else 0
        most = body.most_tokens or _rest(generator, ids)
        sampling = body.sampling(most, logprobs)
        return await _answer(generator, request, body, shape.CHAT, ids, adapter, sampling, body.top_logprobs or 0)

    @api.post("/v1/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        adapter = generator.adapter_of(body.model)
        prompt = body.prompt
        if isinstance(prompt, str):
            text = prompt
            ids = await generator.encode(lambda: generator.tokenizer.encode(text), len(text))
        else:
            ids = [int(token) for token in prompt]
            generator.check_ids(ids)
        logprobs = max(1, body.logprobs) if body.logprobs is not None else 0
        sampling = body.sampling(body.max_tokens or 16, logprobs)
        return await _answer(generator, request, body, shape.TEXT, ids, adapter, sampling, body.logprobs or 0)

    @api.post("/v1/load_lora_adapter")
    async def load_adapter(body: LoadAdapterRequest) -> Response:
        await generator.link.command("add", body.lora_name, body.lora_path, by="api", wait_host=True)
        return Response(f"Success: LoRA adapter '{body.lora_name}' added successfully.", media_type="text/plain")

    @api.post("/v1/unload_lora_adapter")
    async def unload_adapter(body: UnloadAdapterRequest) -> Response:
        await generator.link.command("unload", body.lora_name, by="api")
        return Response(f"Success: LoRA adapter '{body.lora_name}' removed successfully.", media_type="text/plain")

    @api.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> dict[str, Any]:
        if body.messages is not None:
            ids = await _encode_chat(generator, body.messages)
        else:
            text = body.prompt or ""
            ids = await generator.encode(lambda: generator.tokenizer.encode(text), len(text))
        return {"tokens": ids, "count": len(ids), "max_model_len": generator.max_model_len}

    @api.post("/detokenize")
    async def detokenize(body: DetokenizeRequest) -> dict[str, Any]:
        generator.check_ids(body.tokens)
        return {"prompt": generator.tokenizer.decode(body.tokens)}

    return api


async def _encode_chat(generator: Generator, messages: list[ChatMessage]) -> list[int]:
    plain = [message.plain() for message in messages]
    size = sum(len(message["content"]) for message in plain)
    return await generator.encode(lambda: generator.tokenizer.encode_chat(plain), size)


def _rest(generator: Generator, ids: list[int]) -> int:
    rest = generator.max_model_len - len(ids)
    if rest < 1:
        raise PromptTooLongError(
            f"the longest sequence here is {generator.max_model_len} tokens; this prompt has {len(ids)}", "messages"
        )
    return rest


async def _answer(
    generator: Generator,
    request: Request,
    body: GenerationRequest,
    form: shape.Form,
    ids: list[int],
    adapter: str,
    sampling: SamplingParams,
    top: int,
) -> Response:
    usage = Usage(len(ids))
    pieces = generator.run(ids, adapter, sampling, body.stops, usage)
    head = {"id": f"{form.id_prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": body.model}
    tokens = shape.LogprobFormat(generator.tokenizer.decode, top) if sampling.logprobs else None
    if body.stream:
        # What is refused must have its status, which a started stream no longer has.
        opening = asyncio.create_task(_first(pieces))
        if await until_disconnect(request.receive, opening):
            await pieces.aclose()  # type: ignore[attr-defined]
            return Response(status_code=499)
        first = opening.result()
        return EventStream(_chunks(form, head, first, pieces, usage, body.include_usage, tokens))
    work = asyncio.create_task(_collect(form, head, pieces, usage, tokens))
    if await until_disconnect(request.receive, work):
        return Response(status_code=499)
    return JSONResponse(work.result())


async def _first(pieces: AsyncIterator[Piece]) -> Piece:
    return await anext(pieces)


async def _chunks(
    form: shape.Form,
    head: dict[str, Any],
    first: Piece,
    pieces: AsyncIterator[Piece],
    usage: Usage,
    include_usage: bool,
    tokens: shape.LogprobFormat | None,
) -> AsyncIterator[bytes]:
    extra = {"usage": None} if include_usage else {}
    encode: Callable[[Any], bytes] = lambda value: json.dumps(value, ensure_ascii=False).encode()  # noqa: E731
    try:
        if form.opening is not None:
            yield event(encode(head | {"object": form.chunk_object, "choices": [form.opening]} | extra))
        piece: Piece | None = first
        while piece is not None:
            if piece.text or piece.finish_reason or tokens is not None:
                choice = form.delta(piece, None if tokens is None else form.logprobs(tokens, piece))
                yield event(encode(head | {"object": form.chunk_object, "choices": [choice]} | extra))
            piece = await anext(pieces, None)
        if include_usage:
            yield event(encode(head | {"object": form.chunk_object, "choices": [], "usage": shape.usage(usage)}))
    except EngineError as error:
        yield event(encode(engine_error_body(error)))
        return
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]
    yield _DONE


async def _collect(
    form: shape.Form,
    head: dict[str, Any],
    pieces: AsyncIterator[Piece],
    usage: Usage,
    tokens: shape.LogprobFormat | None,
) -> dict[str, Any]:
    found: list[Piece] = []
    try:
        async for piece in pieces:
            found.append(piece)
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]
    whole = Piece(
        "".join(piece.text for piece in found),
        tuple(i for piece in found for i in piece.token_ids),
        tuple(entry for piece in found for entry in piece.logprobs),
        found[-1].finish_reason,
    )
    choice = form.whole(whole, None if tokens is None else form.logprobs(tokens, whole))
    return head | {"object": form.object, "choices": [choice], "usage": shape.usage(usage)}
