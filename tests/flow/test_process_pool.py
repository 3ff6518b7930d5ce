"""Laws of `ProcessPool[X]`: what goes to workers and back, how a batch is split, and what must be refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pool_backends import PoolEcho, Stubborn, TwoArgumentsError, Unpicklable

import hami
import hami.process  # before a test's registry, which forgets what is registered meanwhile
from hami import _core

FOR_EVER_MS = 600_000


class Point:
    """An object of a class that only this module has."""

    def __init__(self, x: int) -> None:
        self.x = x


class PoolHere(hami.Backend):
    """A backend of a test module, which no worker can import by its name."""

    def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
        """Answer with something of this module."""
        return [Point(item["data"]).x + 1 for item in batch]


@pytest.fixture(scope="module")
def echo() -> Iterator[hami.Pipeline]:
    """Return a pool of two workers that do what `data` says, in batches of up to 8."""
    with hami.pipe(
        {"echo": {"backend": "ProcessPool(num_workers=2)[PoolEcho]", "max": 8, "batching_timeout": 100}}
    ) as pipeline:
        yield pipeline


def workers() -> set[int]:
    """Return the processes that this one has started and that are still there."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
                command = Path("/proc", entry, "cmdline").read_text()
            except OSError:
                continue
            if int(stat[1]) == os.getpid() and stat[0] != "Z" and "hami.process.worker" in command:
                found.add(int(entry))
    return found


# --- what travels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        2**100,
        1.5,
        "text",
        "\ud800",
        b"bytes",
        (),
        [1, [2, {"k": (3,)}]],
        {"a": {1, 2}},
        range(3),
        Ellipsis,
        PoolEcho,
        len,
    ],
    ids=repr,
)
def test_any_object_that_pickles_comes_back(echo: hami.Pipeline, value: Any) -> None:
    answer = echo({"data": value})["result"]
    assert answer == value and type(answer) is type(value)


@pytest.mark.parametrize("size_bytes", [0, 1, 4095, 4096, 32_767, 32_768, 32_769, 3_000_000])
def test_bytes_of_any_size_come_back(echo: hami.Pipeline, size_bytes: int) -> None:
    data = os.urandom(size_bytes)
    assert echo({"data": data})["result"] == data
    assert echo({"data": bytearray(data)})["result"] == data
    assert echo({"data": ("fill", size_bytes)})["result"] == b"x" * size_bytes


def test_a_large_message_after_a_small_one_after_a_large_one(echo: hami.Pipeline) -> None:
    for size_bytes in (100_000, 1_000_000, 10, 500_000, 2_000_000, 40_000, 1):
        data = os.urandom(size_bytes)
        assert echo({"data": data})["result"] == data


def test_arrays_come_back_with_dtype_shape_and_order(echo: hami.Pipeline) -> None:
    np = pytest.importorskip("numpy")
    base = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    for array in (
        base,
        np.asfortranarray(base),
        base[:, ::-1],
        base.T,
        base[::2],
        np.zeros((0, 3)),
        np.ones((1, 1, 5), dtype=np.float16),
        np.array(3),
        np.array(["a", "bc"]),
        np.array([{"k": 1}], dtype=object),
        base > 7,
    ):
        answer = echo({"data": array})["result"]
        assert answer.dtype == array.dtype and answer.shape == array.shape
        assert (answer == array).all()


def test_an_answer_belongs_to_its_caller(echo: hami.Pipeline) -> None:
    np = pytest.importorskip("numpy")
    first = echo({"data": np.ones(100_000)})["result"]
    second = echo({"data": np.zeros(100_000)})["result"]
    assert (first == 1).all() and (second == 0).all()
    first[:] = 7
    assert (second == 0).all()


def test_views_of_memory_come_back_as_views(echo: hami.Pipeline) -> None:
    data = memoryview(bytearray(range(12))).cast("B", (3, 4))
    answer = echo({"data": data})["result"]
    assert answer.shape == (3, 4) and answer.tolist() == data.tolist()


def test_a_tensor_without_a_name_among_buffers_comes_back(echo: hami.Pipeline) -> None:
    np = pytest.importorskip("numpy")
    values = np.arange(6, dtype=np.uint16).reshape(2, 3)

    back = echo({"data": _core.reinterpret(values, "bfloat16")})["result"]

    assert (str(back.dtype).removeprefix("torch."), tuple(back.shape)) == ("bfloat16", (2, 3))
    assert np.array_equal(_core.reinterpret(back, "uint16"), values)


def test_the_worker_sees_all_keys_and_writes_any(echo: hami.Pipeline) -> None:
    assert echo({"data": ("keys",), "b": 1, "a": 2})["result"] == ["a", "b", "data"]
    request = {"data": ("write", "extra", [1]), "kept": 5}
    assert echo(request) == {**request, "extra": [1], "result": "written"}


def test_a_request_with_a_deadline_a_priority_and_an_entry_goes_through(echo: hami.Pipeline) -> None:
    request = {"data": 1, "deadline_ms": 60_000, "priority": 3, "node_name": "echo", "request_size": 2}
    assert echo(request)["result"] == 1


