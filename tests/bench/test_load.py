"""Laws of `Load`: what is accepted, and how what is not is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hami.bench import Load
from hami.errors import ConfigError


def test_a_load_without_an_end_lasts_five_seconds() -> None:
    assert Load(num_callers=1).duration_s == 5.0
    assert Load(num_callers=1, num_requests=7).duration_s is None


def test_a_rate_is_an_open_loop_and_callers_are_a_closed_one() -> None:
    assert Load(rate_per_s=10).is_open
    assert not Load(num_callers=10).is_open


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "a load has neither of `num_callers` and `rate_per_s`"),
        ({"num_callers": 1, "rate_per_s": 5.0}, "a load has both of `num_callers` and `rate_per_s`"),
        ({"num_callers": 0}, "`num_callers` must be a whole number from 1 to 1024, got `0`"),
        ({"num_callers": 2.0}, "`num_callers` must be a whole number from 1 to 1024, got `2.0`"),
        ({"num_callers": True}, "`num_callers` must be a whole number from 1 to 1024, got `True`"),
        ({"num_callers": 1025}, "got `1025`"),
        ({"rate_per_s": 0}, "`rate_per_s` must be a number above 0 and up to 1e+07, got `0`"),
        ({"rate_per_s": math.nan}, "`rate_per_s` must be a number"),
        ({"rate_per_s": math.inf}, "`rate_per_s` must be a number"),
        ({"rate_per_s": "fast"}, "got `'fast'`"),
        ({"rate_per_s": 1, "arrivals": "poison"}, "`arrivals` must be `poisson` or `fixed`, got `'poison'`"),
        ({"rate_per_s": 1, "arrivals": []}, "`arrivals` must be `poisson` or `fixed`, got `[]`"),
        ({"num_callers": 1, "order": "sorted"}, "`order` must be `random` or `given`, got `'sorted'`"),
        ({"num_callers": 1, "duration_s": -1}, "`duration_s` must be"),
        ({"num_callers": 1, "num_requests": 0}, "`num_requests` must be"),
        ({"num_callers": 1, "warmup_s": -0.5}, "`warmup_s` must be a number from 0 up to 1e+06"),
        ({"num_callers": 1, "repeats": 0}, "`repeats` must be"),
        ({"num_callers": 1, "seed": -1}, "`seed` must be"),
        ({"num_callers": 1, "seed": 1.5}, "`seed` must be"),
        ({"num_callers": 1, "max_in_flight": 0}, "`max_in_flight` must be"),
        ({"num_callers": 1, "timeout_s": 0}, "`timeout_s` must be"),
    ],
)
def test_a_load_that_cannot_be_is_refused_with_its_value(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Load(**fields)

    assert caught.value.code == "load-setting"
    assert caught.value.help
    assert said in str(caught.value)


def test_a_misspelt_choice_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean `poisson`"):
        Load(rate_per_s=1, arrivals="poison")


def test_a_load_survives_json() -> None:
    load = Load(rate_per_s=12.5, arrivals="fixed", num_requests=100, repeats=3, seed=9)

    assert Load.from_dict(json.loads(json.dumps(load.to_dict()))) == load


def test_an_unknown_field_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no field `rate`") as caught:
        Load.from_dict({"rate": 5})
    assert "did you mean `rate_per_s`" in str(caught.value)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (Load(num_callers=1, duration_s=2), "closed loop, 1 caller, 5 x 2 s, warm-up 1 s"),
        (
            Load(rate_per_s=1500, num_requests=10, duration_s=3, repeats=2),
            "open loop, 1500 requests/s, Poisson, 2 x 3 s or 10 requests, warm-up 1 s",
        ),
        (
            Load(rate_per_s=0.5, arrivals="fixed", num_requests=9, warmup_s=0),
            "open loop, 0.5 requests/s, evenly spaced, 5 x 9 requests, warm-up 0 s",
        ),
    ],
)
def test_a_load_says_what_it_is(load: Load, text: str) -> None:
    assert str(load) == text
