"""Configurations: the fields of Hugging Face's folders, what they leave out, and what is not supported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami.backends.llm.config import ModelConfig, RopeScaling, config_of_folder, config_of_json
from hami.errors import BuildError

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
}


def of(**changes: Any) -> ModelConfig:
    return config_of_json({**LLAMA, **changes})


def test_a_plain_llama() -> None:
    config = of()
    assert (config.architecture, config.layers, config.hidden, config.head_dim) == ("llama", 2, 64, 8)
    assert (config.heads, config.kv_heads, config.rope_theta, config.rope_scaling) == (8, 2, 10000.0, None)
    assert not (config.tie_embeddings or config.qkv_bias or config.output_bias or config.qk_norm)
    assert config.kv_elements_per_token == 2 * 2 * 2 * 8


def test_qwen2_has_a_bias_and_qwen3_norms() -> None:
    qwen2, qwen3 = of(architectures=["Qwen2ForCausalLM"]), of(architectures=["Qwen3ForCausalLM"], head_dim=16)
    assert qwen2.qkv_bias and not qwen2.output_bias and not qwen2.qk_norm
    assert qwen3.qk_norm and not qwen3.qkv_bias and qwen3.head_dim == 16
    assert of(attention_bias=True).qkv_bias and of(attention_bias=True).output_bias


def test_what_older_files_leave_out_has_its_meaning() -> None:
    raw = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert config_of_json(raw).kv_heads == 8
    assert of(head_dim=None).head_dim == 8
    assert of(torch_dtype="bfloat16").dtype == of(dtype="bfloat16").dtype == "bfloat16"


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4}},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 500000, "factor": 4.0}},
    ],
)
def test_rotary_scaling_is_read_in_its_old_and_its_new_form(changes: dict[str, Any]) -> None:
    config = of(**changes)
    assert config.rope_theta == 5e5 and config.rope_scaling == RopeScaling("linear", 4.0)


def test_llama3_scaling() -> None:
    raw = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = of(rope_scaling={**raw, "original_max_position_embeddings": 8192})
    assert config.rope_scaling == RopeScaling("llama3", 32.0, 1.0, 4.0, 8192)
    assert of(rope_scaling={"rope_type": "default"}).rope_scaling is None


def test_end_tokens_of_the_generation_configuration_come_first(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "eos_token_id": 2, "bos_token_id": 1}))
    assert config_of_folder(tmp_path).eos_ids == (2,)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 2, 7]}))
    config = config_of_folder(tmp_path)
    assert config.eos_ids == (7, 2) and config.bos_id == 1
    assert of(eos_token_id=None).eos_ids == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["MixtralForCausalLM"]}, "`MixtralForCausalLM`"),
        ({"architectures": None, "model_type": "mamba"}, "`model type mamba`"),
        ({"architectures": []}, "model type unknown"),
        ({"num_experts": 8}, "it has experts"),
        ({"use_sliding_window": True}, "sliding window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding window"),
        ({"hidden_act": "gelu"}, "`gelu`"),
        ({"partial_rotary_factor": 0.5}, "a part of each head"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "a part of each head"),
        ({"mlp_bias": True}, "bias"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "`yarn`"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
    ],
)
def test_another_model_is_refused_by_name_with_what_is_supported(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError) as caught:
        of(**changes)
    assert caught.value.code == "llm-architecture" and said in caught.value.message
    assert (
        "LlamaForCausalLM" in caught.value.message + caught.value.help
        and "`Qwen3ForCausalLM`" in caught.value.help
    )


def test_full_attention_in_every_layer_is_supported() -> None:
    assert of(layer_types=["full_attention"] * 2, sliding_window=None, use_sliding_window=False).layers == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": None}, "`hidden_size`"),
        ({"hidden_size": "64"}, "`hidden_size`"),
        ({"num_hidden_layers": 0}, "`layers`"),
        ({"num_hidden_layers": 10**9}, "`layers`"),
        ({"num_attention_heads": 0}, "`heads`"),
        ({"num_key_value_heads": 3}, "cannot share"),
        ({"num_key_value_heads": 0}, "`kv_heads`"),
        ({"head_dim": 7}, "even"),
        ({"vocab_size": -1}, "`vocab`"),
        ({"vocab_size": True}, "`vocab_size`"),
        ({"rms_norm_eps": 0}, "`rms_norm_eps`"),
        ({"rms_norm_eps": "x"}, "`rms_norm_eps`"),
        ({"rope_theta": float("nan")}, "`rope_theta`"),
        ({"eos_token_id": [-1]}, "names no tokens"),
        ({"eos_token_id": "</s>"}, "names no tokens"),
        ({"bos_token_id": [True]}, "names no tokens"),
    ],
)
def test_a_number_that_cannot_be_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError) as caught:
        of(**changes)
    assert caught.value.code == "llm-config" and said in caught.value.message


@pytest.mark.parametrize("content", ["", "{", "[1]", "\ud800".encode("utf-8", "surrogatepass"), "[" * 100000])
def test_a_broken_file_is_named(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / "config.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BuildError, match=r"config\.json") as caught:
        config_of_folder(tmp_path)
    assert caught.value.code == "llm-config"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"config\.json"):
        config_of_folder(tmp_path)
