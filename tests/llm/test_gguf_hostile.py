"""A damaged or hostile GGUF file is an error that names the offset, never a crash."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llm_gguf import encoded, gguf, text, value

from hami.errors import BuildError

pytest.importorskip("torch", reason="needs torch, which is not installed")
pytest.importorskip("tokenizers", reason="needs tokenizers, which is not installed")

from hami.backends.llm.tokenizer import load_tokenizer
from hami.backends.llm.weights import open_weights

METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 64,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 32,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["a", "b", "ab", "<s>"],
    "tokenizer.ggml.token_type": [1, 1, 1, 3],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 3,
}
TENSORS = {
    "token_embd.weight": encoded(np.ones((4, 32), np.float32), "Q8_0"),
    "output_norm.weight": encoded(np.ones(32, np.float32), "F32"),
    "blk.0.attn_q.weight": encoded(np.ones((32, 32), np.float32), "Q4_1"),
}
GOOD = gguf(METADATA, TENSORS)
HEAD = b"GGUF" + struct.pack("<I", 3)


def read_all(path: Path) -> None:
    """Read everything that a file offers."""
    config, weights, file = open_weights(path)
    assert file is not None
    load_tokenizer(config, file)
    for name in list(file.tensors):
        file.read(name)
    weights.get("model.norm.weight", (config.hidden,))


def refusal(folder: Path, raw: bytes) -> BuildError:
    path = folder / "model.gguf"
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(BuildError) as caught:
            read_all(path)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(raw) + (1 << 20)
    finally:
        tracemalloc.stop()
    assert caught.value.help
    return caught.value


def test_the_good_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(GOOD)
    read_all(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for length in [*range(1, 1400, 7), *range(1400, len(GOOD) - 32, 131)]:
        error = refusal(tmp_path, GOOD[:length])
        assert error.code == "llm-gguf" and "at byte" in error.message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6)
)
def test_a_file_with_wrong_bytes_is_read_or_refused(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(GOOD)
    for place, byte in changes:
        raw[place % 1500] = byte  # in the head, where lengths and types stand
    path = tmp_path / "wrong.gguf"
    path.write_bytes(raw)
    try:
        read_all(path)
    except BuildError as error:
        assert error.code.startswith("llm-")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=200))
def test_random_bytes_are_refused(tmp_path: Path, tail: bytes) -> None:
    refusal(tmp_path, HEAD + tail)


HUGE = [(1 << 64) - 1, (1 << 63) + 5, 1 << 40, 1 << 32]


@pytest.mark.parametrize("count", HUGE)
def test_huge_counts_are_refused_before_anything_is_allocated(tmp_path: Path, count: int) -> None:
    one = struct.pack("<QQ", 0, 1) + text("k")
    for raw in (
        HEAD + struct.pack("<QQ", count, 0),
        HEAD + struct.pack("<QQ", 0, count),
        HEAD + struct.pack("<QQQ", 0, 1, count) + b"key",
        HEAD + one + struct.pack("<IQ", 8, count),
        *(HEAD + one + struct.pack("<IIQ", 9, kind, count) for kind in range(13)),
        HEAD + one + struct.pack("<IIQIQ", 9, 9, 1, 0, count),
        HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQQIQ", 2, count, count, 0, 0),
        HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQIQ", 1, 32, 0, count // 32 * 32),
    ):
        assert refusal(tmp_path, raw + b"\0" * 64).code == "llm-gguf"


def entry(key: str, item: Any) -> bytes:
    return text(key) + value(item)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"GGML" + b"\0" * 40, "does not begin with `GGUF`"),
        (b"GGUF" + struct.pack("<I", 1) + b"\0" * 40, "version is `1`"),
        (b"GGUF" + struct.pack(">I", 3) + b"\0" * 40, "big-endian"),
        (HEAD + struct.pack("<QQ", 0, 2) + entry("a", 1) * 2, "`a` stands there twice"),
        (HEAD + struct.pack("<QQQ", 0, 1, 2) + b"\xff\xfe" + value(1) + b"\0" * 9, "not UTF-8"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<I", 77), "unknown type 77"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 77, 0), "unknown type 77"),
        (
            HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9,
            "deeper",
        ),
        (gguf({"general.alignment": 0}, {}), "alignment"),
        (gguf({"general.alignment": "x"}, {}), "alignment"),
        (gguf({}, {"t": ("F32", (0, 4), b"")}), "shape [0, 4]"),
        (gguf({}, {"t": ("Q8_0", (2, 33), b"\0" * 68)}), "blocks of 32"),
        (gguf({}, {"t": ("F32", (1,) * 5, b"\0" * 4)}), "5 dimensions"),
        (gguf({}, {"t": ("F32", (4, 100), b"\0" * 1500)}), "takes 1600 bytes"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, raw: bytes, said: str) -> None:
    error = refusal(tmp_path, raw)
    assert error.code == "llm-gguf" and said in error.message


def test_an_unknown_quantisation_is_named_with_what_is_known(tmp_path: Path) -> None:
    raw = bytearray(gguf({}, {"t": ("F32", (4,), b"\0" * 16)}))
    raw[raw.index(b"t", 24) + 1 + 4 + 8] = 12
    error = refusal(tmp_path, bytes(raw))
    assert error.code == "llm-quantisation" and "type 12" in error.message and "`Q4_1`" in error.help


@pytest.mark.parametrize(
    ("key", "item", "code"),
    [
        ("general.architecture", "mamba", "llm-architecture"),
        ("general.architecture", [1, 2], "llm-architecture"),
        ("llama.expert_count", 8, "llm-architecture"),
        ("llama.attention.sliding_window", 4096, "llm-architecture"),
        ("llama.rope.scaling.type", "yarn", "llm-architecture"),
        ("llama.rope.dimension_count", 8, "llm-architecture"),
        ("llama.block_count", 0, "llm-config"),
        ("llama.block_count", 1 << 30, "llm-config"),
        ("llama.block_count", "many", "llm-config"),
        ("llama.block_count", [1], "llm-config"),
        ("llama.expert_count", [1, 2], "llm-config"),
        ("llama.rope.scaling.type", ["linear"], "llm-config"),
        ("llama.embedding_length", True, "llm-config"),
        ("llama.embedding_length", 64, "llm-weights"),
        ("llama.attention.head_count", 0, "llm-config"),
        ("llama.attention.head_count_kv", 3, "llm-config"),
        ("llama.attention.key_length", 3, "llm-config"),
        ("llama.attention.layer_norm_rms_epsilon", float("nan"), "llm-config"),
        ("tokenizer.ggml.eos_token_id", -1, "llm-config"),
        ("tokenizer.ggml.model", "wordpiece", "llm-tokenizer"),
        ("tokenizer.ggml.model", "llama", "llm-tokenizer"),
        ("tokenizer.ggml.pre", "unheard-of", "llm-tokenizer"),
        ("tokenizer.ggml.pre", ["x"], "llm-tokenizer"),
        ("tokenizer.ggml.tokens", [1, 2], "llm-tokenizer"),
        ("tokenizer.ggml.tokens", [], "llm-tokenizer"),
        ("tokenizer.ggml.token_type", [1], "llm-tokenizer"),
        ("tokenizer.ggml.token_type", "x", "llm-tokenizer"),
        ("tokenizer.ggml.merges", ["a c"], "llm-tokenizer"),
        ("tokenizer.ggml.merges", ["a"], "llm-tokenizer"),
        ("tokenizer.ggml.merges", 3, "llm-tokenizer"),
    ],
)
def test_metadata_that_cannot_be_is_refused(tmp_path: Path, key: str, item: Any, code: str) -> None:
    error = refusal(tmp_path, gguf({**METADATA, key: item}, TENSORS))
    assert error.code == code
