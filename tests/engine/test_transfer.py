"""Adapters from disk to page images to the pool: every value where the layout says, every bad file its own error."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import EngineError
from engine.executor import Location, TransferDone
from engine.kernels.pool_view import PoolView
from engine.packing import AdapterLayout, pack
from engine.peft import AdapterManifest, read_manifest
from engine.random_adapters import make_adapters
from engine.shape import LORA_MODULES
from engine.transfer import Transfers, read_image
from tests.engine.synthetic import TINY_SHAPE

PAGE = 1 << 20
SERIAL = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole adapter in F32 with a scale of 3, whose tensors a test may change."""
    (made,) = make_adapters(tmp_path / "made", TINY_SHAPE, 1, 8, targets=LORA_MODULES)
    weights = load_file(made / "adapter_model.safetensors")
    save_file({key: value.float() for key, value in weights.items()}, made / "adapter_model.safetensors")
    config = json.loads((made / "adapter_config.json").read_text())
    (made / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 3 * config["r"]}))
    return made


class Bench:
    """Transfers over a pool full of NaN, so that a byte that was not written shows."""

    def __init__(self, pages: int = 8) -> None:
        self.data = torch.full((pages * PAGE,), 0xFF, dtype=torch.uint8)
        self.pool = PoolView(self.data, PAGE, 16, TINY_SHAPE, torch.float32)
        self._ended = threading.Event()
        self.transfers = Transfers(self.pool, TINY_SHAPE, self._ended.set)

    def wait(self) -> TransferDone:
        assert self._ended.wait(30)
        self._ended.clear()
        (done,) = self.transfers.collect()
        return done

    def read(self, manifest: AdapterManifest, layout: AdapterLayout) -> TransferDone:
        self.transfers.begin_read(SERIAL, manifest, layout)
        return self.wait()

    def copy(self, locations: list[Location]) -> TransferDone:
        self.transfers.begin_copy(SERIAL, locations)
        return self.wait()


@pytest.fixture
def bench() -> Iterator[Bench]:
    found = Bench()
    yield found
    found.transfers.close()


def described(folder: Path, page_bytes: int = PAGE) -> tuple[AdapterManifest, AdapterLayout]:
    manifest = read_manifest(folder, TINY_SHAPE)
    return manifest, pack(manifest, 4, page_bytes, unit_bytes=page_bytes)


def change(folder: Path, key_part: str, value: float) -> None:
    path = folder / "adapter_model.safetensors"
    weights = load_file(path)
    key = next(key for key in sorted(weights) if key_part in key)
    weights[key].view(-1)[0] = value
    save_file(weights, path)


