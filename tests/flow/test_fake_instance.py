"""Laws of `FakeInstance`: several backends that look like one."""

from __future__ import annotations

from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


def node(backend: str, **more: Any) -> dict[str, Any]:
    return {"backend": backend, "batching_timeout": FOR_EVER_MS, **more}


def requests_of(values: Any) -> list[dict[str, Any]]:
    return [{"data": value} for value in values]


def results_of(requests: list[dict[str, Any]]) -> list[Any]:
    return [request.get("result") for request in requests]


def test_the_smallest_child_that_takes_the_batch_runs_it(open_pipe: Any, probe: Any) -> None:
    seen = {name: probe(name, batch_range=(1, most)) for name, most in (("Big", 8), ("One", 1), ("Four", 4))}
    pipeline = open_pipe(node("FakeInstance[Big, One, Four]"))
    for count in (1, 2, 4, 5, 8):
        pipeline(requests_of(range(count)))
    assert [len(batch) for batch in seen["One"].batches] == [1]
    assert [len(batch) for batch in seen["Four"].batches] == [2, 4]
    assert [len(batch) for batch in seen["Big"].batches] == [5, 8]
    pipeline(requests_of(range(9)))
    assert [len(batch) for batch in seen["Big"].batches][2:] == [8]
    assert [len(batch) for batch in seen["One"].batches][1:] == [1]


def test_a_childs_min_counts_too(open_pipe: Any, probe: Any) -> None:
    pairs, fours = probe("Pairs", batch_range=(1, 3)), probe("Fours", batch_range=(3, 4))
    pipeline = open_pipe(node("FakeInstance[Fours, Pairs]"))
    for count in (3, 4):
        pipeline(requests_of(range(count)))
    assert ([len(b) for b in pairs.batches], [len(b) for b in fours.batches]) == ([3], [4])


@pytest.mark.parametrize(
    ("ranges", "gap"),
    [([(1, 2), (4, 8)], "3 rows"), ([(6, 8), (1, 1)], "2 to 5 rows"), ([(1, 4), (2, 3), (6, 6)], "5 rows")],
)
def test_a_hole_between_the_children_is_a_build_error(probe: Any, ranges: Any, gap: str) -> None:
    names = []
    for index, batch_range in enumerate(ranges):
        names.append(f"Part{index}")
        probe(names[-1], batch_range=batch_range)
    with pytest.raises(hami.BuildError, match=gap) as caught:
        hami.pipe(f"FakeInstance[{', '.join(names)}]")
    assert (caught.value.code, bool(caught.value.help)) == ("build-batch-range", True)


def test_too_few_rows_for_every_child_are_an_error_of_the_request(open_pipe: Any, probe: Any) -> None:
    probe("Pairs", batch_range=(2, 2))
    probe("Threes", batch_range=(3, 4))
    pipeline = open_pipe({"backend": "FakeInstance[Pairs, Threes]", "batching_timeout": 0})
    with pytest.raises(hami.RequestError) as caught:
        pipeline({"data": 1})
    assert caught.value.code == "request-too-small"


def test_children_of_one_instance_isolate_their_errors(open_pipe: Any, probe: Any) -> None:
    probe("One", lambda item: 1 // item["data"], batch_range=(1, 1))
    probe("Four", lambda item: 1 // item["data"], batch_range=(2, 4))
    pipeline = open_pipe(node("FakeInstance[One, Four]"))
    requests = requests_of([1, 0, 1, 1])
    with pytest.raises(ZeroDivisionError):
        pipeline(requests)
    assert results_of(requests) == [1, None, 1, 1]


def test_a_fake_instance_of_inline_backends_is_inline(open_pipe: Any) -> None:
    pipeline = open_pipe("FakeInstance[Pow, Identity]")
    assert pipeline({"data": 3})["result"] == 9
    assert pipeline.stats()[0]["releases"] == {"in_place": 1}
