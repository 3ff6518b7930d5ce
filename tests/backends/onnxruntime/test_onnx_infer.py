"""What OnnxInfer promises beyond the laws of all engines: parameters, whole outputs, life in one process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hami
from backends import onnx_models
from hami.errors import BuildError, ConfigError, RequestError


@pytest.fixture
def open_pipe(tmp_path: Path) -> Any:
    """Give a function that opens a pipeline of one node for a model by name."""
    pipes = []

    def open_one(model: str, backend: str = "OnnxInfer", **params: Any) -> Any:
        path = onnx_models.write(model, tmp_path)
        pipes.append(hami.pipe({"backend": backend, "model": str(path), **params}))
        return pipes[-1]

    yield open_one
    for pipe in pipes:
        pipe.close()


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


# --- parameters ------------------------------------------------------------------------------------


def test_the_declaration_names_every_parameter_with_a_doc():
    from hami.backend import declarations

    declaration = declarations()["OnnxInfer"]
    assert declaration.family == "onnxruntime"
    assert declaration.extra == "onnx"
    names = [param.name for param in declaration.params]
    assert names == [
        "model",
        "max",
        "min",
        "intra_op_threads",
        "outputs",
        "has_batch_axis",
        "optimization",
        "device",
    ]
    assert all(param.doc for param in declaration.params)


def has_cuda_provider() -> bool:
    import onnxruntime

    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


@pytest.mark.skipif(has_cuda_provider(), reason="this ONNX Runtime has the CUDA provider")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_library_for_the_cpu_alone_says_what_to_install_for_a_gpu(open_pipe, device):
    with pytest.raises(BuildError, match="cannot use the CUDA device") as caught:
        open_pipe("mlp", device=device)
    assert caught.value.code == "onnxruntime-device"
    assert "onnxruntime-gpu" in caught.value.help


@pytest.mark.skipif(not has_cuda_provider(), reason="onnxruntime-gpu with its CUDA provider is not installed")
def test_a_gpu_gives_the_answers_of_the_cpu(open_pipe):
    data = floats(*range(8))
    expected = open_pipe("mlp")({"data": data})["result"]
    np.testing.assert_allclose(open_pipe("mlp", device="cuda")({"data": data})["result"], expected, rtol=1e-4)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CUDA", ""])
def test_a_device_that_is_none_is_refused(open_pipe, device):
    with pytest.raises(BuildError, match=f"`{device}` is no device"):
        open_pipe("mlp", device=device)


def test_the_model_may_be_the_first_argument(tmp_path):
    path = onnx_models.write("double", tmp_path)
    with hami.pipe(f"OnnxInfer('{path}')") as pipe:
        np.testing.assert_array_equal(pipe({"data": floats(1, 2)})["result"], [2, 4])


@pytest.mark.parametrize("outputs", ["product:0", ["product:0"]])
def test_one_chosen_output_is_the_array_itself(open_pipe, outputs):
    pipe = open_pipe("two_inputs", outputs=outputs)
    result = pipe({"data": {"a:0": floats(1, 2, 3), "b:0": floats(4, 5, 6)}})["result"]
    np.testing.assert_array_equal(result, [4, 10, 18])


def test_several_chosen_outputs_come_by_name(open_pipe):
    pipe = open_pipe("two_inputs", outputs="product:0, sum:0")
    result = pipe({"data": {"a:0": floats(1, 2, 3), "b:0": floats(4, 5, 6)}})["result"]
    assert list(result) == ["product:0", "sum:0"]


def test_an_unknown_output_is_refused_with_those_that_there_are(open_pipe):
    with pytest.raises(BuildError, match="no output `z`") as caught:
        open_pipe("double", outputs=["z"])
    assert "`y`" in caught.value.help


def test_an_output_that_is_no_array_must_be_left_out(open_pipe):
    with pytest.raises(BuildError, match="output `rows`"):
        open_pipe("list_output")
    pipe = open_pipe("list_output", outputs=["y"])
    np.testing.assert_array_equal(pipe({"data": floats(-1, 2)})["result"], [0, 2])


def test_a_model_that_reads_text_is_refused_at_load(open_pipe):
    with pytest.raises(BuildError, match=r"input `words`.*`string`"):
        open_pipe("text_input")


@pytest.mark.parametrize("params", [{"intra_op_threads": 0}, {"optimization": "much"}, {"max": 0}])
def test_parameters_out_of_bounds_are_refused(open_pipe, params):
    with pytest.raises(ConfigError):
        open_pipe("double", **params)


@pytest.mark.parametrize("optimization", ["off", "basic", "extended", "all"])
def test_the_answer_is_the_same_at_every_level_of_optimization(open_pipe, optimization):
    pipe = open_pipe("mlp", optimization=optimization, intra_op_threads=2)
    np.testing.assert_allclose(
        pipe({"data": np.ones(8, np.float32)})["result"],
        open_pipe("mlp")({"data": np.ones(8, np.float32)})["result"],
        rtol=1e-5,
    )


# --- rows ------------------------------------------------------------------------------------------


def test_an_output_without_rows_never_mixes_callers(open_pipe):
    pipe = open_pipe("mean_keepdims", max=8, batching_timeout=20)
    futures = [pipe.submit({"data": np.full(3, value, np.float32)}) for value in range(16)]
    for value, future in enumerate(futures):
        np.testing.assert_array_equal(np.ravel(future.result(timeout=30)["result"]), [value] * 3)


def test_an_output_with_as_many_rows_as_the_values_say_comes_whole(open_pipe):
    pipe = open_pipe("positives", max=8)
    data = floats([1, 2], [-1, 2], [3, 4])
    result = pipe({"data": data, "request_size": 3})["result"]
    np.testing.assert_array_equal(result, [[1, 2], [3, 4]])
    assert pipe({"data": floats([-1, 2])})["result"].shape == (0, 2)


def test_without_a_batch_axis_arrays_go_in_and_come_out_as_they_are(open_pipe):
    pipe = open_pipe("double", has_batch_axis=False)
    np.testing.assert_array_equal(pipe({"data": floats([1, 2], [3, 4])})["result"], [[2, 4], [6, 8]])
    with pytest.raises(RequestError, match="must be"):
        pipe({"data": floats(1, 2)})


def test_an_input_of_rank_0_takes_an_array_of_rank_0(open_pipe):
    pipe = open_pipe("scaled", max=2)
    result = pipe({"data": {"x": floats([1, 2], [3, 4]), "scale": np.float32(10)}, "request_size": 2})[
        "result"
    ]
    np.testing.assert_array_equal(result, [[10, 20], [30, 40]])


# --- beside other backends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "backend",
    [
        "S[FixTensor, OnnxInfer]",
        "IoC[OnnxInfer; CatSplit[S[FixTensor,CatTensor],S[ContiguousTensor,OnnxInfer],SplitTensor]]",
    ],
)
def test_fix_tensor_converts_to_what_the_engine_describes(open_pipe, backend):
    pipe = open_pipe("double", backend=backend, max=4)
    with_rows = pipe({"data": np.array([[1, 2], [3, 4]], np.uint8), "request_size": 2})["result"]
    np.testing.assert_array_equal(with_rows, [[2, 4], [6, 8]])
    assert with_rows.dtype == np.float32
    np.testing.assert_array_equal(pipe({"data": np.array([1, 2], np.int64)})["result"], [2, 4])


def test_two_engines_in_a_row_pass_arrays_on(open_pipe):
    pipe = open_pipe("double", backend="S[OnnxInfer, OnnxInfer]", max=4)
    np.testing.assert_array_equal(pipe({"data": floats(1, 2)})["result"], [4, 8])


# --- in one process --------------------------------------------------------------------------------


def test_python_runs_on_while_the_engine_runs(open_pipe):
    pipe = open_pipe("image")
    picture = np.zeros((3, 1200, 1200), np.float32)
    pipe({"data": picture})
    future = pipe.submit({"data": picture})
    num_steps = 0
    while not future.done():
        num_steps += 1
    assert num_steps > 100


def test_the_engine_prints_nothing(open_pipe, tmp_path, capfd):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(BuildError):
        hami.pipe({"backend": "OnnxInfer", "model": str(tmp_path / "bad.onnx")})
    with pytest.raises(RequestError):
        open_pipe("tokens")({"data": np.array([99], np.int64)})
    open_pipe("double_misdeclared", max=2)({"data": np.zeros((2, 2), np.float32), "request_size": 2})
    assert capfd.readouterr() == ("", "")


def run_program(program: str, *args: str) -> str:
    """Run a program in a process of its own and return what it prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("order", ["hami first", "onnxruntime first"])
