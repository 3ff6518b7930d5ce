"""Models that do odd things: none of them touches memory of others, loses an output, or ends the process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hami
from hami.errors import BuildError, RequestError

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402  it needs torch

X2 = ["x:float32[-1x2]"]


def module(forward: Any) -> type[nn.Module]:
    return type("Model", (nn.Module,), {"forward": forward, "train": nn.Module.train})


class Keeps(nn.Module):
    """Give a weight, and a state that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 2))
        self.register_buffer("sum", torch.zeros(1, 2))

    def forward(self, x: Any) -> Any:
        self.sum += x.sum(0)
        return {
            "weight": self.weight.expand_as(x) if len(x) > 1 else self.weight,
            "sum": self.sum.expand_as(x),
        }


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.layer(x)) + 1


class Stubborn(nn.Module):
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("one of a kind")

    def forward(self, x: Any) -> Any:
        return x


MODELS: dict[str, Any] = {
    "Keeps": Keeps,
    "Linear": Linear,
    "STUBBORN": Stubborn(),
    "GIVEN": nn.Linear(2, 2),
    "given": lambda: MODELS["GIVEN"],
    "InPlace": module(lambda self, x: x.mul_(2) + 1),
    "Fails": module(lambda self, x: x.add_(5).reshape(-1, 7)),
    "Order": module(
        lambda self, x: {"b": x + 2, "a": x + 1} if float(x.sum()) > 10 else {"a": x + 1, "b": x + 2}
    ),
    "Less": module(lambda self, x: {"a": x} if float(x.sum()) > 10 else {"a": x, "b": x}),
    "Twice": module(lambda self, x: (x, x)),
    "Pair": module(lambda self, x: (x.reshape(-1, 2, 5), x)),
    "Gram": module(lambda self, x: x @ x.T),
    "Conj": module(lambda self, x: torch.complex(x, x).conj()),
    "Imag": module(lambda self, x: torch.complex(x, x).conj().imag),
    "Meta": module(lambda self, x: torch.empty(len(x), 2, device="meta")),
    "Float8": module(lambda self, x: x.to(torch.float8_e4m3fn)),
    "More": module(lambda self, x: tuple([x] * len(x))),
    "Cuda": module(lambda self, x: raise_(ValueError("CUDA is not for such values")) if x.any() else x),
    "Scalar": module(lambda self, x: x * 2),
    "Both": module(lambda self, a, b: a.sum() + b.sum()),
}


