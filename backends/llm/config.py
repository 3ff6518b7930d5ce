"""What a model is made of: `ModelConfig`, read from a Hugging Face folder or from a GGUF file.

Everything else in this family takes its sizes from here. A model of another kind than the supported ones is
refused here, by name, before any weight is read. Plain Python: nothing of this needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hami.errors import BuildError, quoted

# Hugging Face's names of the supported architectures, and ours.
ARCHITECTURES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}
MAX_LAYERS, MAX_SIZE = 1000, 1 << 24  # far above any model; a larger number is a damaged file


@dataclass(frozen=True)
class RopeScaling:
    """How the rotary frequencies differ from the plain ones.

    `kind` is `linear` (positions divided by `factor`), `llama3` (low frequencies divided by `factor`, with a
    smooth passage) or `factors` (each frequency divided by its own entry of `factors`).
    """

    kind: str
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    factors: tuple[float, ...] = ()


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and constants of a dense decoder; `dtype` is the name of the type its weights are stored in."""

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    rms_eps: float
    rope_theta: float
    max_position: int
    rope_scaling: RopeScaling | None = None
    tie_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name in (
            "layers",
            "hidden",
            "heads",
            "kv_heads",
            "head_dim",
            "intermediate",
            "vocab",
            "max_position",
        ):
            value = getattr(self, name)
            limit = MAX_LAYERS if name == "layers" else MAX_SIZE
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= limit:
                raise _damaged(f"`{name}` is `{value}`, and must be between 1 and {limit}")
        if self.heads % self.kv_heads:
            raise _damaged(f"{self.heads} heads cannot share {self.kv_heads} heads of keys and values")
        if self.head_dim % 2:
            raise _damaged(f"`head_dim` is `{self.head_dim}`, and must be even")

    @property
    def kv_elements_per_token(self) -> int:
        """Return how many numbers the keys and values of one token are over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def _damaged(message: str) -> BuildError:
    return BuildError(
        f"the model's configuration is wrong: {message}",
        code="llm-config",
        help="fetch the model again; its configuration is damaged or incomplete",
    )


def unsupported(architecture: str, what: str) -> BuildError:
    """Return the error for a model that this family cannot run: its architecture, and what of it."""
    return BuildError(
        f"the architecture `{architecture}` is not supported: {what}",
        code="llm-architecture",
        help=f"supported are dense models of the kinds {quoted(ARCHITECTURES)}, in a folder or as GGUF",
    )


# --- Hugging Face folders ----------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; raises BuildError `llm-config`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(f"`{path}` cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise _damaged(f"`{path}` holds no object")
    return value


def config_of_folder(folder: Path) -> ModelConfig:
    """Return the configuration in `config.json`, with the end tokens of `generation_config.json`."""
    generation = folder / "generation_config.json"
    return config_of_json(
        read_json(folder / "config.json"), read_json(generation) if generation.is_file() else {}
    )


def config_of_json(raw: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> ModelConfig:
    """Return the configuration that the objects of a Hugging Face folder describe."""
    names = raw.get("architectures") or [f"model type {raw.get('model_type', 'unknown')}"]
    name = str(names[0] if isinstance(names, list) else names)
    if name not in ARCHITECTURES:
        raise unsupported(name, "only the layout of these is known")
    architecture = ARCHITECTURES[name]
    _check_dense(raw, name)
    hidden, heads = _number(raw, "hidden_size"), _number(raw, "num_attention_heads")
    rope = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    ids = _ids((generation or {}).get("eos_token_id", raw.get("eos_token_id")))
    bos = _ids((generation or {}).get("bos_token_id", raw.get("bos_token_id")))
    bias = raw.get("attention_bias") is True
    return ModelConfig(
        architecture=architecture,
        layers=_number(raw, "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=_number(raw, "num_key_value_heads", heads),
        head_dim=_number(raw, "head_dim", hidden // heads if heads else 0),
        intermediate=_number(raw, "intermediate_size"),
        vocab=_number(raw, "vocab_size"),
        rms_eps=_float(raw, "rms_norm_eps", 1e-6),
        rope_theta=_float(rope, "rope_theta", _float(raw, "rope_theta", 10000.0)),
        rope_scaling=_scaling(rope, name),
        max_position=_number(raw, "max_position_embeddings", 2048),
        tie_embeddings=raw.get("tie_word_embeddings") is True,
        qkv_bias=architecture == "qwen2" or bias,
        output_bias=bias and architecture != "qwen2",
        qk_norm=architecture == "qwen3",
        eos_ids=ids,
        bos_id=bos[0] if bos else None,
        dtype=str(raw.get("dtype") or raw.get("torch_dtype") or "float32"),
    )


def _check_dense(raw: Mapping[str, Any], name: str) -> None:
    if raw.get("quantization_config"):
        raise unsupported(
            name, "its weights are quantised in a way of their own; of quantised ones GGUF is read"
        )
    if any(raw.get(key) for key in ("num_experts", "num_local_experts", "n_routed_experts")):
        raise unsupported(name, "it has experts")
    kinds = set(raw.get("layer_types") or ()) - {"full_attention"}
    if raw.get("use_sliding_window") is True or kinds:
        raise unsupported(name, "it attends in a sliding window")
    if raw.get("hidden_act", "silu") != "silu":
        raise unsupported(name, f"its activation is `{raw['hidden_act']}`, and only `silu` is known")
    rope = {**raw, **(raw.get("rope_parameters") or {})}
    if rope.get("partial_rotary_factor") not in {None, 1}:
        raise unsupported(name, "only a part of each head is rotated")
    if raw.get("mlp_bias") is True:
        raise unsupported(name, "its feed-forward layers have a bias")


def _number(raw: Mapping[str, Any], key: str, otherwise: int | None = None) -> int:
    value = raw.get(key)
    if value is None and otherwise is not None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int):
        raise _damaged(f"`{key}` is `{value}`, and must be a whole number")
    return value


def _float(raw: Mapping[str, Any], key: str, otherwise: float) -> float:
    value = raw.get(key)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _damaged(f"`{key}` is `{value}`, and must be a number above 0")
    return float(value)


def _ids(value: Any) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(item, bool) or not isinstance(item, int) or item < 0 for item in ids):
        raise _damaged(f"`{value}` names no tokens")
    return tuple(dict.fromkeys(ids))


def _scaling(rope: Mapping[str, Any], name: str) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", _float(rope, "factor", 1.0))
    if kind == "llama3":
        return RopeScaling(
            "llama3",
            _float(rope, "factor", 8.0),
            _float(rope, "low_freq_factor", 1.0),
            _float(rope, "high_freq_factor", 4.0),
            _number(rope, "original_max_position_embeddings", 8192),
        )
    raise unsupported(name, f"its rotary scaling is `{kind}`, and only `linear` and `llama3` are known")


# --- GGUF --------------------------------------------------------------------------------------


def config_of_gguf(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]], factors: tuple[float, ...] = ()
) -> ModelConfig:
    """Return the configuration of a GGUF file: its metadata, its tensors' shapes, and `rope_freqs.weight`."""
    name = str(metadata.get("general.architecture", "unknown"))
    if name not in ARCHITECTURES.values():
        raise unsupported(name, "only the layout of `llama`, `qwen2` and `qwen3` is known")

    def own(key: str) -> Any:
        value = metadata.get(f"{name}.{key}")
        if value is not None and not isinstance(value, (int, float, str)):
            raise _damaged(f"`{name}.{key}` is no single value")
        return value

    if own("expert_count"):
        raise unsupported(name, "it has experts")
    if own("attention.sliding_window"):
        raise unsupported(name, "it attends in a sliding window")
    embedding = tensors.get("token_embd.weight", (0, 0))
    hidden = _number({"embedding_length": own("embedding_length")}, "embedding_length")
    heads = _number({"head_count": own("attention.head_count")}, "head_count")
    kind = own("rope.scaling.type") or "none"
    if kind not in {"none", "linear"}:
        raise unsupported(name, f"its rotary scaling is `{kind}`, and only `linear` is known")
    scaling = RopeScaling("linear", _float({"factor": own("rope.scaling.factor")}, "factor", 1.0))
    if factors:
        scaling = RopeScaling("factors", factors=factors)
    head_dim = _number(
        {"key_length": own("attention.key_length")}, "key_length", hidden // heads if heads else 0
    )
    if own("rope.dimension_count") not in {None, head_dim}:
        raise unsupported(name, "only a part of each head is rotated")
    if factors and (
        len(factors) != head_dim // 2 or not all(0 < factor < float("inf") for factor in factors)
    ):
        raise _damaged(
            f"`rope_freqs.weight` has {len(factors)} factors, not all of use, for heads of {head_dim}"
        )
    special = [metadata.get(f"tokenizer.ggml.{role}_token_id") for role in ("eos", "eot", "eom")]
    bos = _ids(metadata.get("tokenizer.ggml.bos_token_id"))
    return ModelConfig(
        architecture=name,
        layers=_number({"block_count": own("block_count")}, "block_count"),
        hidden=hidden,
        heads=heads,
        kv_heads=_number({"head_count_kv": own("attention.head_count_kv")}, "head_count_kv", heads),
        head_dim=head_dim,
        intermediate=_number({"feed_forward_length": own("feed_forward_length")}, "feed_forward_length"),
        vocab=embedding[0],
        rms_eps=_float({"rms_eps": own("attention.layer_norm_rms_epsilon")}, "rms_eps", 1e-6),
        rope_theta=_float({"freq_base": own("rope.freq_base")}, "freq_base", 10000.0),
        rope_scaling=scaling if kind == "linear" or factors else None,
        max_position=_number({"context_length": own("context_length")}, "context_length", 2048),
        tie_embeddings="output.weight" not in tensors,
        qkv_bias="blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        qk_norm="blk.0.attn_q_norm.weight" in tensors,
        eos_ids=_ids([value for value in special if value is not None]),
        bos_id=bos[0] if bos else None,
        dtype="float32",
    )
