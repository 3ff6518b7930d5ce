"""The laws that every engine keeps: the same answers as the plain framework, and clear errors.

A test module of an engine derives a class from `EngineConformance` and says how its pipelines are made. The
models are those of `onnx_models.py`; ONNX Runtime's own Python package gives the right answers.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hami
from backends import onnx_models
from hami.errors import BuildError, Closed, RequestError

Arrays = dict[str, np.ndarray]
Open = Callable[..., Any]


def reference(model: Path, inputs: Arrays) -> Arrays:
    """Run `model` with the plain framework."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class EngineConformance:
    """Derive from this class, and set `backend` and what else differs."""

    backend = ""
    element_types = tuple(onnx_models.ELEMENT_TYPES)
    rtol = 1e-5
    atol = 1e-6

    def write(self, name: str, folder: Path) -> Path:
        """Write a model of onnx_models.py as this engine reads it."""
        return onnx_models.write(name, folder)

    def config(self, model: Path, **params: Any) -> dict[str, Any]:
        """Give the configuration of a pipeline of one node that runs `model`."""
        return {"backend": self.backend, "model": str(model), **params}

    @pytest.fixture
    def open(self, tmp_path: Path) -> Iterator[Open]:
        """Give a function that opens a pipeline for a model by name, or for a file."""
        pipes = []

        def open_pipe(model: str | Path, **params: Any) -> Any:
            path = model if isinstance(model, Path) else self.write(model, tmp_path)
            pipes.append(hami.pipe(self.config(path, **params)))
            return pipes[-1]

        yield open_pipe
        for pipe in pipes:
            pipe.close()

    @pytest.fixture
    def expect(self, tmp_path: Path) -> Callable[..., np.ndarray]:
        """Give a function that tells the right answer for one array."""

        def answer(model: str, data: np.ndarray, name: str = "x") -> np.ndarray:
            (output,) = reference(onnx_models.write(model, tmp_path), {name: data}).values()
            return output

        return answer

    def assert_close(self, got: Any, expected: np.ndarray) -> None:
        got = np.asarray(got)
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=self.rtol, atol=self.atol)

    # --- answers -------------------------------------------------------------------------------

    @pytest.mark.parametrize("rows", [1, 3, 8])
    def test_answers_equal_those_of_the_framework_from_min_to_max_rows(self, open, expect, rows):
        data = numbers(rows, 8)
        result = open("mlp", max=8)({"data": data, "request_size": rows})["result"]
        self.assert_close(result, expect("mlp", data))

    @pytest.mark.parametrize("shape", [(1, 3, 1, 1), (1, 3, 7, 5), (2, 3, 32, 48)])
    def test_answers_equal_those_of_the_framework_for_every_shape(self, open, expect, shape):
        data = numbers(*shape)
        result = open("image", max=4)({"data": data, "request_size": shape[0]})["result"]
        self.assert_close(result, expect("image", data))

    def test_one_row_without_batch_axis_gives_a_result_without_it(self, open, expect):
        data = numbers(8)
        self.assert_close(open("mlp", max=8)({"data": data})["result"], expect("mlp", data[None])[0])

    def test_one_row_with_batch_axis_gives_a_result_with_it(self, open, expect):
        data = numbers(1, 8)
        self.assert_close(open("mlp")({"data": data})["result"], expect("mlp", data))

    @pytest.mark.parametrize("rows", [1, 2, 4])
    def test_a_fixed_batch_answers_as_many_rows_as_were_sent(self, open, expect, rows):
        data = numbers(rows, 8)
        result = open("mlp_fixed4")({"data": data, "request_size": rows})["result"]
        self.assert_close(result, expect("mlp", data))

    def test_inputs_and_outputs_go_by_name_and_names_may_hold_a_colon(self, open, tmp_path):
        inputs = {"a:0": numbers(2, 3), "b:0": numbers(2, 3, seed=1)}
        result = open("two_inputs", max=2)({"data": inputs, "request_size": 2})["result"]
        expected = reference(onnx_models.write("two_inputs", tmp_path), inputs)
        assert set(result) == set(expected)
        for name, array in expected.items():
            self.assert_close(result[name], array)

    def test_integer_inputs_keep_their_type(self, open, expect):
        ids = np.array([[0, 4, 2], [1, 1, 3]], np.int64)
        result = open("tokens", max=2)({"data": ids, "request_size": 2})["result"]
        self.assert_close(result, expect("tokens", ids, "ids"))

    @pytest.mark.parametrize("name", onnx_models.ELEMENT_TYPES)
    def test_every_element_type_goes_in_and_out_unchanged(self, open, name):
        if name not in self.element_types:
            pytest.skip(f"{self.backend} has no {name}")
        data = np.array([[0, 1], [1, 0], [1, 1]], name)
        result = np.asarray(open(f"same_{name}", max=3)({"data": data, "request_size": 3})["result"])
        assert result.dtype == data.dtype
        assert result.dtype.char == data.dtype.char  # not a twin that other libraries do not know
        np.testing.assert_array_equal(result, data)

    # --- memory --------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "view",
        [
            lambda x: x[:, ::-1],
            lambda x: x[::2],
            lambda x: np.asfortranarray(x),
            lambda x: np.broadcast_to(x[:1], x.shape),
            lambda x: x.repeat(2, axis=1)[:, ::2],
        ],
        ids=["reversed", "every second row", "column major", "broadcast", "every second column"],
    )
    def test_arrays_of_any_strides_are_accepted(self, open, expect, view):
        data = view(numbers(4, 8))
        rows = len(data)
        result = open("mlp", max=4)({"data": data, "request_size": rows})["result"]
        self.assert_close(result, expect("mlp", np.ascontiguousarray(data)))

    def test_read_only_arrays_are_accepted(self, open, expect):
        data = numbers(8)
        data.setflags(write=False)
        self.assert_close(open("mlp")({"data": data})["result"], expect("mlp", data[None])[0])

    def test_the_data_of_the_caller_stays_as_it_is(self, open):
        data = numbers(8)
        before = data.copy()
        request = {"data": data}
        open("mlp")(request)
        assert request["data"] is data
        np.testing.assert_array_equal(data, before)

    def test_a_result_is_a_copy_where_the_model_hands_its_input_back(self, open):
        data = np.array([1, 2], np.float32)
        result = open("same_float32")({"data": data})["result"]
        data[:] = 0
        np.testing.assert_array_equal(np.asarray(result), [1, 2])

    def test_results_outlive_the_pipeline(self, open, expect):
        data = numbers(8)
        pipe = open("mlp")
        result = pipe({"data": data})["result"]
        pipe.close()
        del pipe
        gc.collect()
        self.assert_close(result, expect("mlp", data[None])[0])

    # --- load ----------------------------------------------------------------------------------

    def test_a_max_above_the_fixed_batch_is_refused_at_load(self, open):
        with pytest.raises(BuildError, match=r"`5`.*fixed batch of `4`"):
            open("mlp_fixed4", max=5)

    def test_a_missing_model_is_refused_with_its_path(self, open, tmp_path):
        with pytest.raises(BuildError, match=r"no_such\.onnx"):
            open(tmp_path / "no_such.onnx")

    @pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x08\x12"], ids=["empty", "text", "cut"])
    def test_a_damaged_model_is_refused_with_its_path(self, open, tmp_path, content):
        path = tmp_path / "damaged.onnx"
        path.write_bytes(content)
        with pytest.raises(BuildError, match=r"damaged\.onnx"):
            open(path)

    # --- wrong requests ------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (np.zeros(8, np.float64), ["`x`", "float32", "float64"]),
            (np.zeros((1, 1, 8), np.float32), ["`x`", "1x1x8", "rank"]),
            (np.zeros(7, np.float32), ["`x`", "x8", "[7]"]),
            (np.zeros((3, 8), np.float32), ["`x`", "`3` rows", "request_size"]),
            (np.zeros((0, 8), np.float32), ["`x`", "no rows"]),
            ([0.0] * 8, ["`x`", "float32", "list"]),
            (0.5, ["`x`", "float32", "float"]),
            (None, ["`x`", "None"]),
            ("text", ["`x`", "str"]),
            ({"x": np.zeros(8, np.float32)}, ["`x`", "dict"]),
        ],
        ids=["dtype", "rank", "shape", "rows", "no rows", "list", "number", "None", "text", "dict"],
    )
    def test_a_wrong_input_is_refused_naming_it_and_what_came(self, open, data, words):
        with pytest.raises(RequestError) as caught:
            open("mlp", max=8)({"data": data})
        for word in words:
            assert word in str(caught.value)
        assert "help:" in str(caught.value)

    def test_missing_and_unknown_names_are_refused(self, open):
        pipe = open("two_inputs")
        array = numbers(3)
        with pytest.raises(RequestError, match="`b:0` is missing"):
            pipe({"data": {"a:0": array}})
        with pytest.raises(RequestError, match="no input `c`"):
            pipe({"data": {"a:0": array, "b:0": array, "c": array}})
        with pytest.raises(RequestError, match="dict of arrays"):
            pipe({"data": array})

    def test_a_request_that_fails_in_the_engine_fails_alone(self, open, expect):
        pipe = open("tokens", max=8, batching_timeout=20)
        ids = [np.array([value], np.int64) for value in (1, 99, 2, 3)]
        futures = [pipe.submit({"data": one}) for one in ids]
        with pytest.raises(RequestError):
            futures[1].result(timeout=30)
        for index in (0, 2, 3):
            expected = expect("tokens", ids[index][None], "ids")[0]
            self.assert_close(futures[index].result(timeout=30)["result"], expected)

    def test_an_engine_serves_on_after_wrong_requests(self, open, expect):
        pipe = open("mlp")
        data = numbers(8)
        for _ in range(3):
            with pytest.raises(RequestError):
                pipe({"data": data.astype(np.float64)})
            self.assert_close(pipe({"data": data})["result"], expect("mlp", data[None])[0])

    # --- many at once --------------------------------------------------------------------------

    @pytest.mark.parametrize("instances", [1, 2])
    def test_every_caller_gets_the_answer_to_its_own_request(self, open, expect, instances):
        pipe = open("mlp", max=4, instance_num=instances)
        data = numbers(64, 8)
        expected = expect("mlp", data)
        with ThreadPoolExecutor(8) as callers:
            results = list(callers.map(lambda row: pipe({"data": row})["result"], data))
        for result, right in zip(results, expected, strict=True):
            self.assert_close(result, right)

    def test_requests_of_different_shapes_never_mix(self, open, expect):
        pipe = open("image", max=8)
        pictures = [numbers(3, 4 + index % 3, 5 + index % 2, seed=index) for index in range(24)]
        futures = [pipe.submit({"data": picture}) for picture in pictures]
        for picture, future in zip(pictures, futures, strict=True):
            self.assert_close(future.result(timeout=30)["result"], expect("image", picture[None])[0])

    def test_two_models_run_at_once(self, open, expect):
        pipes = {"mlp": open("mlp", max=4), "double": open("double", max=4)}
        arrays = {"mlp": numbers(8), "double": numbers(2)}
        names = ["mlp", "double"] * 20
        with ThreadPoolExecutor(4) as callers:
            results = list(callers.map(lambda name: pipes[name]({"data": arrays[name]})["result"], names))
        for name, result in zip(names, results, strict=True):
            self.assert_close(result, expect(name, arrays[name][None])[0])

    def test_close_while_running_ends_every_call(self, open):
        pipe = open("image", max=2)
        picture = numbers(3, 96, 96)
        futures = [pipe.submit({"data": picture}) for _ in range(64)]
        is_running = threading.Event()
        futures[0].add_done_callback(lambda _: is_running.set())
        assert is_running.wait(timeout=30)
        pipe.close(timeout=30)
        for future in futures:
            error = future.exception(timeout=30)
            assert error is None or isinstance(error, Closed)