def test_the_python_package_of_the_engine_works_in_the_same_process(tmp_path, order):
    path = onnx_models.write("double", tmp_path)
    program = """
        import sys
        import numpy as np

        x = np.ones((1, 2), np.float32)

        def with_hami():
            import hami
            return hami.pipe({"backend": "OnnxInfer", "model": sys.argv[1]})({"data": x})["result"]

        def with_onnxruntime():
            import onnxruntime
            session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
            return session.run(None, {"x": x})[0]

        first, second = (with_hami, with_onnxruntime)[:: 1 if sys.argv[2] == "hami first" else -1]
        print(np.array_equal(first(), second()))
    """
    assert run_program(program, str(path), order) == "True\n"


def test_a_process_may_exit_while_the_engine_runs(tmp_path):
    path = onnx_models.write("image", tmp_path)
    program = """
        import sys
        import hami
        import numpy as np

        pipe = hami.pipe({"backend": "OnnxInfer", "model": sys.argv[1], "instance_num": 2})
        picture = np.zeros((3, 800, 800), np.float32)
        first = pipe.submit({"data": picture})
        rest = [pipe.submit({"data": picture}) for _ in range(50)]
        first.result()
        print("leaving")
    """
    assert run_program(program, str(path)) == "leaving\n"


def test_a_model_is_in_memory_once_for_all_instances(tmp_path):
    """32 MB of weights: eight instances must not take eight times that."""
    weights = onnx_models.weights(2048, 4096)
    node = onnx_models.helper.make_node("MatMul", ["x", "weights"], ["y"])
    model = onnx_models.make_model(
        [("x", onnx_models.FLOAT, ["batch", 2048])],
        [("y", onnx_models.FLOAT, ["batch", 4096])],
        [node],
        weights=weights,
    )
    path = tmp_path / "large.onnx"
    onnx_models.onnx.save_model(model, str(path))
    program = """
        import sys
        import hami
        import numpy as np

        def resident_mb():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096 / 1e6

        def open_and_run(instances):
            pipe = hami.pipe({"backend": "OnnxInfer", "model": sys.argv[1], "instance_num": instances})
            pipe({"data": np.ones(2048, np.float32)})
            return pipe

        one = open_and_run(1)
        before = resident_mb()
        eight = open_and_run(8)
        print(resident_mb() - before < 30)
    """
    assert run_program(program, str(path)) == "True\n"


