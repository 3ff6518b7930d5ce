"""The weights of a model under the names of Hugging Face, from a folder or from a GGUF file.

The torch models, and the packing of the CPU's, read every tensor here, one at a time and in the type they
want. The rotary pairs of GGUF's `llama` files are brought back into the order that the models expect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from hami.errors import BuildError

from .config import ModelConfig, config_of_folder, config_of_gguf
from .gguf import GgufFile
from .safetensors_folder import SafetensorsFolder


class Weights(Protocol):
    """Named tensors of a model."""

    def __contains__(self, name: str) -> bool:
        """Say whether there is a tensor of that name."""

    def get(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return a fresh tensor; raises BuildError `llm-weights` if it is missing or has another shape."""

    def close(self) -> None:
        """Let go of the files."""


class FolderWeights:
    """The weights of a Hugging Face folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = SafetensorsFolder(folder)
        self._names = self._folder.names()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def get(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        if name not in self:
            raise missing(name, name)
        tensor = self._folder.read(name)
        check_shape(name, tuple(tensor.shape), shape)
        if not tensor.is_floating_point():
            raise _wrong(f"the weight `{name}` has the type `{tensor.dtype}`, and must be of floats")
        return tensor.to(dtype, copy=True)

    def close(self) -> None:
        self._folder.close()


# GGUF's names of what is not in a layer, and of what is.
_GLOBAL_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name: str) -> str:
    """Return GGUF's name of a tensor, from Hugging Face's."""
    if name in _GLOBAL_NAMES:
        return _GLOBAL_NAMES[name]
    _, _, layer, rest = name.split(".", 3)  # model.layers.3.self_attn.q_proj.weight
    module, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{_LAYER_NAMES[module]}.{kind}"


class GgufWeights:
    """The weights of a GGUF file; `raw` gives the blocks as stored, rows in the same order."""

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        self._file = file
        self._config = config

    def __contains__(self, name: str) -> bool:
        return gguf_name(name) in self._file.tensors

    def get(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        self._check(name, shape)
        values = self._in_order(name, self._file.read(gguf_name(name)))
        return torch.from_numpy(values).to(dtype)

    def raw(self, name: str, shape: tuple[int, ...]) -> tuple[str, np.ndarray[Any, Any]]:
        """Return the type's name (`Q4_1`, ...) and the stored bytes, [rows, bytes of a row]."""
        self._check(name, shape)
        stored = gguf_name(name)
        return self._file.tensors[stored].type.name, self._in_order(name, self._file.raw(stored))

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self:
            raise missing(name, gguf_name(name))
        check_shape(gguf_name(name), self._file.tensors[gguf_name(name)].shape, shape)

    def _in_order(self, name: str, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the rows with the halves of each head apart: `llama` files keep rotary pairs together."""
        heads = {"q_proj": self._config.heads, "k_proj": self._config.kv_heads}.get(name.split(".")[-2], 0)
        if self._config.architecture != "llama" or not heads:
            return rows
        is_vector = rows.ndim == 1 or rows.shape[0] == 1  # a bias
        pairs = rows.reshape(heads, -1, 2, 1 if is_vector else rows.shape[-1])
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)

    def close(self) -> None:
        self._file.tensors.clear()


def missing(name: str, stored: str) -> BuildError:
    """Return the error for a tensor that a model needs and that is not there."""
    return _wrong(f"the weight `{stored}` is missing" + (f" (`{name}`)" if name != stored else ""))


def check_shape(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise BuildError `llm-weights` unless the shapes are equal."""
    if found != wanted:
        raise _wrong(f"the weight `{name}` has the shape {list(found)}, and the model needs {list(wanted)}")


def _wrong(message: str) -> BuildError:
    return BuildError(
        message, code="llm-weights", help="fetch the model again: its weights and its configuration differ"
    )


def find_model(path: str | Path) -> Path:
    """Return the folder or GGUF file that `path` names; a folder with one GGUF file stands for it."""
    given = Path(path)
    if given.is_dir() and not (given / "config.json").is_file():
        files = sorted(given.glob("*.gguf"))
        if len(files) != 1:
            raise BuildError(
                f"the folder `{given}` has no `config.json`"
                + (f" and {len(files)} GGUF files" if files else ""),
                code="model-file",
                help="name a folder in Hugging Face's layout, or one GGUF file",
            )
        return files[0]
    if not given.exists():
        raise BuildError(
            f"there is no model `{given}`",
            code="model-file",
            help="name a folder in Hugging Face's layout, or a GGUF file",
        )
    return given


def open_weights(path: str | Path) -> tuple[ModelConfig, Weights, GgufFile | None]:
    """Return the configuration and the weights of a model, and the GGUF file if it is one."""
    found = find_model(path)
    if found.is_dir():
        return config_of_folder(found), FolderWeights(found), None
    file = GgufFile(found)
    shapes = {name: entry.shape for name, entry in file.tensors.items()}
    freqs = file.read("rope_freqs.weight").ravel().tolist() if "rope_freqs.weight" in shapes else []
    config = config_of_gguf(file.metadata, shapes, tuple(float(value) for value in freqs))
    return config, GgufWeights(file, config), file
