"""Renders a model's chat template the way the models' authors tested it: Jinja2 in a sandbox.

The template comes with the weights, so it is a stranger's program: it sees values only, through an immutable sandbox.
Whitespace rules, ``tojson``, ``raise_exception``, ``strftime_now`` and the ``generation`` tag are those that
templates published for Hugging Face's ``apply_chat_template`` rely on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import ModelFolderError, RequestError

Messages = Sequence[Mapping[str, Any]]


class GenerationTag(Extension):
    """``{% generation %}`` marks what to train on; for serving its body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012 (Jinja declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """``source``: the Jinja text. ``special_tokens``: names such as ``bos_token`` that the template may use."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ModelFolderError(f"the chat template is not valid Jinja: {error}") from error
        self._special_tokens = dict(special_tokens)

    def render(self, messages: Messages, add_generation_prompt: bool) -> str:
        """The prompt text. RequestError when the template refuses these messages, with its own words."""
        try:
            return self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
            )
        # A template is a program: messages of an unforeseen form end in any of these.
        except (TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise RequestError(f"the chat template refused these messages: {error}", "messages") from error


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes for HTML, which no prompt wants.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
