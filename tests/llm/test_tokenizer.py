"""Tokenizers: round trips, one token at the beginning, special tokens, bytes of ids, and peers that agree."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from llm_samples import SMOLLM2, needs_smollm2
from llm_tokenizers import (
    BASE,
    TEXTS,
    byte_level_folder,
    gguf_metadata_of,
    naive_bpe,
    sentence_piece_folder,
)

pytest.importorskip("torch", reason="needs torch, which is not installed")

from hami.backends.llm.config import ModelConfig
from hami.backends.llm.gguf import GgufFile
from hami.backends.llm.gguf_tokenizer import tokenizer_of_gguf
from hami.backends.llm.tokenizer import Tokenizer, load_tokenizer
from hami.backends.llm.weights import open_weights
from hami.errors import BuildError, RequestError


@pytest.fixture(scope="module")
def smollm2() -> tuple[Tokenizer, GgufFile]:
    config, _, file = open_weights(SMOLLM2)
    assert file is not None
    return load_tokenizer(config, file), file


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(config(), byte_level_folder(tmp_path_factory.mktemp("bytes")))


@pytest.fixture(scope="module")
def sentence_piece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(config(), sentence_piece_folder(tmp_path_factory.mktemp("pieces")))


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(**{**BASE, **changes})


@needs_smollm2
@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_is_split_as_by_a_naive_bpe(smollm2: tuple[Tokenizer, GgufFile], text: str) -> None:
    tokenizer, file = smollm2
    assert tokenizer.encode(text) == naive_bpe(file.metadata, text)


@needs_smollm2
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_is_split_as_by_a_naive_bpe(smollm2: tuple[Tokenizer, GgufFile], text: str) -> None:
    tokenizer, file = smollm2
    assert tokenizer.encode(text) == naive_bpe(file.metadata, text)


@needs_smollm2
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=40))
def test_smollm2_brings_every_text_back(smollm2: tuple[Tokenizer, GgufFile], text: str) -> None:
    tokenizer, _ = smollm2
    table = tokenizer._bytes
    assume(all(bytes([byte]) in table for byte in set(text.encode())))  # this vocabulary lacks some bytes
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(table[index] for index in ids).decode() == text


@pytest.mark.parametrize("text", TEXTS)
def test_small_tokenizers_bring_texts_back(
    byte_level: Tokenizer, sentence_piece: Tokenizer, text: str
) -> None:
    assert byte_level.decode(byte_level.encode(text)) == text
    assert sentence_piece.decode(sentence_piece.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=30).filter(lambda text: "▁" not in text))
def test_sentence_piece_brings_every_text_back(sentence_piece: Tokenizer, text: str) -> None:
    assert sentence_piece.decode(sentence_piece.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_bytes_of_ids_are_the_librarys_decoding(
    byte_level: Tokenizer, sentence_piece: Tokenizer, data: st.DataObject
) -> None:
    """Also of ids in any order, as a model may give them, where the bytes are text at all."""
    for tokenizer in (byte_level, sentence_piece):
        ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
        found = tokenizer.decode(ids)
        if "\N{REPLACEMENT CHARACTER}" not in found:
            assert found == tokenizer._inner.decode(ids, skip_special_tokens=True)


def test_a_character_of_several_tokens_is_there_byte_by_byte(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("ᚠ")
    assert [byte_level.token_bytes()[index] for index in ids] == [b"\xe1", b"\x9a", b"\xa0"]
    assert byte_level.decode(ids) == "ᚠ"
    assert byte_level.decode(ids[:2]) == "\N{REPLACEMENT CHARACTER}"


def test_sentence_piece_has_bytes_spaces_and_special_tokens(sentence_piece: Tokenizer) -> None:
    table = sentence_piece.token_bytes()
    inner = sentence_piece._inner
    assert table[inner.token_to_id("<0x0A>")] == b"\n"
    assert table[inner.token_to_id("▁the")] == b" the"
    assert table[inner.token_to_id("<s>")] == b"<s>"
    ids = sentence_piece.encode("the end")
    assert sentence_piece.decode(ids) == "the end"
    assert sentence_piece.decode(ids[1:], continues=True) == " the end"


def test_every_id_of_the_model_has_bytes_even_without_a_token(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(config(vocab=1000), byte_level_folder(tmp_path))
    table = tokenizer.token_bytes()
    assert len(table) == tokenizer.vocab_size == 1000 and table[999] == b""
    assert tokenizer.decode([999, 1000, -1, 5000]) == ""


@pytest.mark.parametrize("text", ["", "the end", "<s>the end", "<s>", " <s>"])
def test_exactly_one_token_begins_a_text(sentence_piece: Tokenizer, text: str) -> None:
    ids = sentence_piece.encode(text)
    assert ids[0] == sentence_piece.bos_id
    if text != " <s>":
        assert ids.count(sentence_piece.bos_id) == 1


def test_none_begins_a_text_where_the_model_wants_none(byte_level: Tokenizer) -> None:
    assert byte_level.bos_id is not None and not byte_level.adds_bos
    assert byte_level.bos_id not in byte_level.encode("the end")


def test_a_chat_whose_template_writes_the_beginning_has_one(sentence_piece: Tokenizer) -> None:
    text = sentence_piece.apply_chat([{"role": "user", "content": "hi"}])
    assert text.startswith("<s>")
    assert sentence_piece.encode_chat([{"role": "user", "content": "hi"}]).count(sentence_piece.bos_id) == 1


def test_special_tokens_are_one_id_and_no_text(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("<|im_start|>the end<|im_end|>")
    start, end = byte_level.encode("<|im_start|>"), byte_level.encode("<|im_end|>")
    assert len(start) == len(end) == 1 and ids[0] == start[0] and ids[-1] == end[0]
    assert byte_level.special_ids >= {start[0], end[0]}
    assert byte_level.decode(ids) == "the end"
    assert byte_level.decode(ids, skip_special_tokens=False) == "<|im_start|>the end<|im_end|>"


def test_ends_of_configuration_and_tokenizer_come_together(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(config(eos_ids=(0,)), byte_level_folder(tmp_path))
    assert tokenizer.eos_ids == (0, tokenizer.encode("<|im_end|>")[0])


@pytest.mark.parametrize("wrong", ["\ud800", "a\udfff", 3, None, b"bytes", ["a"]])
def test_what_is_no_text_is_refused(byte_level: Tokenizer, wrong: Any) -> None:
    with pytest.raises(RequestError) as caught:
        byte_level.encode(wrong)
    assert caught.value.code == "llm-prompt"


@pytest.mark.parametrize("text", TEXTS)
def test_a_gguf_file_of_sentence_piece_is_its_folder(
    sentence_piece: Tokenizer, tmp_path: Path, text: str
) -> None:
    inner, adds_bos = tokenizer_of_gguf(gguf_metadata_of(sentence_piece), tmp_path)
    built = Tokenizer(inner, bos_id=sentence_piece.bos_id, adds_bos=adds_bos)
    assert built.encode(text) == sentence_piece.encode(text)
    assert built.decode(built.encode(text)) == text
    assert built.token_bytes() == sentence_piece.token_bytes()


@pytest.mark.parametrize("rule", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
@pytest.mark.parametrize("text", TEXTS)
def test_each_rule_of_gguf_files_splits_as_a_naive_bpe(
    byte_level: Tokenizer, tmp_path: Path, rule: str, text: str
) -> None:
    metadata = gguf_metadata_of(byte_level, rule)
    inner, adds_bos = tokenizer_of_gguf(metadata, tmp_path)
    assert Tokenizer(inner).encode(text) == naive_bpe(metadata, text)
    assert adds_bos == (rule == "llama-bpe")


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_ids_texts_and_chats_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip(
            "transformers", reason="needs transformers, which is not installed"
        )
    folder = (byte_level_folder if kind == "bytes" else sentence_piece_folder)(tmp_path)
    ours = load_tokenizer(config(), folder)
    peer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    for text in TEXTS:
        assert ours.encode(text) == peer.encode(text)
        assert ours.decode(ours.encode(text)) == peer.decode(peer.encode(text), skip_special_tokens=True)
    chats = [
        [{"role": "user", "content": "Hi <b> & 'you'"}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Größe?\n"}],
        [{"role": role, "content": role} for role in ("user", "assistant", "user")],
    ]
    for chat in chats:
        for prompt in (True, False):
            wanted = peer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt)
            assert ours.apply_chat(chat, add_generation_prompt=prompt) == wanted
            assert ours.encode_chat(chat, add_generation_prompt=prompt).count(ours.bos_id) <= len(chat) + 1


def test_a_template_may_be_a_file_or_one_of_several(tmp_path: Path) -> None:
    folder = byte_level_folder(tmp_path)
    settings_file = folder / "tokenizer_config.json"
    settings_of = json.loads(settings_file.read_text())
    settings_of["chat_template"] = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "{{ messages[0].content }}!"},
    ]
    settings_file.write_text(json.dumps(settings_of))
    chat = [{"role": "user", "content": "hi"}]
    assert load_tokenizer(config(), folder).apply_chat(chat) == "hi!"
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}?")
    assert load_tokenizer(config(), folder).apply_chat(chat) == "hi?"


def test_a_model_without_template_says_so(tmp_path: Path) -> None:
    folder = byte_level_folder(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    tokenizer = load_tokenizer(config(), folder)
    assert not tokenizer.has_chat_template
    with pytest.raises(RequestError, match="no chat template"):
        tokenizer.apply_chat([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("content", [None, "", "{", '{"model": 3}'])
def test_a_broken_tokenizer_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(BuildError, match=r"tokenizer\.json") as caught:
        load_tokenizer(config(), tmp_path)
    assert caught.value.code == "llm-tokenizer"
