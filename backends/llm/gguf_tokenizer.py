"""Builds the tokenizer that a GGUF file describes: byte-level BPE (`gpt2`) and SentencePiece's BPE (`llama`).

A file names only which rule splits a text before the merges; the rules themselves stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from hami.errors import BuildError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # types of tokens

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The rules by their names in files: a pattern of words, or none for GPT-2's own.
LLAMA3 = _CONTRACTIONS + r"\p{N}{1,3}" + _REST
QWEN2 = _CONTRACTIONS + r"\p{N}" + _REST
LLAMA3_NAMES = ("llama-bpe", "llama3", "llama-v3")
SPLITS = {"gpt-2": None, "smollm": None, "qwen2": QWEN2, **dict.fromkeys(LLAMA3_NAMES, LLAMA3)}


def tokenizer_of_gguf(metadata: Mapping[str, Any], path: Path) -> tuple[Tokenizer, bool]:
    """Return the tokenizer, and whether a text begins with a token of its own."""
    kind = metadata.get("tokenizer.ggml.model")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens) or not tokens:
        raise _wrong(path, "it has no list of tokens")
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        types = np.full(len(tokens), NORMAL)
    if not isinstance(types, np.ndarray) or len(types) != len(tokens):
        raise _wrong(path, f"it has {len(tokens)} tokens and not as many types")
    if kind == "gpt2":
        inner = _byte_level(metadata, tokens, path)
    elif kind == "llama":
        inner = _sentence_piece(metadata, tokens, types, path)
    else:
        raise _wrong(path, f"its kind is `{kind}`, and `gpt2` and `llama` are known")
    for token, type_ in zip(tokens, types.tolist(), strict=True):
        if type_ in {CONTROL, USER_DEFINED}:
            special = type_ == CONTROL
            inner.add_tokens([AddedToken(token, special=special, normalized=False)])
            if special:
                inner.add_special_tokens([AddedToken(token, special=True, normalized=False)])
    adds_bos = metadata.get("tokenizer.ggml.add_bos_token")
    wants = kind == "llama" or metadata.get("tokenizer.ggml.pre") in LLAMA3_NAMES
    return inner, wants if adds_bos is None else adds_bos is True


def _wrong(path: Path, reason: str) -> BuildError:
    return BuildError(
        f"the tokenizer in `{path}` cannot be used: {reason}",
        code="llm-tokenizer",
        help="use another GGUF file, or the folder that it was made from",
    )


def _byte_level(metadata: Mapping[str, Any], tokens: list[str], path: Path) -> Tokenizer:
    merges = metadata.get("tokenizer.ggml.merges")
    is_list = isinstance(merges, list) and all(isinstance(merge, str) for merge in merges)
    pairs = [merge.split(" ") for merge in merges] if is_list else []
    if not is_list or any(len(pair) != 2 for pair in pairs):
        raise _wrong(path, "its merges are no pairs of tokens")
    pre = metadata.get("tokenizer.ggml.pre")
    if not isinstance(pre, str) or pre not in SPLITS:
        known = ", ".join(f"`{name}`" for name in SPLITS)
        raise _wrong(path, f"it splits texts by the rule `{pre}`, and {known} are known")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    inner = Tokenizer(
        _bpe(
            path,
            vocabulary,
            [(left, right) for left, right in pairs],
            ignore_merges=pre in LLAMA3_NAMES,
        )
    )
    pattern = SPLITS[pre]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pre == "smollm":
        inner.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level]
        )
    elif pattern is not None:
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        inner.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    else:
        inner.pre_tokenizer = byte_level
    if pre == "qwen2":
        inner.normalizer = normalizers.NFC()
    inner.decoder = decoders.ByteLevel()
    return inner


def _sentence_piece(metadata: Mapping[str, Any], tokens: list[str], types: Any, path: Path) -> Tokenizer:
    scores = metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, np.ndarray) or len(scores) != len(tokens):
        raise _wrong(path, f"it has {len(tokens)} tokens and not as many scores")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = _merges_by_score(vocabulary, scores.tolist())
    unknown = next(
        (token for token, type_ in zip(tokens, types.tolist(), strict=True) if type_ == UNKNOWN), None
    )
    inner = Tokenizer(_bpe(path, vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    has_prefix = metadata.get("tokenizer.ggml.add_space_prefix") is not False
    prefix = [normalizers.Prepend("▁")] if has_prefix else []
    inner.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return inner


def _merges_by_score(vocabulary: Mapping[str, int], scores: list[float]) -> list[tuple[str, str]]:
    """Return every way to make a token of two others, the best token first, as SentencePiece does."""
    found = []
    for token, index in vocabulary.items():
        for cut in range(1, min(len(token), 256)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                found.append((-scores[index], vocabulary[left], vocabulary[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]


def _bpe(path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], **options: Any) -> models.BPE:
    try:
        return models.BPE(vocab=vocabulary, merges=merges, **options)
    except Exception as error:  # the library raises nothing narrower
        raise _wrong(path, f"its merges do not fit its tokens: {error}") from error
