"""SamplingParams: what is taken, what is refused, and that a refusal names field, value and remedy."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from hami.backends.llm.sampling import SamplingError, SamplingParams
from hami.errors import RequestError

WRONG: list[tuple[str, Any]] = [
    *[("n", value) for value in (0, -1, 1.5, "2", True, None, 5000)],
    *[("temperature", value) for value in (-0.1, float("nan"), float("inf"), "1", None, True, [1])],
    *[("top_p", value) for value in (0, -1, 1.01, float("nan"), "0.5")],
    *[("top_k", value) for value in (-2, 1.5, "3", None)],
    *[("min_p", value) for value in (-0.1, 1.1, None)],
    *[("max_tokens", value) for value in (0, -1, None, 2.5, float("nan"), float("inf"))],
    *[("min_tokens", value) for value in (-1, 17, "1")],
    *[("stop", value) for value in ("", [""], ["a", ""], [1], 3, {"a"}, ["x"] * 65)],
    *[("stop_token_ids", value) for value in ([-1], "12", [1.5], ["a"], 7, {1: 2})],
    *[("seed", value) for value in (1.5, "1", 1 << 64, -(1 << 63) - 1, True)],
    *[("logprobs", value) for value in (-1, 1.5, "5", True)],
    *[("prompt_logprobs", value) for value in (-1, "x")],
    *[("presence_penalty", value) for value in (2.1, -2.1, float("nan"))],
    *[("frequency_penalty", value) for value in (2.1, -2.1, "0")],
    *[("repetition_penalty", value) for value in (0, -1, float("inf"))],
    *[
        ("logit_bias", value)
        for value in ([1], {1: 101}, {-1: 1}, {"a": 1}, {1: "x"}, {1.5: 1}, {1: float("nan")})
    ],
    *[("allowed_token_ids", value) for value in ([], [-1], "12", 5)],
    *[("ignore_eos", value) for value in (1, None, "true")],
    *[("beam_width", value) for value in (-1, 257, 1.5)],
    *[("length_penalty", value) for value in (float("nan"), float("inf"), "1")],
    *[("early_stopping", value) for value in (1, "never")],
    *[("json_schema", value) for value in ("{", 3, ["a"])],
    *[("regex", value) for value in ("", 3)],
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda part: repr(part)[:30])
def test_a_wrong_value_is_refused_with_field_value_and_remedy(name: str, value: Any) -> None:
    with pytest.raises(RequestError) as caught:
        SamplingParams(**{name: value})
    assert caught.value.code == "llm-sampling"
    assert f"`{name}`" in caught.value.message
    assert caught.value.help
    assert caught.value.http_status == 422


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"n": 2, "temperature": 0}, "n"),
        ({"n": 2, "top_k": 1}, "n"),
        ({"n": 4, "beam_width": 3}, "n"),
        ({"beam_width": 2, "temperature": 0.7}, "beam_width"),
        ({"beam_width": 2, "top_p": 0.9}, "beam_width"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"regex": "a", "json_schema": {}}, "regex"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(RequestError, match=f"`{named}`"):
        SamplingParams(**values)


def test_the_defaults_are_those_of_vllm() -> None:
    params = SamplingParams()
    assert (params.n, params.temperature, params.top_p, params.top_k, params.min_p) == (1, 1.0, 1.0, 0, 0.0)
    assert (params.max_tokens, params.min_tokens, params.seed, params.logprobs) == (16, 0, None, None)
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (0.0, 0.0, 1.0)
    assert not params.is_greedy and not params.has_penalties and params.width == 1


def test_values_are_brought_into_one_form() -> None:
    params = SamplingParams(
        stop="end",
        stop_token_ids=[3, 3, 4],
        top_k=-1,
        logit_bias={"5": 1, 6: -2.5},
        max_tokens=8.0,
        temperature=1,
    )
    assert params.stop == ("end",)
    assert params.stop_token_ids == (3, 4)
    assert params.top_k == 0
    assert params.logit_bias == {5: 1.0, 6: -2.5}
    assert params.max_tokens == 8 and isinstance(params.max_tokens, int)
    assert isinstance(params.temperature, float)


@pytest.mark.parametrize("value", [None, [], ()])
def test_no_stop_is_an_empty_tuple(value: Any) -> None:
    assert SamplingParams(stop=value).stop == ()


@pytest.mark.parametrize("values", [{"temperature": 0}, {"temperature": 1e-9}, {"top_k": 1}])
def test_greedy_has_three_spellings(values: dict[str, Any]) -> None:
    assert SamplingParams(**values).is_greedy


def test_beams_count_as_width() -> None:
    assert SamplingParams(n=2, beam_width=4).width == 4
    assert SamplingParams(n=3, temperature=0.5).width == 3


def test_numpy_numbers_are_numbers() -> None:
    numpy = pytest.importorskip("numpy", reason="needs numpy, which is not installed")
    params = SamplingParams(
        max_tokens=numpy.int64(5), temperature=numpy.float32(0.5), stop_token_ids=numpy.array([1, 2])
    )
    assert params.max_tokens == 5
    assert params.temperature == 0.5
    assert params.stop_token_ids == (1, 2)


def test_parameters_are_frozen_and_can_be_copied() -> None:
    params = SamplingParams(stop=["a"], logit_bias={1: 2})
    with pytest.raises(FrozenInstanceError):
        params.n = 2  # type: ignore[misc]
    assert copy.deepcopy(params) == params == pickle.loads(pickle.dumps(params))


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(RequestError, match="`temprature`") as caught:
        SamplingParams.of({"temprature": 1})
    assert "`temperature`" in caught.value.help


def test_a_dict_none_and_an_object_stand_for_parameters() -> None:
    params = SamplingParams(n=2)
    assert SamplingParams.of(params) is params
    assert SamplingParams.of(None) == SamplingParams()
    assert SamplingParams.of({"n": 2}) == params
    with pytest.raises(RequestError, match="sampling parameters"):
        SamplingParams.of([1])


@pytest.mark.parametrize("name", ["stop_token_ids", "allowed_token_ids", "logit_bias"])
def test_tokens_outside_the_vocabulary_are_refused(name: str) -> None:
    params = SamplingParams(**{name: {10: 1.0} if name == "logit_bias" else [10]})
    params.check_tokens(11)
    with pytest.raises(RequestError, match=f"`{name}` is `10`") as caught:
        params.check_tokens(10)
    assert "0 to 9" in caught.value.help


@pytest.mark.parametrize(
    ("keys", "param"),
    [
        ({"top_p": 2}, "top_p"),
        ({"n": 2, "temperature": 0}, "n"),
        ({"min_tokens": 20}, "min_tokens"),
        ({"stop": [""]}, "stop"),
        ({"regex": "a", "json_schema": {}}, "regex"),
        ({"temprature": 1}, "temprature"),
    ],
)
def test_an_error_knows_which_parameter_is_wrong(keys: dict[str, Any], param: str) -> None:
    with pytest.raises(SamplingError) as caught:
        SamplingParams.of(keys)
    assert caught.value.param == param
    assert pickle.loads(pickle.dumps(caught.value)).param == param


def test_what_a_dict_or_an_object_says_is_told_by_name() -> None:
    assert SamplingParams.by_name(None) == {}
    assert SamplingParams.by_name({"n": 2}) == {"n": 2}
    told = SamplingParams.by_name(SamplingParams(n=2, stop="x"))
    assert SamplingParams.of(told) == SamplingParams(n=2, stop="x")
