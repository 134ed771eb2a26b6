"""How an engine is started. One value, written by the command line, read by server and core."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from engine.errors import ConfigError

MIB = 1 << 20
GIB = 1 << 30


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``0`` and ``"auto"`` mean: chosen at start from the machine and the model."""

    engine: Literal["unified", "sim"] = "unified"
    model: str = ""  # a local Hugging Face folder; empty only for engine "sim"
    served_model_name: str = ""  # empty: the folder's name
    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str = ""
    adapter_dirs: tuple[str, ...] = ()
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    threads: int = 0  # CPU threads of the core; 0: cores - 1
    page_mib: int = 16
    pool_mib: int = 0  # size of the pool; 0: on the CPU a quarter of the memory, 4 GiB at most
    kv_floor: float = 0.25  # share of the pool that adapters may never take
    host_mib: int = 0  # budget of page images in host memory; 0: a quarter of the memory
    pool_policy: Literal["unified"] = "unified"
    eviction: Literal["cost", "lru", "lfu"] = "cost"
    block_tokens: int = 16
    max_seqs: int = 0  # sequences in one step; 0: 64 on the CPU, 256 on a GPU
    max_batch_tokens: int = 0  # token budget of one step; 0: 512 on the CPU, 8192 on a GPU
    max_model_len: int = 0  # 0: the model's own
    max_waiting: int = 4096  # requests queued before new ones are refused
    starvation_ms: int = 2000  # after this long in the queue, younger requests no longer overtake
    seed: int = 0
    telemetry_hz: float = 10.0

    @property
    def page_bytes(self) -> int:
        return self.page_mib * MIB

    @property
    def base_url(self) -> str:
        """Where a client on this machine finds it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def checked(self) -> EngineConfig:
        """This configuration, or ConfigError that names the field and what it may be."""
        for name in (
            "pool_mib",
            "host_mib",
            "threads",
            "max_seqs",
            "max_batch_tokens",
            "max_model_len",
            "starvation_ms",
        ):
            if (value := getattr(self, name)) < 0:
                raise ConfigError(f"--{name.replace('_', '-')} {value}: must not be negative")
        if self.max_waiting < 1:
            raise ConfigError(f"--max-waiting {self.max_waiting}: must be at least 1")
        if self.page_mib < 1 or self.page_mib & (self.page_mib - 1):
            raise ConfigError(f"--page-mib {self.page_mib}: must be a power of two")
        if not 0.0 <= self.kv_floor <= 1.0:
            raise ConfigError(f"--kv-floor {self.kv_floor}: must be between 0 and 1")
        if not 1 <= self.port <= 65535:
            raise ConfigError(f"--port {self.port}: must be between 1 and 65535")
        if self.host not in ("127.0.0.1", "localhost", "::1") and not self.api_key:
            raise ConfigError(f"--host {self.host} is reachable from other machines: set an API key or bind 127.0.0.1")
        if self.engine == "unified" and not self.model:
            raise ConfigError("--model: a local Hugging Face folder is needed")
        return self


def read_config(path: Path) -> EngineConfig:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EngineConfig).checked()
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: {error}") from error