# --- what does not --------------------------------------------------------------------------------


def test_a_request_that_does_not_pickle_fails_alone_and_names_the_key(echo: hami.Pipeline) -> None:
    requests: list[dict[str, Any]] = [{"data": i} for i in range(4)]
    requests[2]["lock"] = threading.Lock()
    with pytest.raises(hami.RequestError, match="`lock` of the request") as caught:
        echo(requests)
    assert caught.value.code == "worker-pickle" and caught.value.help
    assert [request.get("result") for request in requests] == [0, 1, None, 3]


@pytest.mark.parametrize(
    "bad", [Unpicklable(), lambda: None, (i for i in ())], ids=["reduce", "lambda", "gen"]
)
def test_every_kind_of_object_that_does_not_pickle_is_told(echo: hami.Pipeline, bad: Any) -> None:
    with pytest.raises(hami.RequestError, match="`data` of the request"):
        echo({"data": bad})


def test_a_request_that_does_not_unpickle_fails_alone(echo: hami.Pipeline) -> None:
    requests = [{"data": 1}, {"data": Stubborn()}, {"data": 3}]
    with pytest.raises(ValueError, match="not here"):
        echo(requests)
    assert [request.get("result") for request in requests] == [1, None, 3]


def test_a_result_that_does_not_pickle_fails_alone_and_names_the_key(echo: hami.Pipeline) -> None:
    requests = [{"data": 1}, {"data": ("lambda",)}, {"data": 3}]
    with pytest.raises(hami.RequestError, match="`result` of the result"):
        echo(requests)
    assert [request.get("result") for request in requests] == [1, None, 3]


# --- exceptions -----------------------------------------------------------------------------------


def test_an_exception_keeps_its_type_and_shows_where_it_was_raised(echo: hami.Pipeline) -> None:
    with pytest.raises(KeyError) as caught:
        echo({"data": ("raise", KeyError, "missing")})
    error = caught.value
    assert error.args == ("missing",)
    assert "do_raise" in str(error.__cause__) and "pool_backends.py" in str(error.__cause__)
    assert error.__notes__ == [
        "in node `echo`, backend `PoolEcho`, instance 0",
        "in node `echo`, backend `ProcessPool`, instance 0",
    ]


@pytest.mark.parametrize(
    "kind", [ValueError, OSError, SystemExit, KeyboardInterrupt, MemoryError, hami.QueueFull]
)
def test_exceptions_of_all_kinds_arrive_and_leave_the_worker_alive(echo: hami.Pipeline, kind: Any) -> None:
    before = workers()
    with pytest.raises(kind, match="told"):
        echo({"data": ("raise", kind, "told")})
    assert workers() == before


def test_an_exception_that_does_not_unpickle_is_told_in_words(echo: hami.Pipeline) -> None:
    with pytest.raises(hami.WorkerError, match="TwoArgumentsError: 1 and 2") as caught:
        echo({"data": ("raise", TwoArgumentsError, 1, 2)})
    assert isinstance(caught.value, RuntimeError) and caught.value.code == "worker-exception"
    assert "do_raise" in str(caught.value.__cause__)


def test_a_bad_item_fails_alone(echo: hami.Pipeline) -> None:
    requests: list[dict[str, Any]] = [{"data": i} for i in range(8)]
    requests[5]["data"] = ("raise", ValueError, "bad")
    with pytest.raises(ValueError, match="bad"):
        echo(requests)
    assert [request.get("result") for request in requests] == [0, 1, 2, 3, 4, None, 6, 7]


# --- batches --------------------------------------------------------------------------------------


def test_a_batch_is_split_evenly_over_the_workers(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "backend": "ProcessPool(num_workers=2)[PoolSizes(label=mine)]",
            "batching_timeout": FOR_EVER_MS,
        }
    )
    answers = [answer["result"] for answer in pipeline([{"data": i} for i in range(16)])]
    assert [size for _, size, _ in answers] == [8] * 16
    assert len({pid for pid, _, _ in answers}) == 2
    assert {label for _, _, label in answers} == {"mine"}
    assert pipeline.stats()[0]["batch_rows"] == {16: 1}


def test_max_bounds_the_batches_of_the_node(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"backend": "ProcessPool(num_workers=2)[PoolSizes]", "max": 4, "batching_timeout": FOR_EVER_MS}
    )
    answers = [answer["result"][1] for answer in pipeline([{"data": i} for i in range(8)])]
    assert answers == [2] * 8


def test_no_part_is_smaller_than_the_backend_can_run(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "ProcessPool(num_workers=2)[PoolPairs]", "batching_timeout": 50})
    assert [answer["result"] for answer in pipeline([{"data": i} for i in range(3)])] == [3] * 3
    assert [answer["result"] for answer in pipeline([{"data": i} for i in range(4)])] == [2] * 4