def test_every_matrix_arrives_with_its_scale_folded_into_b(bench: Bench, folder: Path) -> None:
    manifest, layout = described(folder)
    read = bench.read(manifest, layout)
    assert (read.kind, read.serial, read.error_code) == ("read", SERIAL, "")
    assert read.bytes == layout.image_bytes
    assert read.content_hash == hashlib.sha256(manifest.weights_file.read_bytes()).hexdigest()
    locations = [Location(5 - extent, 0) for extent in range(len(layout.extent_bytes))]
    copied = bench.copy(locations)
    assert (copied.kind, copied.serial, copied.bytes, copied.error_code) == ("copy", SERIAL, layout.image_bytes, "")
    assert copied.ended_ns >= copied.started_ns >= read.ended_ns >= read.started_ns > 0
    weights = load_file(manifest.weights_file)
    for place in layout.placements:
        key = next(k for k in weights if f".{place.layer}." in k and f".{place.module}.lora_{place.side}." in k)
        expected = weights[key] * (manifest.scales[place.layer, place.module] if place.side == "B" else 1.0)
        at = locations[place.extent]
        found = bench.pool.matrix(at.page, at.offset + place.offset, place.rows, place.cols)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_an_adapter_of_several_extents(bench: Bench, folder: Path) -> None:
    """Small pages, scattered: nothing outside its extents is touched."""
    manifest, layout = described(folder, page_bytes=16 << 10)
    assert len(layout.extent_bytes) > 2
    bench.read(manifest, layout)
    locations = [Location(extent % 8, (extent // 8) * (16 << 10)) for extent in range(len(layout.extent_bytes))]
    bench.copy(locations)
    untouched = bench.data.clone()
    image, _ = read_image(manifest, layout, TINY_SHAPE, torch.float32)
    at = 0
    for location, size in zip(locations, layout.extent_bytes, strict=True):
        start = location.page * PAGE + location.offset
        assert torch.equal(bench.data[start : start + size], image[at : at + size])
        untouched[start : start + size] = 0xFF
        at += size
    assert bool((untouched == 0xFF).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_dtypes_of_the_file(bench: Bench, folder: Path, dtype: torch.dtype) -> None:
    path = folder / "adapter_model.safetensors"
    weights = {key: value.to(dtype) for key, value in load_file(path).items()}
    save_file(weights, path)
    manifest, layout = described(folder)
    assert bench.read(manifest, layout).error_code == ""
    image, _ = read_image(manifest, layout, TINY_SHAPE, torch.float32)
    place = next(p for p in layout.placements if (p.layer, p.module, p.side) == (0, "q_proj", "A"))
    start = sum(layout.extent_bytes[: place.extent]) + place.offset
    found = image[start : start + place.rows * place.cols * 4].view(torch.float32).view(place.rows, place.cols)
    key = next(key for key in weights if ".0.self_attn.q_proj.lora_A" in key)
    assert torch.equal(found, weights[key].float())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("side", ["lora_A", "lora_B"])
def test_a_value_that_is_not_finite_is_named(bench: Bench, folder: Path, side: str, value: float) -> None:
    change(folder, f"1.mlp.up_proj.{side}", value)
    done = bench.read(*described(folder))
    assert done.error_code == "adapter_invalid"
    assert f"layer 1 up_proj {side} holds NaN or infinity" in done.error


def test_weights_that_the_scale_makes_too_large(folder: Path) -> None:
    change(folder, "0.mlp.up_proj.lora_B", 3e38)
    manifest, layout = described(folder)
    assert manifest.scales[0, "up_proj"] == 3
    with pytest.raises(EngineError, match="scaled weights are too large"):
        read_image(manifest, layout, TINY_SHAPE, torch.float32)


def _truncate(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _empty(folder: Path) -> None:
    (folder / "adapter_model.safetensors").write_bytes(b"")


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)


def _other_rank(folder: Path) -> None:
    make_adapters(folder.parent.parent / "other", TINY_SHAPE, 1, 4, targets=LORA_MODULES)
    shutil.copytree(folder.parent.parent / "other" / folder.name, folder, dirs_exist_ok=True)


def _other_scale(folder: Path) -> None:
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"lora_alpha": 2 * config["lora_alpha"]}))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_truncate, "adapter_invalid"),
        (_empty, "adapter_invalid"),
        (_remove, "adapter_invalid"),
        (_other_rank, "adapter_invalid"),
        (_other_scale, "adapter_invalid"),
    ],
)
def test_a_file_that_changed_since_it_was_registered(bench: Bench, folder: Path, damage: object, code: str) -> None:
    manifest, layout = described(folder)
    damage(folder)  # type: ignore[operator]
    done = bench.read(manifest, layout)
    assert done.error_code == code
    assert str(folder) in done.error
    assert (done.bytes, done.content_hash) == (0, "")


def test_after_a_failed_read_the_next_one_works(bench: Bench, folder: Path) -> None:
    manifest, layout = described(folder)
    path = folder / "adapter_model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    assert bench.read(manifest, layout).error_code == "adapter_invalid"
    path.write_bytes(whole)
    assert bench.read(manifest, layout).error_code == ""


def test_dropped_images_can_be_read_again(bench: Bench, folder: Path) -> None:
    manifest, layout = described(folder)
    bench.read(manifest, layout)
    bench.transfers.drop(SERIAL)
    assert bench.read(manifest, layout).error_code == ""
    assert bench.transfers.pending == 0
