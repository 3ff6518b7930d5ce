"""`TensorrtInferTensor` before anything runs: which plan, which profile, how many rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hami
from hami.backend import declared_params
from hami.backends.tensorrt.infer import TensorrtInferTensor
from hami.backends.tensorrt.plan import Description, EnginePlan, describe
from hami.backends.tensorrt.shapes import Port, make_profiles, parse_wishes
from hami.engine import Engine
from hami.errors import BuildError, ConfigError


def engine(**params: Any) -> TensorrtInferTensor:
    """Return an instance with its parameters set and nothing loaded."""
    made = TensorrtInferTensor()
    for declared in declared_params(TensorrtInferTensor):
        setattr(made, declared.name, params.get(declared.name, declared.default))
    return made


def description(high: Any = None, low: Any = None, shape: tuple[int, ...] = (-1, 8)) -> Description:
    """Return the description of an engine with one input."""
    port = Port("x", shape)
    profiles = make_profiles([port], parse_wishes(low, "min"), (), parse_wishes(high, "max"))
    return describe([(port, "float32")], [(Port("y", shape), "float32")], profiles)


def plan(source: str) -> EnginePlan:
    return EnginePlan(Path(source), b"ftrt")


# --- parameters ------------------------------------------------------------------------------------


def test_it_is_an_engine_whose_first_parameter_is_the_model() -> None:
    assert issubclass(TensorrtInferTensor, Engine) and TensorrtInferTensor.is_engine
    params = {param.name: param for param in declared_params(TensorrtInferTensor)}
    assert next(iter(params)) == "model"
    assert (params["max"].type, params["min"].type) == ("any", "any")
    assert all(param.doc for param in params.values())


@pytest.mark.parametrize("params", [{"precision": "half"}, {"modle": "x"}, {"package": "trt"}])
def test_wrong_parameters_are_refused_before_anything_is_loaded(params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        hami.pipe({"backend": "TensorrtInferTensor", **params})


# --- the plan --------------------------------------------------------------------------------------


def test_the_plan_of_the_loader_is_taken() -> None:
    loaded = plan("a.onnx")
    assert engine().find_plan({"tensorrt_engine": loaded}) is loaded
    assert engine(model="a.onnx").find_plan({"tensorrt_engine": loaded}) is loaded


def test_a_model_of_its_own_comes_before_a_loader_of_another(tmp_path: Path) -> None:
    own = tmp_path / "own.plan"
    own.write_bytes(b"ftrt own")
    assert engine(model=str(own)).find_plan({"tensorrt_engine": plan("a.onnx")}).blob == b"ftrt own"


def test_without_model_and_loader_the_error_shows_both_ways() -> None:
    with pytest.raises(BuildError, match="no `model`") as caught:
        engine().find_plan({})
    assert "Onnx2Tensorrt" in caught.value.help and "`model`" in caught.value.help


def test_a_pipeline_without_model_is_refused_with_that_error() -> None:
    with pytest.raises(BuildError, match="tensorrt-model"):
        hami.pipe("TensorrtInferTensor")


# --- profiles and rows -----------------------------------------------------------------------------


def test_rows_and_ports_are_those_of_the_profile() -> None:
    made = engine()
    assert made.take_profile(description(high=8, low=2), 0) == 0
    assert (made.min, made.max, made.fixed_rows) == (2, 8, None)
    assert made.inputs[0].name == "x" and made.outputs[0].name == "y"


def test_instances_share_the_profiles_out() -> None:
    found = description(high="2;8")
    taken = []
    for index in range(4):
        made = engine(instance_num=4, max="2;8")
        taken.append((made.take_profile(found, index), made.max))
    assert taken == [(0, 2), (1, 8), (0, 2), (1, 8)]


def test_more_profiles_than_instances_are_refused() -> None:
    with pytest.raises(BuildError, match="`3` profiles for `2` instances") as caught:
        engine(instance_num=2).take_profile(description(high="1;2;4"), 0)
    assert "instance_num = 3" in caught.value.help


@pytest.mark.parametrize(("given", "expected"), [(None, 8), (8, 8), ("4", 4), ("8x8", 8)])
def test_a_node_may_ask_for_fewer_rows_than_the_engine_takes(given: Any, expected: int) -> None:
    made = engine(max=given)
    made.take_profile(description(high=8), 0)
    assert made.max == expected


def test_a_node_may_wait_for_more_rows_than_the_engine_needs() -> None:
    made = engine(min=3)
    made.take_profile(description(high=8, low=2), 0)
    assert made.min == 3


@pytest.mark.parametrize(
    ("found", "words"),
    [(description(high=4), ["`5`", "most, `4`"]), (description(shape=(4, 8)), ["`5`", "fixed batch of `4`"])],
)
def test_more_rows_than_the_engine_takes_are_refused(found: Description, words: list[str]) -> None:
    with pytest.raises(BuildError) as caught:
        engine(max=5).take_profile(found, 0)
    for word in words:
        assert word in caught.value.message
    assert caught.value.code == "tensorrt-profile"


def test_a_fixed_batch_is_told_to_the_core() -> None:
    made = engine()
    made.take_profile(description(shape=(4, 8)), 0)
    assert (made.min, made.max, made.fixed_rows) == (1, 4, 4)


def test_closing_what_never_opened_is_fine() -> None:
    engine().close()
