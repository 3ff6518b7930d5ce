"""Engines written in Python: what they describe is checked, and what they give is handed out by rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hami
from hami import Engine, TensorSpec
from hami.errors import BuildError, RequestError

X = TensorSpec("x", "float32", (-1, 2))
Y = TensorSpec("y", "float32", (-1, 2))


class Doubling(Engine):
    """y = 2 x, and a note of every run."""

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.inputs, self.outputs = [X], [Y]
        self.shapes: list[tuple[int, ...]] = []

    def run(self, arrays: list[Any]) -> list[Any]:
        self.shapes.append(arrays[0].shape)
        return [arrays[0] * 2]


@pytest.fixture
def open_engine(open_pipe: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function that opens a pipeline of one engine, a class changed by the keywords."""

    def open_one(base: type = Doubling, config: dict[str, Any] | None = None, **changes: Any) -> Any:
        name = "EngineOfTest"
        hami.register(name, type(name, (base,), changes))
        return open_pipe({"backend": name, **(config or {})})

    return open_one


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def describing(**attributes: Any) -> dict[str, Any]:
    """Return an `init` that sets these attributes after the usual ones."""

    def init(self: Any, params: dict[str, Any], options: dict[str, Any]) -> None:
        Doubling.init(self, params, options)
        for name, value in attributes.items():
            setattr(self, name, value)

    return {"init": init}


# --- batches ---------------------------------------------------------------------------------------


def test_rows_of_many_callers_are_one_run_and_each_gets_its_own(open_engine: Any) -> None:
    engines: list[Any] = []

    def init(self: Any, params: dict[str, Any], options: dict[str, Any]) -> None:
        Doubling.init(self, params, options)
        engines.append(self)

    pipe = open_engine(config={"max": 8, "batching_timeout": 1000}, init=init)
    results = pipe([{"data": floats(index, 1)} for index in range(8)])
    assert [result["result"].tolist() for result in results] == [[2 * index, 2] for index in range(8)]
    assert engines[0].shapes == [(8, 2)]


def test_a_node_takes_no_more_rows_than_its_max(open_engine: Any) -> None:
    pipe = open_engine(config={"max": 4})
    with pytest.raises(RequestError, match="5"):
        pipe({"data": np.zeros((5, 2), np.float32), "request_size": 5})


def test_several_inputs_and_outputs_go_by_name(open_engine: Any) -> None:
    pipe = open_engine(
        config={"max": 4},
        **describing(
            inputs=[X, TensorSpec("ids", "int64", (-1,))], outputs=[Y, TensorSpec("n", "int64", (-1,))]
        ),
        run=lambda self, arrays: [arrays[0], arrays[1] + 1],
    )
    result = pipe({"data": {"ids": np.int64([4]), "x": floats([1, 2])}})["result"]
    assert result["y"].tolist() == [[1, 2]]
    assert result["n"].tolist() == [5]


def test_shapes_tell_where_rows_are_when_an_engine_leaves_it_to_them(open_engine: Any) -> None:
    pipe = open_engine(
        **describing(
            finds_rows=True,
            inputs=[TensorSpec("x", "float32", (4, 2))],
            outputs=[TensorSpec("y", "float32", (4, 2))],
        )
    )
    assert pipe({"data": floats(1, 2)})["result"].tolist() == [2, 4]


def test_a_fixed_batch_is_filled_up(open_engine: Any) -> None:
    seen: list[Any] = []

    def run(self: Any, arrays: list[Any]) -> list[Any]:
        seen.append(arrays[0].copy())
        return [arrays[0]]

    pipe = open_engine(**describing(fixed_rows=3, inputs=[TensorSpec("x", "float32", (3, 2))]), run=run)
    assert pipe({"data": floats(1, 2)})["result"].tolist() == [1, 2]
    assert seen[0].tolist() == [[1, 2]] * 3


