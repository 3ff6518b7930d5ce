"""Writes GGUF files by hand, whole or broken, and quantises weights block by block as the format says."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "BF16": 30}
ALIGNMENT = 32


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item: Any) -> bytes:
    """Return the type and the bytes of one value of the metadata."""
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, int):
        return struct.pack("<Ii", 5, item) if item < 0 else struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    parts = [value(part) for part in item]
    kind = struct.unpack("<I", parts[0][:4])[0] if parts else 4
    return struct.pack("<IIQ", 9, kind, len(parts)) + b"".join(part[4:] for part in parts)


def gguf(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]],
    *,
    version: int = 3,
) -> bytes:
    """Return a file of tensors, each a type, a shape (slowest first) and its bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, item in metadata.items():
        head += text(key) + value(item)
    body = b""
    for name, (kind, shape, raw) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", NUMBERS[kind], len(body))
        body += raw + b"\0" * (-len(raw) % ALIGNMENT)
    return head + b"\0" * (-len(head) % ALIGNMENT) + body


def encoded(values: np.ndarray[Any, Any], kind: str) -> tuple[str, tuple[int, ...], bytes]:
    """Return an array as a tensor of that type."""
    flat = values.astype(np.float32).ravel()
    if kind == "F32":
        raw = flat.tobytes()
    elif kind == "F16":
        raw = flat.astype(np.float16).tobytes()
    elif kind == "BF16":
        raw = (flat.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    else:
        raw = b"".join(BLOCKS[kind](block) for block in flat.reshape(-1, 32))
    return kind, values.shape, raw


def q4_0(block: np.ndarray[Any, Any]) -> bytes:
    extreme = max(block.tolist(), key=abs)
    scale = np.float16(extreme / -8)
    levels = [min(15, max(0, round(weight / float(scale or 1)) + 8)) for weight in block.tolist()]
    return scale.tobytes() + packed(levels)


def q4_1(block: np.ndarray[Any, Any]) -> bytes:
    least = np.float16(block.min())
    scale = np.float16((block.max() - block.min()) / 15)
    levels = [min(15, max(0, round((w - float(least)) / float(scale or 1)))) for w in block.tolist()]
    return scale.tobytes() + least.tobytes() + packed(levels)


def q8_0(block: np.ndarray[Any, Any]) -> bytes:
    scale = np.float16(np.abs(block).max() / 127)
    levels = [min(127, max(-127, round(weight / float(scale or 1)))) for weight in block.tolist()]
    return scale.tobytes() + struct.pack("<32b", *levels)


def packed(levels: list[int]) -> bytes:
    """Return 32 levels of four bits: byte i holds the levels i (low) and i + 16 (high)."""
    return bytes(levels[place] | levels[place + 16] << 4 for place in range(16))


BLOCKS = {"Q4_0": q4_0, "Q4_1": q4_1, "Q8_0": q8_0}


def decoded_by_hand(kind: str, raw: bytes) -> list[float]:
    """Return the weights of one block, one by one."""
    scale = float(np.frombuffer(raw[:2], np.float16)[0])
    if kind == "Q8_0":
        return [scale * level for level in struct.unpack("<32b", raw[2:])]
    least = float(np.frombuffer(raw[2:4], np.float16)[0]) if kind == "Q4_1" else -8 * scale
    nibbles = raw[4:] if kind == "Q4_1" else raw[2:]
    levels = [byte & 15 for byte in nibbles] + [byte >> 4 for byte in nibbles]
    return [scale * level + least for level in levels]


def gguf_of_model(
    model: Any, kinds: Mapping[str, str] | None = None, extra: Mapping[str, Any] | None = None
) -> bytes:
    """Return a model of transformers as a GGUF file; `kinds` gives types by a part of the name."""
    config = model.config
    name = config.model_type
    rename = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "model.layers.": "blk.",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.": "ffn_",
        "_proj.": ".",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    tensors = {}
    for key, parameter in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stored = key
        for old, new in rename.items():
            stored = stored.replace(old, new)
        array = parameter.detach().float().numpy()
        if name == "llama" and (".attn_q." in stored or ".attn_k." in stored):
            heads = config.num_attention_heads if ".attn_q." in stored else config.num_key_value_heads
            halves = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
            array = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)
        kind = next((kind for part, kind in (kinds or {}).items() if part in stored), "F32")
        tensors[stored] = encoded(array, kind if array.ndim > 1 else "F32")
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    known = {
        "general.architecture": name,
        f"{name}.block_count": config.num_hidden_layers,
        f"{name}.context_length": config.max_position_embeddings,
        f"{name}.embedding_length": config.hidden_size,
        f"{name}.feed_forward_length": config.intermediate_size,
        f"{name}.attention.head_count": config.num_attention_heads,
        f"{name}.attention.head_count_kv": config.num_key_value_heads,
        f"{name}.attention.key_length": head_dim,
        f"{name}.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        f"{name}.rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.bos_token_id": 1,
    }
    tensors |= {key: encoded(array, "F32") for key, array in (extra or {}).items()}
    return gguf(known, tensors)
