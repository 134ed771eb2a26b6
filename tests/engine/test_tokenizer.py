"""Our tokenizer against transformers' on two tiny ones, byte-level and SentencePiece-like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from engine.errors import ModelFolderError, RequestError
from engine.tokenizer import Tokenizer

CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "Größe, naïve café, 你好世界 🎉🎉",
    "def f(x):\n    return x",
] * 3
TEXTS = [
    "",
    " ",
    "The quick brown fox",
    "  two blanks, a tab\t and a newline\n\n",
    "x=  1234 3.14e-10",
    "Größe naïve café — “quotes”",
    "你好\uff0c世界",
    "🎉 👩‍👩‍👧‍👦 🇩🇪",
    "a\u0301 e\u0301 \u200b \ufeff",
    "<|im_start|>user\nhi<|im_end|>",
    "null \x00 byte",
]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CHAT = [{"role": "system", "content": "Be <brief> & 'kind'."}, {"role": "user", "content": "Grüße 你好 🎉\n\n 12"}]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def write_folder(folder: Path, tokenizer: RustTokenizer, **config: object) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False} | config
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder


def byte_level() -> RustTokenizer:
    tokenizer = RustTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(["a token with blanks ü"])
    return tokenizer


def sentencepiece_like() -> RustTokenizer:
    """As Llama 2's: a blank is U+2581, unknown characters fall back to bytes, a start token comes first."""
    tokenizer = RustTokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    bytes_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>", *bytes_tokens])
    tokenizer.train_from_iterator(CORPUS[:1] + CORPUS[2:3], trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]  # byte tokens are ordinary ones
    tokenizer = RustTokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


@pytest.fixture(scope="module")
def byte_level_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(
        tmp_path_factory.mktemp("byte_level"),
        byte_level(),
        bos_token="<|im_start|>",
        eos_token={"__type": "AddedToken", "content": "<|im_end|>", "special": True},
        chat_template=TEMPLATE,
    )


@pytest.fixture(scope="module")
def sentencepiece_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentencepiece")
    return write_folder(folder, sentencepiece_like(), bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@pytest.fixture(scope="module", params=["byte_level_folder", "sentencepiece_folder"])
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_ids_and_text_equal_those_of_transformers(folder: Path) -> None:
    ours, theirs = Tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert ours.vocab_size == len(theirs)
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == theirs(text)["input_ids"]
        assert ours.encode(text, add_special_tokens=False) == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_a_streamed_answer_is_the_decoded_answer(folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    for text in [*TEXTS, " ".join(TEXTS)]:
        ids = tokenizer.encode(text)
        stream = tokenizer.stream()
        pieces = [stream.push([token_id]) for token_id in ids]
        assert all("\ufffd" not in piece for piece in pieces)
        assert "".join(pieces) + stream.finish() == tokenizer.decode(ids)


def test_characters_appear_whole_and_at_once(folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    stream = tokenizer.stream()
    seen = ""
    for token_id in tokenizer.encode("naïve 你好 🎉!"):
        seen += stream.push([token_id])
        assert "naïve 你好 🎉!".startswith(seen)
    assert stream.finish() == ""
    assert seen == "naïve 你好 🎉!"


def test_a_character_cut_off_is_shown_as_a_replacement_at_the_end(byte_level_folder: Path) -> None:
    tokenizer = Tokenizer(byte_level_folder)
    ids = tokenizer.encode("Ω")
    assert len(ids) == 2
    stream = tokenizer.stream()
    assert stream.push(ids[:1]) == ""
    assert stream.finish() == "\ufffd"


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_ids_stream_to_what_they_decode_to(byte_level_folder: Path, data: st.DataObject) -> None:
    """A random model emits any bytes; ids past the vocabulary (a padded embedding has such rows) have no text."""
    tokenizer = Tokenizer(byte_level_folder)
    batches = data.draw(st.lists(st.lists(st.integers(0, tokenizer.vocab_size + 2), max_size=5), max_size=20))
    stream = tokenizer.stream()
    streamed = "".join(stream.push(batch) for batch in batches) + stream.finish()
    assert streamed == tokenizer.decode([token_id for batch in batches for token_id in batch])


def test_endless_broken_bytes_do_not_dam_up(sentencepiece_folder: Path) -> None:
    tokenizer = Tokenizer(sentencepiece_folder)
    lead_byte = RustTokenizer.from_file(str(sentencepiece_folder / "tokenizer.json")).token_to_id("<0xE4>")
    stream = tokenizer.stream()
    assert len(stream.push([lead_byte] * 64)) >= 48


def test_the_chat_template_renders_as_in_transformers(byte_level_folder: Path) -> None:
    ours, theirs = Tokenizer(byte_level_folder), AutoTokenizer.from_pretrained(byte_level_folder)
    for generate in (True, False):
        expected = theirs.apply_chat_template(CHAT, add_generation_prompt=generate, tokenize=False)
        assert ours.apply_chat_template(CHAT, add_generation_prompt=generate) == expected
    expected_ids = theirs.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ours.encode_chat(CHAT) == expected_ids


@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{% for m in messages %}{{ m | tojson }}{% if loop.last %}{% break %}{% endif %}{% endfor %}",
        "{% if true %}\n    {% generation %}{{ messages[0].content }}{% endgeneration %}\n{% endif %}\nend",
        "{{ {'ä': [1, {'<': '&'}]} | tojson(indent=2) }}{{ missing }}{{ tools is none }}",
    ],
)
def test_what_published_templates_use_renders_as_in_transformers(tmp_path: Path, template: str) -> None:
    folder = write_folder(tmp_path, byte_level(), bos_token="<|im_start|>", chat_template=template)
    expected = AutoTokenizer.from_pretrained(folder).apply_chat_template(CHAT, tokenize=False)
    assert Tokenizer(folder).apply_chat_template(CHAT, add_generation_prompt=False) == expected


def test_the_template_is_found_in_each_place(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "wrong"}, {"name": "default", "template": "from the list"}]
    folder = write_folder(tmp_path, byte_level(), chat_template=several)
    assert Tokenizer(folder).apply_chat_template(CHAT) == "from the list"
    (folder / "chat_template.jinja").write_text("from the file")
    assert Tokenizer(folder).apply_chat_template(CHAT) == "from the file"


