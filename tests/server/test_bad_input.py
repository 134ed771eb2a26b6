"""Bad input gets a clear error in OpenAI's shape and harms nothing."""

from __future__ import annotations

import contextlib
import json
from http import client
from typing import Any

import httpx
import pytest

from engine.http_guard import MOST_BODY_BYTES

CHAT = "/v1/chat/completions"
OK: dict[str, Any] = {"model": "pirate", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


def assert_error(response: httpx.Response, status: int, *words: str) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    for word in words:
        assert word in error["message"], error["message"]
    assert "Traceback" not in response.text


def assert_alive(http: httpx.Client) -> None:
    assert http.post(CHAT, json=OK).json()["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    "body", [b"", b'{"model": "pi', b"[]", b"null", b"123", b'"x"', b"[" * 100_000, b"\xff\xfe", b'{"model": NaN}']
)
def test_what_is_no_object(http: httpx.Client, body: bytes) -> None:
    assert_error(http.post(CHAT, content=body, headers={"Content-Type": "application/json"}), 400)
    assert_alive(http)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"messages": []}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10**12}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_p": 0}, "top_p"),
        ({"n": 10**9}, "n is not supported"),
        ({"tools": [{"type": "function"}]}, "tools is not supported"),
        ({"response_format": {"type": "json_object"}}, "response_format is not supported"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"model": ""}, "model"),
        ({"prompt_embeds": "gAR9"}, "prompt_embeds is not supported"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_is_out_of_range_or_not_served(http: httpx.Client, change: dict[str, Any], word: str) -> None:
    assert_error(http.post(CHAT, json=OK | change), 400, word)
    assert_alive(http)


def test_not_a_number_is_refused(http: httpx.Client) -> None:
    body = json.dumps(OK | {"temperature": float("nan")})
    assert_error(http.post(CHAT, content=body, headers={"Content-Type": "application/json"}), 400)


@pytest.mark.parametrize("prompt", ["", [], [999_999_999], [-1], ["a", "b"]])
def test_bad_prompts(http: httpx.Client, prompt: Any) -> None:
    assert_error(http.post("/v1/completions", json={"model": "pirate", "prompt": prompt}), 400)


def test_a_length_too_large_is_refused_before_a_byte_of_the_body(http: httpx.Client) -> None:
    connection = client.HTTPConnection(http.base_url.host, http.base_url.port, timeout=10)
    connection.putrequest("POST", CHAT)
    connection.putheader("Content-Length", str(1 << 30))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert str(MOST_BODY_BYTES) in json.loads(response.read())["error"]["message"]
    connection.close()
    assert_alive(http)


def test_an_endless_body_is_cut_off(http: httpx.Client) -> None:
    def endless() -> Any:
        for _ in range(2 * MOST_BODY_BYTES // 65536):
            yield b"x" * 65536

    # It may close the connection before we have written everything, and so before we read its answer.
    with contextlib.suppress(httpx.TransportError):
        assert_error(http.post(CHAT, content=endless()), 413)
    assert_alive(http)


def test_unknown_paths_and_methods(http: httpx.Client) -> None:
    assert_error(http.get("/v1/nothing"), 404)
    assert_error(http.get(CHAT), 405)
    assert_error(http.post("/console/adapters/nobody/pin"), 404, "nobody")
    assert_error(http.post("/console/adapters/pirate/explode"), 400)


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_other_web_sites_are_refused(http: httpx.Client, headers: dict[str, str]) -> None:
    assert_error(http.get("/v1/models", headers=headers), 403)


def test_a_text_that_is_no_unicode(http: httpx.Client) -> None:
    body = b'{"model": "pirate", "prompt": "\\ud800", "max_tokens": 2}'
    response = http.post("/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 400)
    assert_alive(http)


def test_a_broken_adapter_folder(http: httpx.Client, tmp_path: Any) -> None:
    for name, path, status in (("../x", "/tmp", 400), ("a" * 129, "/tmp", 400), ("ok", "https://hub/x", 403)):
        body = {"lora_name": name, "lora_path": path}
        assert_error(http.post("/v1/load_lora_adapter", json=body), status)
