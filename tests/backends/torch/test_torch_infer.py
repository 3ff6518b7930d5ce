"""What TorchInfer promises beyond the laws of all engines: kinds, descriptions, precision, sharing."""

from __future__ import annotations

import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hami
from hami.errors import BuildError, ConfigError, RequestError

torch = pytest.importorskip("torch", reason="torch is not installed")
from backends import torch_models  # noqa: E402  it needs torch

COUNTED: list[int] = []


class Counted(torch.nn.Module):
    """Random weights, and a note of each making."""

    def __init__(self) -> None:
        super().__init__()
        COUNTED.append(1)
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Failing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.sum()) > 100:
            raise RuntimeError("too much")
        return x


class Words(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return ["no tensor"]


class Precise(torch.nn.Module):
    """Tell in which type the model computes."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # 2049 has no form in float16, and 257 none in bfloat16.
        return x * self.one


class Threads(torch.nn.Module):
    """Tell how many threads an operation would use."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0 + torch.get_num_threads()


def fails() -> torch.nn.Module:
    raise ValueError("no such size")


GIVEN = torch.nn.Linear(8, 4)
HERE = f"{__name__}"


@pytest.fixture
def open_pipe() -> Any:
    pipes = []

    def open_one(backend: str = "TorchInfer", **params: Any) -> Any:
        pipes.append(hami.pipe({"backend": backend, **params}))
        return pipes[-1]

    yield open_one
    for pipe in pipes:
        pipe.close()


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `module` find the classes of this file by its name."""
    import sys

    monkeypatch.setitem(sys.modules, "engine_modules", sys.modules[HERE])


# --- kinds of models -------------------------------------------------------------------------------


def test_all_kinds_of_one_model_give_the_same_answers(open_pipe: Any, tmp_path: Path) -> None:
    data = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    ports = torch_models.PORTS["mlp"]
    files = [torch_models.save_torchscript("mlp", tmp_path), torch_models.save_exported("mlp", tmp_path)]
    pipes = [open_pipe(model=str(path), max=8, **ports) for path in files]
    pipes.append(open_pipe(module="backends.torch_models:Mlp", max=8, **ports))
    expected = torch_models.Mlp()(torch.from_numpy(data)).numpy()
    for pipe in pipes:
        np.testing.assert_allclose(pipe({"data": data, "request_size": 5})["result"], expected, rtol=1e-5)


def test_an_exported_program_describes_itself(open_pipe: Any, tmp_path: Path) -> None:
    pipe = open_pipe(model=str(torch_models.save_exported("mlp", tmp_path)), max=4)
    assert pipe({"data": floats(*range(8))})["result"].shape == (4,)
    with pytest.raises(RequestError, match=r"float32\[\?x8\]"):
        pipe({"data": floats(*range(7))})


def test_an_exported_program_knows_its_largest_batch(open_pipe: Any, tmp_path: Path) -> None:
    path = torch_models.save_exported("mlp", tmp_path)
    with pytest.raises(BuildError, match=r"`5000`.*up to `4096` rows"):
        open_pipe(model=str(path), max=5000)


def test_the_model_may_be_the_first_argument(tmp_path: Path) -> None:
    path = torch_models.save_exported("double", tmp_path)
    with hami.pipe(f"TorchInfer('{path}')") as pipe:
        np.testing.assert_array_equal(pipe({"data": floats(1, 2)})["result"], [2, 4])


def test_a_file_that_says_nothing_of_its_inputs_asks_for_them(open_pipe: Any, tmp_path: Path) -> None:
    path = torch_models.save_torchscript("mlp", tmp_path)
    with pytest.raises(BuildError, match="does not say what its inputs are") as caught:
        open_pipe(model=str(path))
    assert caught.value.code == "model-inputs"
    assert "inputs = [" in caught.value.help


def test_the_kind_is_read_from_the_file_and_not_from_its_name(open_pipe: Any, tmp_path: Path) -> None:
    path = torch_models.save_exported("double", tmp_path).rename(tmp_path / "model.onnx")
    np.testing.assert_array_equal(open_pipe(model=str(path))({"data": floats(1, 2)})["result"], [2, 4])


def test_several_outputs_of_a_dict_go_by_their_names(open_pipe: Any) -> None:
    pipe = open_pipe(module="backends.torch_models:Total", max=4, **torch_models.PORTS["total"])
    result = pipe({"data": floats([1, 2], [3, 4]), "request_size": 2})["result"]
    np.testing.assert_array_equal(result["y"], [[2, 4], [6, 8]])
    assert float(result["total"]) == 10


def test_an_output_for_the_whole_run_keeps_requests_apart(open_pipe: Any) -> None:
    pipe = open_pipe(
        module="backends.torch_models:Total", max=8, batching_timeout=50, **torch_models.PORTS["total"]
    )
    futures = [pipe.submit({"data": floats(value, value)}) for value in (1, 2, 3)]
    assert [float(one.result(30)["result"]["total"]) for one in futures] == [2, 4, 6]


def test_chosen_outputs_are_the_only_ones(open_pipe: Any) -> None:
    pipe = open_pipe(module="backends.torch_models:Total", outputs=["total"], **torch_models.PORTS["total"])
    assert float(pipe({"data": floats(1, 2)})["result"]) == 3


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        ({}, "model-missing", "only one"),
        ({"model": "a.pt", "module": "a:b"}, "model-missing", "only one"),
        ({"module": "no_such_package:Net"}, "model-module", "no_such_package"),
        ({"module": "engine_modules"}, "model-module", "does not name an attribute"),
        ({"module": "engine_modules:NoSuch"}, "model-module", "NoSuch"),
        ({"module": "engine_modules:fails"}, "model-module", "no such size"),
        ({"module": "engine_modules:COUNTED"}, "model-module", "`list`"),
        ({"module": "engine_modules:Words", "inputs": ["x:float32[-1x2]"]}, "model-output", "one tensor"),
        ({"module": "engine_modules:Counted", "inputs": ["x:float32[-1x9]"]}, "model-run", "x:float32[-1x9]"),
        ({"module": "engine_modules:Counted", "inputs": ["x float32"]}, "model-inputs", "`x float32`"),
        ({"module": "engine_modules:Counted", "inputs": ["x:text[-1x8]"]}, "model-inputs", "x:text"),
        ({"module": "engine_modules:Counted", "inputs": ["x:float32[-1xa]"]}, "model-inputs", "-1xa"),
        ({"module": "engine_modules:Counted", "inputs": [7]}, "model-inputs", "`7`"),
        (
            {"module": "engine_modules:Counted", "inputs": ["x:float32[-1x8]"], "outputs": ["a", "b"]},
            "model-output",
            "`a`",
        ),
        ({"module": "engine_modules:Counted", "inputs": ["x:float32[4x8]"], "max": 5}, "model-batch", "`5`"),
    ],
)
def test_what_does_not_fit_is_refused_at_load(open_pipe: Any, params: Any, code: str, words: str) -> None:
    with pytest.raises(BuildError) as caught:
        open_pipe(**params)
    assert caught.value.code == code
    assert words in str(caught.value)
    assert caught.value.help


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "CPU", ""])
def test_a_device_that_is_none_is_refused(open_pipe: Any, device: str) -> None:
    with pytest.raises((BuildError, ConfigError), match=f"`{device}` is no device"):
        open_pipe(module="backends.torch_models:Mlp", device=device, **torch_models.PORTS["mlp"])


def test_a_pickled_module_is_not_loaded_because_it_may_run_any_code(open_pipe: Any, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "trapped",)

    torch.save(Trap(), tmp_path / "model.pt")
    with pytest.raises(BuildError, match="a pickle may run any code"):
        open_pipe(model=str(tmp_path / "model.pt"), **torch_models.PORTS["mlp"])
    with pytest.raises(BuildError, match="do not load"):
        open_pipe(
            module="backends.torch_models:Mlp",
            weights=str(tmp_path / "model.pt"),
            **torch_models.PORTS["mlp"],
        )
    assert not (tmp_path / "trapped").exists()


def test_an_archive_of_something_else_is_refused(open_pipe: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(BuildError, match="no model of torch"):
        open_pipe(model=str(tmp_path / "model.pt2"))


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("save", [torch_models.save_torchscript, torch_models.save_exported])
def test_a_file_cut_anywhere_is_refused_with_its_path(
    open_pipe: Any, tmp_path: Path, save: Any, kept: float
) -> None:
    path = save("mlp", tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(BuildError, match=path.name):
        open_pipe(model=str(path), **torch_models.PORTS["mlp"])


# --- weights and sharing ---------------------------------------------------------------------------


def test_weights_are_put_into_the_module(open_pipe: Any, tmp_path: Path) -> None:
    weights = {"layer.weight": torch.full((4, 8), 2.0), "layer.bias": torch.ones(4)}
    torch.save(weights, tmp_path / "weights.pt")
    pipe = open_pipe(
        module="engine_modules:Counted", weights=str(tmp_path / "weights.pt"), inputs=["x:float32[-1x8]"]
    )
    np.testing.assert_array_equal(pipe({"data": np.ones(8, np.float32)})["result"], [17, 17, 17, 17])


def test_weights_of_another_class_are_refused(open_pipe: Any, tmp_path: Path) -> None:
    torch.save({"other": torch.zeros(1)}, tmp_path / "weights.pt")
    with pytest.raises(BuildError, match="do not fit `Counted`"):
        open_pipe(
            module="engine_modules:Counted", weights=str(tmp_path / "weights.pt"), inputs=["x:float32[-1x8]"]
        )


def test_weights_that_need_safetensors_name_the_extra_where_it_is_missing(
    open_pipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"")
    monkeypatch.delitem(sys.modules, "safetensors.torch", raising=False)
    monkeypatch.setitem(sys.modules, "safetensors", None)

    with pytest.raises(BuildError, match="safetensors") as caught:
        open_pipe(module="engine_modules:Counted", weights=str(tmp_path / "weights.safetensors"))

    assert caught.value.help == "pip install hami-core[torch]"


def test_all_instances_of_a_pipeline_run_the_same_weights(open_pipe: Any) -> None:
    COUNTED.clear()
    pipe = open_pipe(module="engine_modules:Counted", inputs=["x:float32[-1x8]"], instance_num=3, max=1)
    assert len(COUNTED) == 1
    data = np.ones(8, np.float32)
    futures = [pipe.submit({"data": data}) for _ in range(30)]
    results = [future.result(30)["result"] for future in futures]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_a_module_of_the_program_stays_as_it_is(open_pipe: Any) -> None:
    before = GIVEN.weight.clone()
    pipe = open_pipe(module="engine_modules:GIVEN", inputs=["x:float32[-1x8]"], precision="fp16")
    pipe({"data": np.ones(8, np.float32)})
    assert GIVEN.weight.dtype == torch.float32
    assert GIVEN.weight.requires_grad
    assert torch.equal(GIVEN.weight, before)


# --- precision -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "expected"), [("fp32", 2049), ("fp16", 2048), ("bf16", 2048)])
def test_the_model_computes_in_the_precision_and_arrays_keep_their_type(
    open_pipe: Any, precision: str, expected: float
) -> None:
    pipe = open_pipe(module="engine_modules:Precise", inputs=["x:float32[-1x1]"], precision=precision)
    result = pipe({"data": floats(2049)})["result"]
    assert result.dtype == np.float32
    assert float(result[0]) == expected


def test_integers_are_not_converted(open_pipe: Any) -> None:
    pipe = open_pipe(module="backends.torch_models:Tokens", precision="fp16", **torch_models.PORTS["tokens"])
    np.testing.assert_allclose(
        pipe({"data": np.array([1], np.int64)})["result"], [np.sin([3, 4, 5])], rtol=1e-2
    )


def test_channels_last_gives_the_same_answer(open_pipe: Any) -> None:
    data = np.random.default_rng(0).standard_normal((3, 8, 9)).astype(np.float32)
    ports = torch_models.PORTS["image"]
    plain = open_pipe(module="backends.torch_models:Image", **ports)({"data": data})["result"]
    turned = open_pipe(module="backends.torch_models:Image", channels_last=True, **ports)({"data": data})[
        "result"
    ]
    np.testing.assert_allclose(turned, plain, rtol=1e-5, atol=1e-6)
    assert np.asarray(turned).flags.c_contiguous


def test_bfloat16_goes_in_and_out_as_tensors_of_torch(open_pipe: Any) -> None:
    pipe = open_pipe(module="backends.torch_models:Double", inputs=["x:bfloat16[-1x2]"], max=4)
    result = pipe({"data": torch.tensor([1.0, 2.0], dtype=torch.bfloat16)})["result"]
    assert isinstance(result, torch.Tensor)
    assert result.dtype == torch.bfloat16
    assert result.tolist() == [2, 4]


# --- requests --------------------------------------------------------------------------------------


def test_torch_tensors_go_in_as_numpy_arrays_do(open_pipe: Any) -> None:
    pipe = open_pipe(module="backends.torch_models:Double", inputs=["x:float32[-1x2]"], max=4)
    for data in (torch.tensor([1.0, 2.0]), floats(1, 2)):
        result = pipe({"data": data})["result"]
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, [2, 4])


def test_what_the_model_raises_fails_the_item_that_caused_it(open_pipe: Any) -> None:
    pipe = open_pipe(module="engine_modules:Failing", inputs=["x:float32[-1x1]"], max=8, batching_timeout=20)
    futures = [pipe.submit({"data": floats(value)}) for value in (1, 200, 3)]
    with pytest.raises(RequestError, match="too much") as caught:
        futures[1].result(30)
    assert caught.value.code == "engine-run"
    assert [float(futures[index].result(30)["result"][0]) for index in (0, 2)] == [1, 3]


def test_without_a_batch_axis_arrays_go_in_and_come_out_as_they_are(open_pipe: Any) -> None:
    pipe = open_pipe(module="backends.torch_models:Double", inputs=["x:float32[-1x2]"], has_batch_axis=False)
    result = pipe({"data": floats([1, 2], [3, 4], [5, 6])})["result"]
    np.testing.assert_array_equal(result, [[2, 4], [6, 8], [10, 12]])


def test_fix_tensor_casts_to_what_the_model_is_described_with(open_pipe: Any) -> None:
    text = "IoC[TorchInfer; CatSplit[S[FixTensor,CatTensor],S[ContiguousTensor,TorchInfer],SplitTensor]]"
    pipe = open_pipe(text, module="backends.torch_models:Double", inputs=["x:float32[-1x2]"], max=4)
    futures = [pipe.submit({"data": np.array([value, 1], np.float64)}) for value in range(6)]
    for value, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(30)["result"], floats(2 * value, 2))


# --- threads of a run ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_run_uses_its_own_number_of_threads_and_changes_that_of_nobody(open_pipe: Any, count: int) -> None:
    def in_new_thread() -> int:
        with ThreadPoolExecutor(1) as executor:
            return executor.submit(torch.get_num_threads).result()

    before = torch.get_num_threads(), in_new_thread()
    pipe = open_pipe(
        module="engine_modules:Threads", inputs=["x:float32[-1x1]"], intra_op_threads=count, instance_num=2
    )
    futures = [pipe.submit({"data": floats(1)}) for _ in range(20)]
    assert {float(future.result(30)["result"][0]) for future in futures} == {count}
    assert (torch.get_num_threads(), in_new_thread()) == before
