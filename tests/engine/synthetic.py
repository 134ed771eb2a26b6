"""Adapters that exist only as numbers."""

from __future__ import annotations

from pathlib import Path

from engine.peft import AdapterManifest, MatrixEntry
from engine.shape import LORA_MODULES, ModelShape

TINY_SHAPE = ModelShape(
    architecture="TinyForCausalLM",
    num_layers=2,
    hidden_size=64,
    intermediate_size=128,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=97,
    max_positions=256,
    element_bytes=4,
)


def make_manifest(
    name: str,
    shape: ModelShape = TINY_SHAPE,
    rank: int = 8,
    modules: tuple[str, ...] = LORA_MODULES,
    ranks: dict[str, int] | None = None,
    folder: Path | None = None,
) -> AdapterManifest:
    """A valid manifest whose files need not exist. ``ranks`` overrides ``rank`` by module."""
    matrices = []
    offset = 0
    for layer in range(shape.num_layers):
        for module in modules:
            fan_in, fan_out = shape.module_dims(module)
            r = (ranks or {}).get(module, rank)
            for side, rows, cols in (("A", r, fan_in), ("B", fan_out, r)):
                nbytes = rows * cols * 4
                matrices.append(MatrixEntry(layer, module, side, rows, cols, "F32", offset, nbytes))
                offset += nbytes
    folder = folder or Path("/adapters") / name
    return AdapterManifest(
        folder=folder,
        weights_file=folder / "adapter_model.safetensors",
        rank=max((ranks or {}).get(module, rank) for module in modules),
        modules=modules,
        matrices=tuple(matrices),
        scales={(layer, module): 2.0 for layer in range(shape.num_layers) for module in modules},
        base_model="tiny",
    )
