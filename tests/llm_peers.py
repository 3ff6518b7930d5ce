"""Small random models of transformers, saved as folders: what ours are compared with."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")
pytest.importorskip("tokenizers", reason="needs tokenizers, which is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="needs transformers, which is not installed")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

from hami.backends.llm.executors.sizing import Limits  # noqa: E402
from hami.backends.llm.executors.torch_executor import TorchExecutor  # noqa: E402
from hami.backends.llm.weights import open_weights  # noqa: E402

SMALL: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": [2, 5],
    "bos_token_id": 1,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
# The kinds of models, by a name: the class of transformers and what its configuration has beside SMALL.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-bias": ("Llama", {"attention_bias": True}),
    "llama-one-kv-head": ("Llama", {"num_key_value_heads": 1}),
    "llama-all-kv-heads": ("Llama", {"num_key_value_heads": 4}),
    "llama-wide-heads": ("Llama", {"head_dim": 32}),
    "llama3-rope": ("Llama", {"rope_parameters": LLAMA3_ROPE}),
    "linear-rope": (
        "Llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 3.0}},
    ),
    "qwen2": ("Qwen2", {}),
    "qwen2-tied": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "qwen3-tied": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}


def peer(kind: str) -> Any:
    """Return a random model of transformers, its biases and norms too."""
    name, changes = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **changes})
    torch.manual_seed(len(kind))
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.1)
    return model


def save(model: Any, folder: Path, **options: Any) -> Path:
    """Save the model as a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder, **options)
    return folder


def executor_of(folder: Path, *, dtype: str = "float32", layout: str = "", **limits: Any) -> TorchExecutor:
    """Return an executor of the model in a folder or file."""
    config, weights, _ = open_weights(folder)
    made = TorchExecutor(
        config, weights, Limits(**{"num_pages": 64, "page_size": 4, **limits}), dtype=dtype, layout=layout
    )
    weights.close()
    return made


@torch.inference_mode()
def peer_logits(model: Any, tokens: list[int]) -> Any:
    """Return the logits of every token."""
    return model(torch.tensor([tokens])).logits[0].float()