def test_a_max_above_the_backends_own_is_an_error_while_building() -> None:
    before = workers()
    with pytest.raises(hami.BuildError, match="`max` = `9` is above") as caught:
        hami.pipe({"backend": "ProcessPool[PoolSizes]", "max": 9})
    assert caught.value.code == "build-batch-range" and workers() == before


def test_instances_have_workers_of_their_own(open_pipe: Any, eventually: Any, tmp_path: Path) -> None:
    before = workers()
    pipeline = open_pipe({"backend": "ProcessPool[PoolEcho]", "instance_num": 2, "max": 1})
    assert len(workers() - before) == 2
    futures = [pipeline.submit({"data": ("wait", str(tmp_path))}) for _ in range(2)]
    assert eventually(lambda: len(list(tmp_path.glob("began.*"))) == 2)
    (tmp_path / "go").touch()
    assert [future.result(10)["result"] for future in futures] == ["went", "went"]


# --- what stands in the brackets ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Pow", 9),
        ("S[pool_function, Pow]", 36),
        ("IoC[Pow; S[Forward[Pow], pool_async]]", 27),
        ("Reflect[which]", 6),
    ],
)
def test_any_expression_may_stand_inside(open_pipe: Any, expression: str, expected: int) -> None:
    settings = {"which": "pool_function"} if "which" in expression else {}
    pipeline = open_pipe({"backend": f"S[Identity, ProcessPool[{expression}]]", **settings})
    assert pipeline({"data": 3})["result"] == expected


def test_a_class_of_a_module_that_only_the_parent_can_find(open_pipe: Any) -> None:
    hami.register(PoolHere)
    assert open_pipe("ProcessPool[PoolHere]")({"data": 3})["result"] == 4


def test_imports_of_the_configuration_reach_the_worker(open_pipe: Any, tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text("import builtins\nbuiltins.side_effect = 5\n")
    (tmp_path / "mine.py").write_text(
        "import hami\n\n\n@hami.register\nclass FromImports(hami.Backend):\n"
        "    def forward(self, batch):\n        import builtins\n"
        "        return [item['data'] + builtins.side_effect for item in batch]\n"
    )
    (tmp_path / "pipeline.toml").write_text(
        'imports = ["./side.py", "./mine.py"]\n\n[node]\nbackend = "ProcessPool[FromImports]"\n'
    )
    assert open_pipe(tmp_path / "pipeline.toml")({"data": 1})["result"] == 6


def test_a_class_defined_in_a_function_is_refused_by_name() -> None:
    @hami.register
    class Hidden(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> None: ...

    hami.register("nameless", lambda batch: None)
    for name in ("Hidden", "nameless"):
        with pytest.raises(hami.BuildError, match=f"`{name}` cannot be used.*inside a function") as caught:
            hami.pipe(f"ProcessPool[S[Pow, {name}]]")
        assert caught.value.code == "worker-reference" and "imports" in caught.value.help


def test_a_function_that_its_module_does_not_have_is_refused() -> None:
    hami.register("method", Point(1).__init__)  # type: ignore[misc]
    with pytest.raises(hami.BuildError, match="the same object"):
        hami.pipe("ProcessPool[method]")


def test_a_parameter_that_does_not_pickle_is_refused() -> None:
    with pytest.raises(hami.BuildError, match="a parameter of node `node`") as caught:
        hami.pipe({"backend": "ProcessPool[Reflect[which]]", "which": "PoolAny", "lock": threading.Lock()})
    assert caught.value.code == "worker-parameter"


@pytest.fixture(autouse=True)
def any_keys() -> None:
    """Register a class that takes any key."""
    hami.register("PoolAny", PoolAny)


class PoolAny:
    """Takes any parameter."""

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Take them."""

    def forward(self, batch: list[dict[str, Any]]) -> list[int]:
        """Answer."""
        return [0 for _ in batch]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("S[Register(other)[Pow], ProcessPool[Forward[other]]]", "other"),
        ("IoC[Pow; ProcessPool[Forward[Pow]]]", "Pow"),
        ("ProcessPool[Register(other)[Pow]]", "Register"),
    ],
)
def test_what_only_this_process_has_is_refused_when_planned(text: str, name: str) -> None:
    with pytest.raises(hami.ConfigError, match=f"`{name}`") as caught:
        hami.pipe(text)
    assert caught.value.code == "plan-other-process" and caught.value.help


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("ProcessPool", "plan-num-children"),
        ("ProcessPool[Pow, Pow]", "plan-num-children"),
        ("ProcessPool(num_workers=0)[Pow]", "plan-bad-value"),
        ("ProcessPool(num_workers=257)[Pow]", "plan-bad-value"),
        ("ProcessPool[Pov]", "plan-unknown-backend"),
        ("ProcessPool(workers=2)[Pow]", "plan-unknown-argument"),
    ],
)
def test_what_is_wrong_is_told_before_a_process_starts(source: str, code: str) -> None:
    before = workers()
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe(source)
    assert caught.value.code == code and workers() == before