def test_inputs_are_gathered_in_the_memory_that_the_engine_gives(open_engine: Any) -> None:
    given: list[np.ndarray] = []
    addresses: list[int] = []

    def staging(self: Any, size_bytes: int) -> np.ndarray:
        given.append(np.empty(size_bytes, np.uint8))
        return given[-1]

    def run(self: Any, arrays: list[Any]) -> list[Any]:
        addresses.append(arrays[0].ctypes.data)
        return [arrays[0] * 2]

    pipe = open_engine(stages_inputs=True, staging=staging, run=run, config={"max": 4})
    for rows in (1, 1, 3):
        result = pipe({"data": np.ones((rows, 2), np.float32), "request_size": rows})["result"]
        assert result.tolist() == [[2, 2]] * rows
    assert [memory.size for memory in given] == [8, 24]
    assert addresses == [given[0].ctypes.data, given[0].ctypes.data, given[1].ctypes.data]


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"inputs": []}, "describes no `inputs`"),
        ({"outputs": ()}, "describes no `outputs`"),
        ({"inputs": [TensorSpec("x", "float33", (-1,))]}, "`x` with the type `float33`"),
        ({"inputs": [TensorSpec("x", "float32", ("batch",))]}, "holds no numbers"),  # type: ignore[arg-type]
        ({"inputs": [TensorSpec("x", "float32", (-2,))]}, "holds no numbers"),
        ({"inputs": [TensorSpec("x", "float32", ())]}, "a scalar that has rows"),
        ({"outputs": [TensorSpec("y", "float32", ())]}, "a scalar that has rows"),
        ({"fixed_rows": 0}, "`fixed_rows`"),
        ({"fixed_rows": "four"}, "`fixed_rows`"),
        ({"array_device": "cuda"}, "`array_device`"),
        ({"min": 3, "max": 2}, "`min` is `3`"),
        ({"inputs": 7}, "no list of descriptions"),
        ({"inputs": [7]}, "no list of descriptions"),
        ({"inputs": None}, "no list of descriptions"),
        ({"inputs": "x"}, "no list of descriptions"),
        ({"inputs": [TensorSpec("x", "float32", 3)]}, "no list of descriptions"),  # type: ignore[arg-type]
        ({"inputs": [X, X]}, "describes `x` twice"),
        ({"outputs": [Y, Y]}, "describes `y` twice"),
    ],
)
def test_a_wrong_description_is_refused_at_load(open_engine: Any, attributes: Any, words: str) -> None:
    with pytest.raises(BuildError) as caught:
        open_engine(**describing(**attributes))
    assert words in str(caught.value)
    assert caught.value.help


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "returned a `NoneType`"),
        ([], "returned 0 arrays"),
        ([floats(1, 2), floats(1, 2)], "returned 2 arrays"),
        (["text"], "a `str` among them"),
        ([None], "a `NoneType` among them"),
        (floats([1, 2]), "returned a `numpy.ndarray`"),
        ("ab", "returned a `str`"),
    ],
)
def test_a_run_that_gives_something_else_fails_the_batch_in_plain_words(
    open_engine: Any, given: Any, words: str
) -> None:
    pipe = open_engine(run=lambda self, arrays: given)
    with pytest.raises(RequestError, match="has 1 outputs and") as caught:
        pipe({"data": floats(1, 2)})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (lambda size: np.empty(size - 1, np.uint8), "`uint8[7]`"),
        (lambda size: np.empty(size, np.float64), "`float64[8]`"),
        (lambda size: np.empty((2, size), np.uint8), "`uint8[2x8]`"),
        (lambda size: np.empty(2 * size, np.uint8)[::2], "`uint8[8]`"),
        (lambda size: bytes(size), "which is read-only"),
        (lambda size: None, "a `NoneType`"),
    ],
    ids=["too small", "of another type", "of two axes", "with gaps", "bytes", "none"],
)
def test_memory_that_no_input_can_be_gathered_in_is_refused(
    open_engine: Any, memory: Any, words: str
) -> None:
    pipe = open_engine(stages_inputs=True, staging=lambda self, size: memory(size))
    with pytest.raises(BuildError, match="for 8 bytes") as caught:
        pipe({"data": floats(1, 2)})
    assert words in str(caught.value)


def test_one_memory_for_two_inputs_is_refused(open_engine: Any) -> None:
    shared = np.empty(64, np.uint8)
    inputs = [X, TensorSpec("z", "float32", (-1, 2))]
    pipe = open_engine(**describing(inputs=inputs), stages_inputs=True, staging=lambda self, size: shared)
    with pytest.raises(BuildError, match="`staging`"):
        pipe({"data": {"x": floats(1, 2), "z": floats(3, 4)}})


# --- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3])
def test_an_engine_that_writes_to_its_inputs_changes_no_array_of_a_caller(
    open_engine: Any, rows: int
) -> None:
    def run(self: Any, arrays: list[Any]) -> list[Any]:
        arrays[0] += 1
        return [arrays[0] * 1]

    pipe = open_engine(run=run, config={"max": 4})
    data = np.ones((rows, 2), np.float32)
    kept = data.copy()
    kept.setflags(write=False)
    for given in (data, kept):
        assert pipe({"data": given, "request_size": rows})["result"].tolist() == [[2, 2]] * rows
        assert given.tolist() == [[1, 1]] * rows


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[:, ::-1], lambda x: x.reshape(-1, 2)])
def test_results_that_look_into_an_input_stay_as_they_are(open_engine: Any, view: Any) -> None:
    pipe = open_engine(run=lambda self, arrays: [view(arrays[0])], config={"max": 4, "batching_timeout": 100})
    first = [one["result"] for one in pipe([{"data": floats(i, i)} for i in range(3)])]
    pipe([{"data": floats(9, 9)} for _ in range(4)])
    assert [result.tolist() for result in first] == [[i, i] for i in range(3)]


def test_what_a_run_raises_reaches_the_caller_and_the_engine_serves_on(open_engine: Any) -> None:
    def run(self: Any, arrays: list[Any]) -> list[Any]:
        if arrays[0][0, 0] < 0:
            raise ZeroDivisionError("below zero")
        return [arrays[0]]

    pipe = open_engine(run=run, config={"max": 4, "batching_timeout": 20})
    futures = [pipe.submit({"data": floats(value, 0)}) for value in (1, -1, 3)]
    with pytest.raises(ZeroDivisionError, match="below zero"):
        futures[1].result(30)
    assert [futures[index].result(30)["result"][0] for index in (0, 2)] == [1, 3]


def test_an_engine_without_run_says_so(open_engine: Any) -> None:
    pipe = open_engine(run=Engine.run)
    with pytest.raises(NotImplementedError, match="has no `run`"):
        pipe({"data": floats(1, 2)})


# --- its end ---------------------------------------------------------------------------------------


def test_an_engine_is_closed_with_its_pipeline_and_tells_its_problems(open_engine: Any) -> None:
    closed: list[bool] = []
    pipe = open_engine(close=lambda self: closed.append(True), problem=lambda self: "too hot")
    assert any("too hot" in problem for problem in pipe.problems())
    pipe.close()
    assert closed == [True]
