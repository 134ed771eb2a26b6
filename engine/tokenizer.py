"""Text to token ids and back, from a Hugging Face model folder, with no more than the ``tokenizers`` library.

Files read: ``tokenizer.json`` (needed), ``tokenizer_config.json``, ``special_tokens_map.json``,
``generation_config.json``, ``config.json`` and ``chat_template.jinja``, each in the forms that transformers 4 and 5
write.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders

from engine.chat_template import ChatTemplate, Messages
from engine.errors import ModelFolderError, RequestError
from engine.incremental_decoder import ByteLevelDecoder, IncrementalDecoder, WindowDecoder


class Tokenizer:
    """Thread-safe. ``eos_token_ids``: ids that end an answer, ascending. ``vocab_size`` counts added tokens too.

    Raises ModelFolderError when a file is missing or malformed.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelFolderError(
                f"{folder} has no tokenizer.json; a SentencePiece tokenizer.model alone is not supported"
            )
        try:
            self._tokenizer = RustTokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ModelFolderError(f"{path}: {error}") from error
        # Settings of the training run that a saved tokenizer may carry: a prompt is neither cut nor filled.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocab_size: int = self._tokenizer.get_vocab_size()
        self._special_ids = frozenset(
            token_id for token_id, token in self._tokenizer.get_added_tokens_decoder().items() if token.special
        )
        self._byte_cache: dict[int, bytes] = {}
        config = _read_json(folder / "tokenizer_config.json")
        special_tokens = _special_tokens(_read_json(folder / "special_tokens_map.json") | config)
        self.eos_token_ids: tuple[int, ...] = self._find_eos(folder, special_tokens)
        source = _template_source(folder, config)
        self._template = None if source is None else ChatTemplate(source, special_tokens)

    @property
    def has_chat_template(self) -> bool:
        return self._template is not None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """``add_special_tokens``: put what the tokenizer puts around a plain text, such as a start token.

        RequestError for half a surrogate pair, which JSON can carry and no character is.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(f"the text is not valid Unicode: {error.reason} at {error.start}") from error
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def apply_chat_template(self, messages: Messages, add_generation_prompt: bool = True) -> str:
        """The prompt for ``messages`` (role and content each). RequestError when the model has no template for them."""
        if self._template is None:
            raise RequestError("this model has no chat template; use text completions", "messages")
        return self._template.render(messages, add_generation_prompt)

    def encode_chat(self, messages: Messages) -> list[int]:
        # The template writes the start token itself where the model wants one.
        return self.encode(self.apply_chat_template(messages), add_special_tokens=False)

    def decode(self, ids: Iterable[int]) -> str:
        """Text without special tokens. Ids outside the vocabulary have no text."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def stream(self) -> IncrementalDecoder:
        if isinstance(self._tokenizer.decoder, decoders.ByteLevel):
            return ByteLevelDecoder(self._tokenizer, self._special_ids, self._byte_cache)
        return WindowDecoder(self._tokenizer, self._special_ids)

    def _find_eos(self, folder: Path, special_tokens: Mapping[str, str]) -> tuple[int, ...]:
        generation = _read_json(folder / "generation_config.json")
        declared = generation.get("eos_token_id")
        if declared is None:
            declared = _read_json(folder / "config.json").get("eos_token_id")
        found = set(_ids(declared))
        if (token := special_tokens.get("eos_token")) is not None:
            found.update(_ids(self._tokenizer.token_to_id(token)))
        return tuple(sorted(found))


def _ids(value: object) -> Iterator[int]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int):
            yield item


def _read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``, empty when there is no such file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise ModelFolderError(f"{path}: must hold a JSON object")
    return found


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """``bos_token`` and its like: a string, or an object that describes one."""
    found = {}
    for key, value in config.items():
        if not key.endswith("_token"):
            continue
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[key] = text
    return found


def _template_source(folder: Path, config: Mapping[str, Any]) -> str | None:
    """A file of its own wins (transformers 5); else the configuration's text, or of several the one named default."""
    path = folder / "chat_template.jinja"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path}: {error}") from error
    found = config.get("chat_template")
    if isinstance(found, list):
        by_name = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = by_name.get("default")
    if found is not None and not isinstance(found, str):
        raise ModelFolderError(f"{folder / 'tokenizer_config.json'}: chat_template must be text")
    return found
