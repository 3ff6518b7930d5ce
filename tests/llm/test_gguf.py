"""GGUF files: blocks against hand-written references, models against the folders that they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_gguf import BLOCKS, NUMBERS, decoded_by_hand, encoded, gguf, gguf_of_model

from hami.backends.llm.gguf import GgufFile
from hami.errors import BuildError

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")


def write(folder: Path, raw: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(raw)
    return path


def weights(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("version", [2, 3])
def test_a_tensor_comes_back_within_its_types_precision(tmp_path: Path, kind: str, version: int) -> None:
    values = weights(6, 64)
    file = GgufFile(write(tmp_path, gguf({"a": 1}, {"x": encoded(values, kind)}, version=version)))
    assert file.tensors["x"].shape == (6, 64) and file.tensors["x"].type.name == kind
    found = file.read("x")
    step = {"F32": 0, "F16": 1e-3, "BF16": 2e-2, "Q4_0": 0.3, "Q4_1": 0.2, "Q8_0": 0.02}[kind]
    assert found.dtype == np.float32 and np.abs(found - values).max() <= step * np.abs(values).max()


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_are_decoded_as_by_hand(tmp_path: Path, kind: str) -> None:
    """Every byte is possible, also scales that are negative or denormal."""
    sizes = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}
    chance = np.random.default_rng(1)
    raw = chance.integers(0, 256, (40, sizes[kind]), dtype=np.uint8)
    raw[:, 1] &= 0xBB  # no infinity and no NaN among the scales
    raw[:, 3] &= 0xBB
    file = GgufFile(write(tmp_path, gguf({}, {"x": (kind, (20, 64), raw.tobytes())})))
    wanted = [number for block in raw for number in decoded_by_hand(kind, block.tobytes())]
    np.testing.assert_allclose(file.read("x").ravel(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", NUMBERS)
def test_blocks_are_those_of_the_package_gguf(tmp_path: Path, kind: str) -> None:
    peer = pytest.importorskip("gguf", reason="needs gguf, which is not installed")
    values = weights(8, 96, seed=2)
    number = peer.GGMLQuantizationType(NUMBERS[kind])
    raw = peer.quants.quantize(values, number)
    file = GgufFile(write(tmp_path, gguf({}, {"x": (kind, (8, 96), raw.tobytes())})))
    np.testing.assert_array_equal(file.read("x"), peer.quants.dequantize(raw, number))


def test_metadata_of_every_type_comes_back(tmp_path: Path) -> None:
    peer = pytest.importorskip("gguf", reason="needs gguf, which is not installed")
    writer = peer.GGUFWriter(tmp_path / "peer.gguf", "llama")
    wanted = {}
    numbers = {"uint8": 200, "int8": -3, "uint16": 60000, "int16": -300, "uint32": 1 << 31, "int32": -5}
    large = {"uint64": 1 << 63, "int64": -(1 << 62), "float32": 0.5, "float64": 1e300}
    others = {"bool": True, "string": "ä ▁\n", "array": ["a", "", "ü"]}
    for kind, item in {**numbers, **large, **others}.items():
        getattr(writer, f"add_{kind}")(f"x.{kind}", item)
        wanted[f"x.{kind}"] = item
    writer.add_array("x.numbers", [1, -2, 3])
    writer.add_array("x.flags", [True, False])
    writer.add_tensor("t", weights(3, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(tmp_path / "peer.gguf")
    assert {key: file.metadata[key] for key in wanted} == wanted
    assert file.metadata["x.numbers"].tolist() == [1, -2, 3]
    assert file.metadata["x.flags"].tolist() == [True, False]
    np.testing.assert_array_equal(file.read("t"), weights(3, 4))


@pytest.mark.parametrize("kind", ["llama", "llama-bias", "llama-wide-heads", "qwen2-tied", "qwen3"])
def test_a_model_as_gguf_is_the_model(tmp_path: Path, kind: str) -> None:
    """The rotary pairs of queries and keys are brought back into order, and nothing else is moved."""
    from llm_peers import executor_of, peer, peer_logits
    from llm_samples import Planner

    model = peer(kind)
    executor = executor_of(write(tmp_path, gguf_of_model(model)))
    planner = Planner(64, 4)
    tokens = [5, 300, 17, 44, 2, 90, 90, 8]
    found = executor.run(planner.plan([(planner.add(tokens), 8)], all_logits=True))
    torch.testing.assert_close(found, peer_logits(model, tokens), rtol=1e-4, atol=2e-5)
    assert executor.config.eos_ids == (2,)


@pytest.mark.parametrize("quantised", ["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"])
def test_a_quantised_model_is_the_model_of_its_rounded_weights(tmp_path: Path, quantised: str) -> None:
    from llm_peers import executor_of, peer, peer_logits
    from llm_samples import Planner

    from hami.backends.llm.weights import open_weights

    model = peer("llama")
    path = write(tmp_path, gguf_of_model(model, {"attn": quantised, "embd": "Q8_0"}))
    config, stored, _ = open_weights(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(stored.get(name, tuple(parameter.shape)))
    assert config.tie_embeddings is False
    planner = Planner(64, 4)
    tokens = [5, 300, 17, 44, 2, 90, 90, 8]
    found = executor_of(path).run(planner.plan([(planner.add(tokens), 8)], all_logits=True))
    torch.testing.assert_close(found, peer_logits(model, tokens), rtol=1e-4, atol=2e-5)


def test_raw_rows_lie_in_the_order_of_the_weights(tmp_path: Path) -> None:
    from llm_peers import peer

    from hami.backends.llm.quantised import TYPES, dequantised
    from hami.backends.llm.weights import GgufWeights, open_weights

    model = peer("llama")
    _, stored, _ = open_weights(write(tmp_path, gguf_of_model(model, {"attn": "Q4_1", "ffn_gate": "Q8_0"})))
    assert isinstance(stored, GgufWeights)
    types = {each.name: each for each in TYPES.values()}
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            kind, rows = stored.raw(name, tuple(parameter.shape))
            values = torch.from_numpy(dequantised(rows, types[kind]))
            assert torch.equal(values, stored.get(name, tuple(parameter.shape))), name


def test_rope_factors_of_a_file_are_those_of_llama3(tmp_path: Path) -> None:
    """GGUF files of Llama 3 hold the factor of each frequency instead of the rule that it follows."""
    from llm_peers import peer, save

    from hami.backends.llm.config import config_of_folder, config_of_gguf
    from hami.backends.llm.models.rotary import inverse_frequencies

    model = peer("llama3-rope")
    scaled = inverse_frequencies(config_of_folder(save(model, tmp_path / "folder")))
    file = GgufFile(write(tmp_path, gguf_of_model(model)))
    shapes = {name: entry.shape for name, entry in file.tensors.items()}
    plain = inverse_frequencies(config_of_gguf(file.metadata, shapes))
    assert not torch.equal(plain, scaled)
    factors = tuple((plain / scaled).tolist())
    torch.testing.assert_close(inverse_frequencies(config_of_gguf(file.metadata, shapes, factors)), scaled)


@pytest.mark.parametrize("factors", [(1.0,) * 7, (1.0,) * 7 + (0.0,), (1.0,) * 7 + (float("nan"),)])
def test_rope_factors_that_cannot_be_are_refused(tmp_path: Path, factors: tuple[float, ...]) -> None:
    from llm_peers import peer

    from hami.backends.llm.weights import open_weights

    raw = gguf_of_model(peer("llama"), extra={"rope_freqs.weight": np.array(factors, np.float32)})
    with pytest.raises(BuildError, match="rope_freqs") as caught:
        open_weights(write(tmp_path, raw))
    assert caught.value.code == "llm-config"


def test_a_missing_file_and_an_empty_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    for name in ("missing.gguf", "empty.gguf"):
        with pytest.raises(BuildError, match=name) as caught:
            GgufFile(tmp_path / name)
        assert caught.value.code == "model-file"
