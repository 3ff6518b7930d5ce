"""Laws of frames: nodes work on a private frame, and the caller gets what they wrote once all went well.

Also the rules for dicts in flight and for the reserved keys that a request may bring.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

import hami


def register(**backends: Any) -> None:
    """Register backends that are one function of an item each."""
    for name, work in backends.items():

        def forward(batch: list[dict[str, Any]], work: Any = work) -> list[Any]:
            return [work(item) for item in batch]

        hami.register(name, forward)


def writes(**keys: Any) -> Any:
    """Return the work that sets keys and passes `data` on."""

    def work(item: dict[str, Any]) -> Any:
        item.update(keys)
        return item["data"]

    return work


def fails(item: dict[str, Any]) -> Any:
    """Work that writes keys of all kinds and then raises."""
    item.update(data="changed", extra="changed", new="new")
    raise ValueError("no")


CHAIN = {"a": {"backend": "A", "next": "b"}, "b": {"backend": "B"}}


def test_keys_that_nodes_write_are_merged_into_the_dict(open_pipe: Any) -> None:
    register(A=writes(x=1, shared="a"), B=writes(y=2, shared="b"))
    request = open_pipe(CHAIN)({"data": 0, "mine": []})
    assert request == {"data": 0, "mine": [], "x": 1, "y": 2, "shared": "b", "result": 0}


def test_keys_are_merged_in_graph_order(open_pipe: Any) -> None:
    register(A=writes(x=1), B=writes(y=2))
    request = open_pipe(CHAIN)({"data": 0})
    assert [key for key in request if key != "result"] == ["data", "x", "y"]


def test_a_call_returns_the_callers_own_dict(open_pipe: Any) -> None:
    request = {"data": 2}
    assert open_pipe("Pow")(request) is request


def test_data_keeps_the_callers_value(open_pipe: Any) -> None:
    register(A=lambda item: item.update(data="changed") or "from a", B=lambda item: item["data"])
    assert open_pipe(CHAIN)({"data": "mine"}) == {"data": "mine", "result": "from a"}


def test_a_backend_never_gets_the_callers_dict(open_pipe: Any) -> None:
    seen = []
    register(A=lambda item: seen.append(item))
    request = {"data": 0}
    open_pipe("A")(request)
    assert seen[0] is not request
    assert seen[0] == {"data": 0, "result": None} or seen[0] == {"data": 0}


def test_a_frame_kept_by_a_backend_does_not_reach_the_caller_later(open_pipe: Any) -> None:
    seen = []
    register(A=lambda item: seen.append(item))
    request = open_pipe("A")({"data": 0})
    seen[0]["late"] = 1
    assert request == {"data": 0, "result": None}


def test_a_later_node_sees_the_keys_of_an_earlier_one(open_pipe: Any) -> None:
    register(A=writes(x=[1]), B=lambda item: (item["x"], item["mine"]))
    assert open_pipe(CHAIN)({"data": 0, "mine": "m"})["result"] == ([1], "m")


def test_a_key_removed_by_a_node_is_gone_for_later_nodes_and_kept_by_the_caller(open_pipe: Any) -> None:
    register(A=lambda item: item.pop("mine"), B=lambda item: sorted(item))
    assert open_pipe(CHAIN)({"data": 0, "mine": 1}) == {"data": 0, "mine": 1, "result": ["data"]}


def test_an_overwritten_key_of_the_caller_is_returned(open_pipe: Any) -> None:
    register(A=writes(mine="new"))
    assert open_pipe("A")({"data": 0, "mine": "old"})["mine"] == "new"


def test_a_key_written_back_to_its_first_value_is_returned_as_that(open_pipe: Any) -> None:
    register(A=writes(mine=2), B=writes(mine=1))
    assert open_pipe(CHAIN)({"data": 0, "mine": 1})["mine"] == 1


def test_branches_do_not_see_each_others_keys(open_pipe: Any) -> None:
    register(Left=writes(left=1), Right=writes(right=1), Keys=lambda item: sorted(item))
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": "left,right"},
            "left": {"backend": "Left", "next": "left_keys"},
            "right": {"backend": "Right", "next": "right_keys"},
            "left_keys": {"backend": "Keys", "next": "join"},
            "right_keys": {"backend": "Keys", "next": "join"},
            "join": {
                "backend": "S[Both]",
                "map": "left_keys[result:l],right_keys[result:r]",
            },
        }
    )
    assert pipeline({"data": 0})["result"] == (["data", "left"], ["data", "right"])


@pytest.fixture(autouse=True)
def both() -> None:
    """The backend `Both` returns the mapped keys `l` and `r`."""
    hami.register("Both", lambda batch: [(item["l"], item["r"]) for item in batch])


def test_all_branches_write_to_the_caller_and_the_later_node_wins(open_pipe: Any) -> None:
    register(Left=writes(left=1, both="left"), Right=writes(right=1, both="right"))
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": ["left", "right"]},
            "left": {"backend": "Left", "next": "join"},
            "right": {"backend": "Right", "next": "join"},
            "join": {"backend": "Both", "map": "left[left:l],right[right:r]"},
        }
    )
    for _ in range(20):
        request = pipeline({"data": 7})
        assert request == {"data": 7, "left": 1, "right": 1, "both": "right", "result": (1, 1)}


def test_keys_beside_the_way_to_the_output_are_not_merged(open_pipe: Any) -> None:
    register(A=writes(a=1), Side=writes(side=1), Out=writes(out=1))
    pipeline = open_pipe(
        {
            "output": "out",
            "a": {"backend": "A", "next": "side,out"},
            "side": {"backend": "Side"},
            "out": {"backend": "Out"},
        }
    )
    assert pipeline({"data": 0}) == {"data": 0, "a": 1, "out": 1, "result": 0}


@pytest.mark.parametrize("source", ["Identity", "Probe", "Fails"])
def test_a_stale_result_is_removed_at_the_start(open_pipe: Any, probe: Any, source: str) -> None:
    seen = []
    probe(work=lambda item: seen.append(dict(item)))
    register(Fails=fails)
    request = {"data": 1, "result": "stale"}
    pipeline = open_pipe(source)
    if source == "Fails":
        with pytest.raises(ValueError, match="no"):
            pipeline(request)
        assert request == {"data": 1}
    else:
        assert pipeline(request)["result"] != "stale"
    assert all("result" not in item for item in seen)


@pytest.mark.parametrize("how", ["call", "list", "submit"])
def test_a_failed_request_leaves_the_dict_as_it_was(open_pipe: Any, how: str) -> None:
    register(A=writes(x=1, mine="changed"), B=fails)
    pipeline = open_pipe(CHAIN)
    request = {"data": [1, 2], "mine": {"k": 1}, "extra": None}
    before = copy.deepcopy(request)
    with pytest.raises(ValueError, match="no"):
        if how == "call":
            pipeline(request)
        elif how == "list":
            pipeline([request])
        else:
            pipeline.submit(request).result()
    assert request == before


# --- one dict in flight ---------------------------------------------------------------------------


def test_one_dict_submitted_twice_while_in_flight_is_refused(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    request = {"data": 1}
    future = pipeline.submit(request)
    for again in (pipeline, pipeline.submit, lambda d: pipeline([{"data": 0}, d])):
        with pytest.raises(hami.RequestError, match="request-in-flight"):
            again(request)
    gated.open()
    assert future.result()["result"] == 1


def test_one_dict_twice_in_a_list_is_refused_and_free_again(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    request = {"data": 3}
    with pytest.raises(hami.RequestError, match="request-in-flight"):
        pipeline([request, {"data": 1}, request])
    assert pipeline(request)["result"] == 9


def test_an_answered_dict_may_be_submitted_again(open_pipe: Any, probe: Any) -> None:
    probe()
    pipeline = open_pipe("Probe")
    request = {"data": 1}
    for _ in range(3):
        pipeline(request)
        pipeline.submit(request).result()
        pipeline([request])
    with pytest.raises(hami.RequestError):
        pipeline({**request, "request_size": 0})
    assert pipeline(request)["result"] == 1


def test_equal_dicts_are_different_requests(open_pipe: Any) -> None:
    requests = [{"data": 2} for _ in range(50)]
    assert open_pipe("Pow")(requests) == [{"data": 2, "result": 4}] * 50


def test_one_dict_may_be_in_two_pipelines(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    gated.shut()
    request = {"data": 5}
    future = open_pipe("Probe").submit(request)
    assert open_pipe("Pow")(request)["result"] == 25
    gated.open()
    assert future.result()["result"] == 5


# --- reserved keys --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -1, True, False, 1.0, "2", None, [1], 2**70, math.nan])
def test_a_request_size_that_is_no_positive_int_is_refused(open_pipe: Any, size: Any) -> None:
    request = {"data": 1, "request_size": size}
    with pytest.raises(hami.RequestError, match="request_size") as caught:
        open_pipe("Identity")(request)
    assert caught.value.help
    assert "result" not in request


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_request_size_up_to_max_is_taken(open_pipe: Any, probe: Any, size: int) -> None:
    probe()
    pipeline = open_pipe({"backend": "Probe", "max": 3})
    assert pipeline({"data": 1, "request_size": size})["result"] == 1
    assert pipeline.stats()[0]["batch_rows"] == {size: 1}


@pytest.mark.parametrize("source", [{"backend": "Identity"}, {"backend": "Identities", "max": 4}])
def test_a_request_larger_than_every_instance_is_refused_with_both_numbers(
    open_pipe: Any, source: dict[str, Any]
) -> None:
    with pytest.raises(hami.RequestError, match=r"`?5`? rows.*`max`"):
        open_pipe(source)({"data": 1, "request_size": 5})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("priority", "high"),
        ("priority", 1.5),
        ("priority", 2**80),
        ("deadline_ms", "soon"),
        ("deadline_ms", -1),
        ("deadline_ms", math.nan),
        ("deadline_ms", [5]),
        ("node_name", 7),
        ("node_name", "nobody"),
        ("node_name", "\ud800"),
    ],
)
def test_a_wrong_reserved_key_is_refused_by_name(open_pipe: Any, key: str, value: Any) -> None:
    request = {"data": 1, key: value}
    with pytest.raises(hami.RequestError, match=key):
        open_pipe("Identity")(request)
    assert request == {"data": 1, key: value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("priority", -3),
        ("deadline_ms", 60_000),
        *[("deadline_ms", 10.0**power) for power in range(8, 31)],
        ("deadline_ms", math.inf),
    ],
)
def test_valid_reserved_keys_are_kept(open_pipe: Any, key: str, value: Any) -> None:
    assert open_pipe("Identity")({"data": 1, key: value}) == {"data": 1, key: value, "result": 1}


def test_a_missing_data_is_a_request_error_that_says_so(open_pipe: Any) -> None:
    for source in ("Identity", "Pow", "Identities"):
        with pytest.raises(hami.RequestError, match="`data`"):
            open_pipe(source)({})


@pytest.mark.parametrize("wrong", [5, None, "text", ({"data": 1},), {1}])
def test_what_is_no_dict_is_a_request_error(open_pipe: Any, wrong: Any) -> None:
    pipeline = open_pipe("Identity")
    for call in (pipeline, pipeline.submit, lambda value: pipeline([value])):
        with pytest.raises(hami.RequestError, match="a request is a dict"):
            call(wrong)