def test_messages_that_a_template_refuses_are_a_request_error(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, byte_level(), chat_template="{{ raise_exception('roles must alternate') }}")
    with pytest.raises(RequestError, match="roles must alternate"):
        Tokenizer(folder).apply_chat_template(CHAT)
    folder = write_folder(tmp_path, byte_level(), chat_template="{{ messages[0]['content'] + '!' }}")
    with pytest.raises(RequestError):
        Tokenizer(folder).apply_chat_template([{"role": "user", "content": 1}])


def test_half_a_surrogate_pair_is_a_request_error(byte_level_folder: Path) -> None:
    with pytest.raises(RequestError, match="not valid Unicode"):
        Tokenizer(byte_level_folder).encode_chat([{"role": "user", "content": "a\ud800b"}])


def test_a_template_can_not_reach_out_of_its_sandbox(tmp_path: Path) -> None:
    template = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(RequestError, match="unsafe"):
        Tokenizer(write_folder(tmp_path, byte_level(), chat_template=template)).apply_chat_template(CHAT)


def test_a_model_without_a_template_says_so(sentencepiece_folder: Path) -> None:
    tokenizer = Tokenizer(sentencepiece_folder)
    assert not tokenizer.has_chat_template
    with pytest.raises(RequestError, match="no chat template"):
        tokenizer.encode_chat(CHAT)


def test_end_tokens_come_from_all_files(byte_level_folder: Path, tmp_path: Path) -> None:
    assert Tokenizer(byte_level_folder).eos_token_ids == (2,)
    folder = write_folder(tmp_path, byte_level(), eos_token="<|im_end|>")
    (folder / "config.json").write_text('{"eos_token_id": 7}')
    assert Tokenizer(folder).eos_token_ids == (2, 7)
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 5]}')
    assert Tokenizer(folder).eos_token_ids == (0, 2, 5)


def test_a_saved_cut_and_fill_are_not_applied(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=32)
    folder = write_folder(tmp_path, tokenizer)
    assert Tokenizer(folder).encode("The quick brown fox jumps") == byte_level().encode("The quick brown fox jumps").ids


def test_broken_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"no tokenizer\.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelFolderError, match=r"tokenizer\.json"):
        Tokenizer(tmp_path)
    write_folder(tmp_path, byte_level(), chat_template="{% if %}")
    with pytest.raises(ModelFolderError, match="chat template"):
        Tokenizer(tmp_path)
    write_folder(tmp_path, byte_level(), chat_template=7)
    with pytest.raises(ModelFolderError, match="chat_template must be text"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ModelFolderError, match="JSON object"):
        Tokenizer(tmp_path)
