"""Weights of folders and files: how a model is found, and that what is missing or damaged is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from llm_gguf import gguf_of_model
from llm_peers import peer, save, torch
from safetensors.torch import load_file, save_file

from hami.backends.llm.models import MODELS
from hami.backends.llm.weights import FolderWeights, find_model, gguf_name, open_weights
from hami.errors import BuildError

NAME = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(peer("llama"), tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of a model's folder that a test may break."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def build(folder: Path) -> None:
    config, weights, _ = open_weights(folder)
    MODELS[config.architecture](config, weights, dtype=torch.float32, device=torch.device("cpu"))


def refusal(folder: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        build(folder)
    assert caught.value.help
    return caught.value


def change(folder: Path, **changes: Any) -> None:
    """Replace tensors of the folder; None removes one."""
    tensors = {**load_file(folder / "model.safetensors"), **changes}
    save_file(
        {name: each for name, each in tensors.items() if each is not None}, folder / "model.safetensors"
    )


def test_the_whole_model_is_built(folder: Path) -> None:
    build(folder)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    change(folder, **{NAME: None})
    error = refusal(folder)
    assert error.code == "llm-weights" and f"`{NAME}` is missing" in error.message


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder: Path) -> None:
    change(folder, **{NAME: torch.zeros(64, 111)})
    error = refusal(folder)
    assert error.code == "llm-weights" and "[64, 111]" in error.message and "[64, 112]" in error.message


def test_a_tensor_of_integers_is_named(folder: Path) -> None:
    change(folder, **{NAME: torch.zeros(64, 112, dtype=torch.int8)})
    error = refusal(folder)
    assert error.code == "llm-weights" and "int8" in error.message


def test_a_model_without_a_head_of_its_own_uses_the_embedding(folder: Path) -> None:
    change(folder, **{"lm_head.weight": None})
    build(folder)


@pytest.mark.parametrize("keep", [0, 7, 100, 5000])
def test_a_truncated_file_is_named(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    error = refusal(folder)
    assert error.code == "model-file" and "model.safetensors" in error.message


def test_a_header_that_claims_too_much_is_refused(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes((1 << 62).to_bytes(8, "little") + file.read_bytes()[8:])
    assert refusal(folder).code == "model-file"


def test_a_folder_without_weights_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    error = refusal(folder)
    assert error.code == "model-file" and "model.safetensors.index.json" in error.message


@pytest.mark.parametrize("place", ["../other.safetensors", "/etc/passwd", "a/b", "..", ""])
def test_an_index_may_not_point_out_of_its_folder(folder: Path, place: str) -> None:
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {NAME: place}}))
    error = refusal(folder)
    assert error.code == "model-file" and "outside" in error.message


@pytest.mark.parametrize("content", ["{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}'])
def test_an_index_without_a_map_is_refused(folder: Path, content: str) -> None:
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(content)
    assert refusal(folder).code == "model-file"


def test_a_missing_part_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"model.embed_tokens.weight": "lost.safetensors"}})
    )
    error = refusal(folder)
    assert error.code == "model-file" and "lost.safetensors" in error.message


def test_an_index_that_names_what_its_part_does_not_have_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps(
            {"weight_map": {"model.embed_tokens.weight": "part.safetensors", NAME: "part.safetensors"}}
        )
    )
    tensors = load_file(folder / "part.safetensors")
    del tensors["model.embed_tokens.weight"]
    save_file(tensors, folder / "part.safetensors")
    error = refusal(folder)
    assert error.code == "model-file" and "model.embed_tokens.weight" in error.message


def test_a_tensor_is_read_fresh_in_the_type_that_is_wanted(folder: Path) -> None:
    weights = FolderWeights(folder)
    first = weights.get("model.norm.weight", (64,))
    first.zero_()
    assert weights.get("model.norm.weight", (64,)).abs().sum() > 0
    assert weights.get("model.norm.weight", (64,), torch.float16).dtype == torch.float16
    assert NAME in weights and "nothing" not in weights
    weights.close()


def test_a_folder_with_one_gguf_file_stands_for_it(tmp_path: Path) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(gguf_of_model(peer("qwen3-tied")))
    assert find_model(tmp_path) == find_model(str(file)) == file
    build(tmp_path)
    (tmp_path / "other.gguf").touch()
    with pytest.raises(BuildError, match="2 GGUF files") as caught:
        find_model(tmp_path)
    assert caught.value.code == "model-file"


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nothing", tmp_path / "nothing.gguf"):
        with pytest.raises(BuildError, match=place.name) as caught:
            open_weights(place)
        assert caught.value.code == "model-file"


def test_a_missing_tensor_of_a_gguf_file_has_both_names(tmp_path: Path) -> None:
    model = peer("llama")
    raw = gguf_of_model(model).replace(b"blk.1.ffn_down", b"blk.1.ffn_dowx")
    (tmp_path / "some.gguf").write_bytes(raw)
    error = refusal(tmp_path)
    assert error.code == "llm-weights"
    assert "`blk.1.ffn_down.weight`" in error.message and f"`{NAME}`" in error.message


def test_names_of_gguf_files_are_those_of_their_folders() -> None:
    assert gguf_name(NAME) == "blk.1.ffn_down.weight"
    assert gguf_name("model.layers.12.self_attn.q_norm.weight") == "blk.12.attn_q_norm.weight"
    assert gguf_name("lm_head.weight") == "output.weight"