def raise_(error: Exception) -> Any:
    raise error


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `module = "odd_models:Name"` find what is in MODELS."""
    found = type(sys)("odd_models")
    vars(found).update(MODELS)
    monkeypatch.setitem(sys.modules, "odd_models", found)


@pytest.fixture
def open_model() -> Any:
    pipes = []

    def open_one(name: str, inputs: list[str] = X2, **params: Any) -> Any:
        config = {"backend": "TorchInfer", "module": f"odd_models:{name}", "inputs": inputs, **params}
        pipes.append(hami.pipe(config))
        return pipes[-1]

    yield open_one
    for pipe in pipes:
        pipe.close()


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


# --- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda x: x, torch.from_numpy], ids=["numpy", "torch"])
def test_a_model_that_works_in_place_changes_no_array_of_a_caller(open_model: Any, form: Any) -> None:
    data = floats([1, 2])
    result = open_model("InPlace", max=4)({"data": form(data)})["result"]
    assert result.tolist() == [[3, 5]]
    assert data.tolist() == [[1, 2]]


def test_a_model_that_fails_half_way_has_changed_nothing(open_model: Any) -> None:
    pipe = open_model("Fails", inputs=["x:float32[-1x-1]"])
    data = floats(1, 2)
    with pytest.raises(RequestError):
        pipe({"data": data})
    assert data.tolist() == [1, 2]


def test_results_share_no_memory_with_weights_states_or_each_other(open_model: Any) -> None:
    pipe = open_model("Keeps")
    before = pipe({"data": floats([1, 1])})["result"]
    total = before["sum"].tolist()
    before["weight"][:] = 77
    after = pipe({"data": floats([2, 2])})["result"]
    assert after["weight"].tolist() == [[1, 1]]
    assert before["sum"].tolist() == total
    pair = open_model("Twice")({"data": floats([1, 1])})["result"]
    pair["output_0"][:] = 5
    assert pair["output_1"].tolist() == [[1, 1]]


def test_a_module_that_a_function_hands_out_stays_as_it_is(open_model: Any) -> None:
    given = MODELS["GIVEN"].train()
    open_model("given", precision="bf16")({"data": floats(1, 2)})
    assert given.training
    assert given.weight.requires_grad
    assert given.weight.dtype == torch.float32


# --- outputs ---------------------------------------------------------------------------------------


def test_outputs_of_a_dict_are_found_by_name_whatever_their_order(open_model: Any) -> None:
    pipe = open_model("Order")
    for value in (1, 20):
        result = pipe({"data": floats(value, value)})["result"]
        assert (result["a"][0], result["b"][0]) == (value + 1, value + 2)


@pytest.mark.parametrize("outputs", [None, ["b"]])
def test_an_output_that_is_missing_in_a_run_is_an_error_of_the_request(open_model: Any, outputs: Any) -> None:
    pipe = open_model("Less", **({} if outputs is None else {"outputs": outputs}))
    assert pipe({"data": floats(1, 1)})
    with pytest.raises(RequestError, match="gave `a` in this run"):
        pipe({"data": floats(20, 20)})


@pytest.mark.parametrize("outputs", [["a", "a"], ["output_0", "output_0"], []])
def test_names_of_outputs_that_lose_one_are_refused(open_model: Any, outputs: Any) -> None:
    with pytest.raises(BuildError, match="`outputs` of the model"):
        open_model("Twice", outputs=outputs)


def test_more_outputs_than_could_be_guessed_are_an_error_and_can_be_named(open_model: Any) -> None:
    inputs = ["x:float32[-1x-1]"]  # it runs on tens, but not on what stands for any extent
    data = np.ones(10, np.float32)
    with pytest.raises(RequestError, match="gave 2 outputs in this run"):
        open_model("Pair", inputs)({"data": data})
    result = open_model("Pair", inputs, outputs=["pairs", "same"])({"data": data})["result"]
    assert result["pairs"].shape == (2, 5)
    assert result["same"].shape == (10,)


def test_rows_that_see_each_other_never_share_a_run(open_model: Any) -> None:
    pipe = open_model("Gram", max=4, batching_timeout=50)
    futures = [pipe.submit({"data": floats(value, 0)}) for value in (1, 2, 3)]
    assert [future.result(30)["result"].tolist() for future in futures] == [[[1]], [[4]], [[9]]]


def test_lazily_changed_signs_are_carried_out(open_model: Any) -> None:
    assert open_model("Conj")({"data": floats(1, 2)})["result"].tolist() == [1 - 1j, 2 - 2j]
    assert open_model("Imag")({"data": floats(1, 2)})["result"].tolist() == [-1, -2]
    asked = torch.tensor([1 + 1j, 2 + 2j]).conj().imag
    assert asked.is_neg()
    assert open_model("Scalar")({"data": asked})["result"].tolist() == [-2, -4]


def test_an_output_without_memory_is_an_error_of_the_request(open_model: Any) -> None:
    with pytest.raises(RequestError, match="does not run on this input"):
        open_model("Meta")({"data": floats(1, 2)})


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [("Float8", "model-type", "float8"), ("More", "model-output", "1 outputs for 1 rows, and 2 for 2")],
)
def test_outputs_that_cannot_be_described_are_refused_at_load(
    open_model: Any, name: str, code: str, words: str
) -> None:
    with pytest.raises(BuildError, match=words) as caught:
        open_model(name, max=4)
    assert caught.value.code == code


# --- inputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        np.ones((1, 2), np.float32)[::-1],
        np.ones((2, 1, 2), np.float32)[:, ::-1][0],
        torch.ones(2, requires_grad=True),
        nn.Parameter(torch.ones(2)),
    ],
    ids=["turned around in one row", "in one column", "with gradients", "parameter"],
)
def test_unusual_arrays_are_arrays(open_model: Any, data: Any) -> None:
    assert np.ravel(open_model("Scalar")({"data": data})["result"]).tolist() == [2, 2]


def test_an_input_of_rank_0_belongs_to_the_whole_run(open_model: Any) -> None:
    pipe = open_model("Scalar", inputs=["x:float32[]"])
    assert float(pipe({"data": np.float32(3)})["result"]) == 6


def test_unlike_fixed_inputs_have_no_rows(open_model: Any) -> None:
    pipe = open_model("Both", inputs=["a:float32[3]", "b:float32[2]"])
    result = pipe({"data": {"a": floats(1, 2, 3), "b": floats(4, 5)}})["result"]
    assert float(result) == 15


@pytest.mark.parametrize("name", [":X", "..odd_models:Linear", "odd_models:", "a b:c"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BuildError) as caught:
        hami.pipe({"backend": "TorchInfer", "module": name, "inputs": X2})
    assert caught.value.code == "model-module"


def test_a_module_that_cannot_be_copied_is_refused(open_model: Any) -> None:
    with pytest.raises(BuildError, match="cannot be copied: one of a kind"):
        open_model("STUBBORN")


def test_weights_that_do_not_fit_are_told_by_name(open_model: Any, tmp_path: Path) -> None:
    for state in ({"layer.weight": torch.zeros(9, 9)}, {1: torch.zeros(1)}):
        torch.save(state, tmp_path / "weights.pt")
        with pytest.raises(BuildError, match="do not fit `Linear`") as caught:
            open_model("Linear", inputs=["x:float32[-1x3]"], weights=str(tmp_path / "weights.pt"))
        assert "layer" in str(caught.value) or "int" in str(caught.value)


def test_a_model_by_name_is_named_in_errors(open_model: Any) -> None:
    with pytest.raises(BuildError, match="`odd_models:Scalar` has a fixed batch of `3`"):
        open_model("Scalar", inputs=["x:float32[3x2]"], max=4)


# --- errors ----------------------------------------------------------------------------------------


def test_a_text_about_gpus_is_no_broken_gpu(open_model: Any) -> None:
    pipe = open_model("Cuda")
    with pytest.raises(RequestError, match="CUDA is not for such values"):
        pipe({"data": floats(1, 2)})
    assert pipe.problems() == []
    assert pipe({"data": floats(0, 0)})["result"].tolist() == [0, 0]


def test_a_function_that_makes_a_module_may_make_pipelines() -> None:
    def make() -> nn.Module:
        config = {"backend": "TorchInfer", "module": "odd_models:Scalar", "inputs": X2}
        with hami.pipe(config) as pipe:
            pipe({"data": floats(1, 2)})
        return MODELS["Scalar"]()

    vars(sys.modules["odd_models"])["make"] = make
    made: list[Any] = []
    config = {"backend": "TorchInfer", "module": "odd_models:make", "inputs": X2}
    maker = threading.Thread(target=lambda: made.append(hami.pipe(config)), daemon=True)
    maker.start()
    maker.join(timeout=30)
    assert made, "the pipeline is not made"
    made[0].close()


# --- exported and compiled programs ----------------------------------------------------------------


def exported(tmp_path: Path, model: nn.Module, *given: Any, **options: Any) -> dict[str, Any]:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(model.eval(), given, **options), str(path))
    return {"backend": "TorchInfer", "model": str(path)}


def test_a_dict_of_an_exported_program_keeps_its_names(tmp_path: Path) -> None:
    model = module(lambda self, x: {"boxes": x + 1, "scores": x * 2})()
    config = exported(tmp_path, model, torch.zeros(1, 2))
    with hami.pipe(config) as pipe:
        assert set(pipe({"data": floats(1, 2)})["result"]) == {"boxes", "scores"}
    with hami.pipe({**config, "outputs": ["boxes"]}) as pipe:
        assert pipe({"data": floats(1, 2)})["result"].tolist() == [2, 3]


def test_an_output_that_comes_twice_is_there_twice(tmp_path: Path) -> None:
    with hami.pipe(exported(tmp_path, MODELS["Twice"](), torch.zeros(1, 2))) as pipe:
        assert set(pipe({"data": floats(1, 2)})["result"]) == {"output_0", "output_1"}


def test_a_program_for_so_many_rows_at_least_waits_for_them(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", min=4, max=8)
    config = exported(tmp_path, MODELS["Scalar"](), torch.zeros(5, 2), dynamic_shapes=({0: rows},))
    with hami.pipe({**config, "max": 8, "batching_timeout": 200}) as pipe:
        results = pipe([{"data": floats(value, 0)} for value in range(4)])
    assert [one["result"].tolist() for one in results] == [[2 * value, 0] for value in range(4)]


def test_an_exported_program_that_is_described_otherwise_is_refused(tmp_path: Path) -> None:
    config = exported(tmp_path, MODELS["Linear"](), torch.zeros(1, 3))
    with pytest.raises(BuildError, match="does not run on zeros"):
        hami.pipe({**config, "inputs": ["x:float32[-1x9]"]})


# In a process of its own, which may end at the first wrong step.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("described", ["x:float32[-1x3]", "x:float32[4x9]", "x:int64[4x3]"])
def test_a_wrongly_described_package_is_refused_and_never_read_past_its_end(
    tmp_path: Path, described: str
) -> None:
    path = tmp_path / "model.pt2"
    code = f"""