def test_a_child_of_a_fork_makes_engines_of_its_own(tmp_path):
    """The threads of a session stay in the parent, so a child that shared it would wait for them for ever."""
    path = onnx_models.write("mlp", tmp_path)
    program = """
        import os, signal, sys, warnings
        import hami
        import numpy as np

        warnings.simplefilter("ignore")  # Python warns of every fork of a process with threads

        def run():
            config = {"backend": "OnnxInfer", "model": sys.argv[1], "intra_op_threads": 2}
            pipe = hami.pipe(config)
            return pipe, pipe({"data": np.ones(8, np.float32)})["result"]

        pipe, expected = run()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if np.array_equal(run()[1], expected) else 1)
        print(os.waitpid(child, 0)[1])
    """
    assert run_program(program, str(path)) == "0\n"


# --- loaders by suffix -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".onnx", ".ONNX"])
@pytest.mark.parametrize("form", ["ModelLoader(model='{}')", "ModelLoader('{}')", "ModelLoader"])
def test_a_model_loader_makes_the_child_of_its_suffix(tmp_path, suffix, form):
    path = onnx_models.write("double", tmp_path).rename(tmp_path / f"double{suffix}")
    text = form.format(path) + "[(.trt)LoadTensorrtEngine, (.onnx)OnnxInfer]"
    node = {"model": str(path)} if form == "ModelLoader" else {}
    with hami.pipe({"backend": text, **node}) as pipe:
        np.testing.assert_array_equal(pipe({"data": floats(1, 2)})["result"], [2, 4])


@pytest.mark.parametrize("name", ["model.pt", "model", ".onnx", "folder.onnx/model", "model.onnx."])
def test_a_suffix_that_no_loader_is_for_is_refused(tmp_path, name):
    with pytest.raises(BuildError, match="no loader is for the suffix") as caught:
        hami.pipe(f"ModelLoader('{tmp_path}/{name}')[(.onnx)OnnxInfer]")
    assert caught.value.code == "model-suffix"
    assert "`.onnx`" in caught.value.help


def test_a_loader_without_suffixes_says_how_to_write_them(tmp_path):
    with pytest.raises(BuildError, match="no loader") as caught:
        hami.pipe("ModelLoader(model=m.onnx)[OnnxInfer]")
    assert "(.onnx)Onnx2Tensorrt" in caught.value.help
