"""The bodies of OpenAI's requests that we serve, with their limits. What we do not serve is refused by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engine.messages import SamplingParams

_Name = Annotated[str, Field(min_length=1, max_length=256)]
_MOST_TOKENS = 1 << 20
# Fields of OpenAI's and vLLM's that change the answer and that we lack: to ignore one would be to answer wrongly.
_UNSERVED: dict[str, tuple[Any, ...]] = {
    "n": (1, None),
    "best_of": (1, None),
    "echo": (False, None),
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "frequency_penalty": (0, 0.0, None),
    "presence_penalty": (0, 0.0, None),
    "repetition_penalty": (1, 1.0, None),
    "min_p": (0, 0.0, None),
    "tools": (None, []),
    "functions": (None, []),
    "tool_choice": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "prompt_logprobs": (None, 0),
    "prompt_embeds": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "structured_outputs": (None,),
    "audio": (None,),
    "modalities": (None, ["text"]),
}


class StreamOptions(BaseModel):
    include_usage: bool = False


class GenerationRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: _Name
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = 1.0
    top_k: Annotated[int, Field(ge=-1, le=_MOST_TOKENS)] | None = 0  # vLLM's; -1 and 0 are off
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    stop: (
        Annotated[str, Field(max_length=1000)]
        | Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=4)]
        | None
    ) = None
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=64)] | None = None
    ignore_eos: bool = False
    stream: bool | None = False
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _served(self) -> GenerationRequest:
        for name, plain in _UNSERVED.items():
            value = (self.model_extra or {}).get(name)
            if value is not None and value not in plain:
                raise ValueError(f"{name} is not supported here")
        return self

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling(self, max_tokens: int, logprobs: int) -> SamplingParams:
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=max(0, self.top_k or 0),
            seed=self.seed,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=self.ignore_eos,
            logprobs=logprobs,
        )


class CompletionRequest(GenerationRequest):
    """``prompt``: a text or token ids; a list of several prompts is refused."""

    prompt: str | list[Annotated[int, Field(ge=0)]] | list[str]
    max_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = 16
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None

    @field_validator("prompt")
    @classmethod
    def _one_prompt(cls, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], str):
            if len(value) > 1:
                raise ValueError("one prompt a request")
            value = value[0]
        if not value:
            raise ValueError("the prompt is empty")
        return value


class TextPart(BaseModel):
    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None

    def plain(self) -> dict[str, str]:
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content or ())
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class ChatRequest(GenerationRequest):
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)]
    max_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None

    @property
    def most_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class LoadAdapterRequest(BaseModel):
    """vLLM's body of /v1/load_lora_adapter."""

    lora_name: _Name
    lora_path: Annotated[str, Field(min_length=1, max_length=4096)]


class UnloadAdapterRequest(BaseModel):
    lora_name: _Name


class TokenizeRequest(BaseModel):
    """vLLM's body of /tokenize: a text, or messages as the chat template joins them."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2048)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class DetokenizeRequest(BaseModel):
    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1 << 20)]