import sys, warnings
warnings.simplefilter("ignore")
import torch, hami
from hami.errors import BuildError
torch.manual_seed(0)
program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.zeros(4, 3),))
torch._inductor.aoti_compile_and_package(program, package_path={str(path)!r})
try:
    hami.pipe({{"backend": "TorchInfer", "model": {str(path)!r}, "inputs": [{described!r}], "max": 4}})
except BuildError as error:
    assert error.code == "model-run", error
else:
    sys.exit("it was accepted")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


# --- several inputs through one tensor --------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda x: x, torch.from_numpy], ids=["numpy", "torch"])
def test_an_engine_of_several_inputs_runs_in_cat_split(form: Any) -> None:
    inputs = ["a:float32[-1x2]", "b:float32[-1x2]"]
    MODELS["Sum"] = module(lambda self, a, b: {"sum": a + b, "difference": a - b})
    vars(sys.modules["odd_models"])["Sum"] = MODELS["Sum"]
    text = "IoC[TorchInfer; CatSplit[S[FixTensor,CatTensor],S[ContiguousTensor,TorchInfer],SplitTensor]]"
    config = {
        "backend": text,
        "module": "odd_models:Sum",
        "inputs": inputs,
        "max": 4,
        "batching_timeout": 100,
    }
    with hami.pipe(config) as pipe:
        requests = [{"data": {"a": form(floats(i, i)), "b": form(floats(1, 2))}} for i in range(4)]
        for i, answer in enumerate(pipe(requests)):
            assert np.asarray(answer["result"]["sum"]).tolist() == [i + 1, i + 2]
            assert np.asarray(answer["result"]["difference"]).tolist() == [i - 1, i - 2]
        with pytest.raises(RequestError, match=r"takes (an array|arrays)"):
            pipe({"data": {"a": floats(1, 2), "b": "text"}})
