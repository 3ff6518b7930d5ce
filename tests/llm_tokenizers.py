"""Small trained tokenizers of both kinds, as folders and as GGUF metadata, and a naive BPE."""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, which is not installed")
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

BASE: dict[str, Any] = {
    "architecture": "llama",
    "layers": 1,
    "hidden": 8,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 4,
    "intermediate": 8,
    "vocab": 10,
    "rms_eps": 1e-6,
    "rope_theta": 1e4,
    "max_position": 64,
}
TEXTS = [
    "the end",
    "Hello, world! It's 12345 o'clock, they'll say; WE'RE late.",
    "  two  spaces\tand\n\nlines \n ",
    "Größe, naïve café, 日本語の文, مرحبا, ½ ² ٣ Ⅷ",
    "🦜🏳️‍🌈 e\u0301 \u200d",
    "def f(x):\n    return x**2  # 10%\r\n",
    "",
    " ",
    "a",
]
CORPUS = [
    *TEXTS,
    "the then there these they the the end and ending",
    "lower lowest newer newest wider widest",
] * 3
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA2 = (
    "{{ bos_token }}{% for message in messages %}\n"
    "    {% if message.role == 'user' %}[INST] {{ message.content | trim }} [/INST]\n"
    "    {%- else %}{{ message.content ~ eos_token }}{% endif %}\n"
    "{% endfor %}"
)


def byte_level_folder(folder: Path) -> Path:
    """Write a byte-level BPE that begins no text by itself, with ChatML."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(CORPUS, trainer)
    inner.save(str(folder / "tokenizer.json"))
    settings = {
        "bos_token": "<|endoftext|>",
        "eos_token": {"__type": "AddedToken", "content": "<|im_end|>"},
        "chat_template": CHATML,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def sentence_piece_folder(folder: Path) -> Path:
    """Write a BPE with spaces as U+2581 and bytes for the rest, which begins each text with `<s>`."""
    special = ["<unk>", "<s>", "</s>"]
    parts = [f"<0x{byte:02X}>" for byte in range(256)]
    trained = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    alphabet = sorted(set("".join(CORPUS)) & set("abcdefghijklmnopqrstuvwxyzTHIW ,.é"))
    trainer = trainers.BpeTrainer(
        vocab_size=150, initial_alphabet=alphabet, limit_alphabet=40, show_progress=False, max_token_length=6
    )
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(pair) for pair in model["merges"]]
    products = list(dict.fromkeys(left + right for left, right in merges))
    single = [token for token in learned if token not in set(products)]
    tokens = [*special, *parts, *products, *single]
    inner = tokenizers.Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=merges_of(tokens, products),
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    inner.normalizer = trained.normalizer
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    inner.add_special_tokens(special)
    inner.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": LLAMA2}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def merges_of(tokens: list[str], products: list[str]) -> list[tuple[str, str]]:
    """Return every pair that makes a product: products in order, their pairs by the ids of the parts."""
    ids = {token: index for index, token in enumerate(tokens)}
    result = []
    for product in products:
        pairs = [(product[:cut], product[cut:]) for cut in range(1, len(product))]
        known = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
        result += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    return result


def gguf_metadata_of(tokenizer: Any, rule: str = "") -> dict[str, Any]:
    """Return what a GGUF file says of a tokenizer of one of the folders; `rule` is for byte-level ones."""
    raw = json.loads(tokenizer._inner.to_str())
    vocabulary = {**raw["model"]["vocab"], **{token["content"]: token["id"] for token in raw["added_tokens"]}}
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    special = {token["content"] for token in raw["added_tokens"]}
    types = [2 if t == "<unk>" else 3 if t in special else 6 if t.startswith("<0x") else 1 for t in tokens]
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2" if rule else "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, np.int32),
    }
    if rule:
        metadata["tokenizer.ggml.pre"] = rule
        metadata["tokenizer.ggml.merges"] = [" ".join(pair) for pair in raw["model"]["merges"]]
    else:
        metadata["tokenizer.ggml.scores"] = -np.arange(len(tokens), dtype=np.float32)
    return metadata


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MODERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


_TABLES: dict[int, tuple[Any, dict[str, int], dict[Any, int]]] = {}


def tables(key: int, metadata: Mapping[str, Any]) -> tuple[dict[str, int], dict[Any, int]]:
    """Return the ids of tokens and the ranks of pairs, made once for each file."""
    if key not in _TABLES:
        tokens = {token: index for index, token in enumerate(metadata["tokenizer.ggml.tokens"])}
        merges = metadata["tokenizer.ggml.merges"]
        ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(merges)}
        _TABLES[key] = (merges, tokens, ranks)  # the list is kept, so that no other can have its key
    return _TABLES[key][1:]


def naive_bpe(metadata: Mapping[str, Any], text: str) -> list[int]:
    """Return the ids of a text without special tokens, by the rules of GPT-2's paper."""
    regex = pytest.importorskip("regex", reason="needs regex, which is not installed")
    rule = metadata["tokenizer.ggml.pre"]
    tokens, ranks = tables(id(metadata["tokenizer.ggml.merges"]), metadata)
    if rule == "qwen2":
        text = unicodedata.normalize("NFC", text)
    if rule in {"gpt-2", "smollm"}:
        parts = regex.findall(r"\p{N}|[^\p{N}]+", text) if rule == "smollm" else [text]
        words = [word for part in parts for word in regex.findall(GPT2, part)]
    else:
        words = regex.findall(MODERN.replace("DIGITS", "" if rule == "qwen2" else "{1,3}"), text)
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in printable]
    shown = {byte: chr(byte) if byte in printable else chr(256 + hidden.index(byte)) for byte in range(256)}
    ids = []
    for word in words:
        pieces = [shown[byte] for byte in word.encode() if shown[byte] in tokens]  # as the library does
        if rule == "llama-bpe" and "".join(pieces) in tokens:  # whole words need no merges
            pieces = ["".join(pieces)]
        while True:
            neighbours = enumerate(itertools.pairwise(pieces))
            pairs = [(ranks[pair], place) for place, pair in neighbours if pair in ranks]
            if not pairs:
                break
            _, place = min(pairs)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        ids += [tokens[piece] for piece in pieces]
    return ids
