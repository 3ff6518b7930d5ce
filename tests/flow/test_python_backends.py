"""Laws of backends in Python: classes, functions and objects, their parameters, and how they run."""

from __future__ import annotations

import functools
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


class Square(hami.Backend):
    """Square `data`, then add `offset`."""

    batch_range = (1, 8)
    offset = hami.param(0, doc="added after squaring")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set the result of every item."""
        for item in batch:
            item["result"] = item["data"] ** 2 + self.offset


# --- the forms ------------------------------------------------------------------------------------


def test_a_class_is_a_backend_under_its_name(open_pipe: Any) -> None:
    hami.register(Square)
    assert open_pipe("Square")({"data": 3})["result"] == 9
    assert open_pipe("Square(2)")({"data": 3})["result"] == 11
    assert open_pipe("Square(offset=3)")({"data": 3})["result"] == 12
    assert open_pipe({"backend": "Square", "offset": 4})({"data": 3})["result"] == 13
    assert open_pipe({"backend": "Square(5)", "offset": 4})({"data": 3})["result"] == 14


def test_register_gives_the_class_back(open_pipe: Any) -> None:
    assert hami.register(Square) is Square
    assert hami.register("OtherName")(Square) is Square
    assert open_pipe("S[OtherName, Square]")({"data": 2})["result"] == 16


def test_a_plain_class_with_init_and_forward_is_a_backend(open_pipe: Any) -> None:
    @hami.register
    class Plain:
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.params = params

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [self.params for _ in batch]

    params = open_pipe({"backend": "Plain", "anything": "goes", "number": 1.5})({"data": 0})["result"]
    assert (params["anything"], params["number"]) == ("goes", 1.5)


def test_a_class_without_init_is_a_backend(open_pipe: Any) -> None:
    @hami.register
    class Bare:
        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [type(self).__name__ for _ in batch]

    assert open_pipe("Bare")({"data": 0})["result"] == "Bare"


def test_functions_of_all_kinds_are_backends(open_pipe: Any) -> None:
    @hami.register
    def twice(batch: list[dict[str, Any]]) -> list[Any]:
        return [item["data"] * 2 for item in batch]

    class Owner:
        def method(self, batch: list[dict[str, Any]]) -> list[Any]:
            return twice(batch)

    hami.register("method", Owner().method)
    hami.register("anonymous", lambda batch: twice(batch))
    for name in ("twice", "method", "anonymous"):
        assert open_pipe(name)({"data": 4})["result"] == 8


def test_a_function_may_carry_traits(open_pipe: Any) -> None:
    sizes: list[int] = []

    def count(batch: list[dict[str, Any]]) -> list[Any]:
        sizes.append(len(batch))
        return [0 for _ in batch]

    count.batch_range = (1, 3)  # type: ignore[attr-defined]
    hami.register("count", count)
    open_pipe({"backend": "count", "batching_timeout": FOR_EVER_MS})([{"data": i} for i in range(6)])
    assert sizes == [3, 3]


def test_an_object_is_called_by_forward(open_pipe: Any) -> None:
    class Shared:
        calls = 0

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            self.calls += len(batch)
            return [item["data"] for item in batch]

    shared = Shared()
    hami.register("shared", shared)
    assert open_pipe("Forward[shared]")({"data": 1})["result"] == 1
    assert open_pipe("S[Forward[shared], Pow]")({"data": 3})["result"] == 9
    assert shared.calls == 2


def test_instance_from_param_names_an_object(open_pipe: Any) -> None:
    class Add:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [item["data"] + self.amount for item in batch]

    hami.register("one", Add(1))
    hami.register("two", Add(2))
    for name, expected in (("one", 11), ("two", 12)):
        assert (
            open_pipe({"backend": "InstanceFromParam[which]", "which": name})({"data": 10})["result"]
            == expected
        )


def test_a_partial_counts_by_its_forward_only() -> None:
    with pytest.raises(hami.ConfigError, match="forward"):
        hami.register("partial", functools.partial(lambda batch: None))


def test_a_backend_from_a_file_named_in_imports(open_pipe: Any, tmp_path: Path) -> None:
    (tmp_path / "my_backends.py").write_text(
        "import hami\n\n\n@hami.register\nclass FromFile(hami.Backend):\n"
        "    def forward(self, batch):\n        return ['from file' for _ in batch]\n"
    )
    (tmp_path / "pipeline.toml").write_text(
        'imports = ["./my_backends.py"]\n\n[node]\nbackend = "FromFile"\n'
    )
    assert open_pipe(tmp_path / "pipeline.toml")({"data": 0})["result"] == "from file"
    assert open_pipe(str(tmp_path / "pipeline.toml"))({"data": 0})["result"] == "from file"


# --- parameters -----------------------------------------------------------------------------------


def test_parameters_have_their_types_in_init(open_pipe: Any) -> None:
    seen: dict[str, Any] = {}

    @hami.register
    class Typed(hami.Backend):
        whole = hami.param(1)
        real = hami.param(0.5)
        flag = hami.param(False)
        text = hami.param("a")
        names = hami.param((), type="list")
        free = hami.param(None)

        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            seen.update(params)
            assert (self.whole, self.text) == (params["whole"], params["text"])

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [0 for _ in batch]

    open_pipe({"backend": "Typed", "whole": "7", "real": 2, "flag": True, "names": ["x"], "free": {"k": [1]}})
    assert seen == {"whole": 7, "real": 2.0, "flag": True, "text": "a", "names": ["x"], "free": {"k": [1]}}
    assert type(seen["whole"]) is int and type(seen["real"]) is float


def test_instances_do_not_share_attributes(open_pipe: Any) -> None:
    @hami.register
    class Counting(hami.Backend):
        start = hami.param(0)

        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.count = self.start

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            self.count += 1
            return [self.count for _ in batch]

    one, ten = open_pipe("Counting"), open_pipe("Counting(start=10)")
    assert [one({"data": 0})["result"] for _ in range(3)] == [1, 2, 3]
    assert ten({"data": 0})["result"] == 11
    assert open_pipe("S[Counting, Counting(5)]")({"data": 0})["result"] == 6


def test_options_are_shared_within_an_expression_and_not_beyond(open_pipe: Any) -> None:
    @hami.register
    class Tells(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            options["told"] = options.get("told", 0) + 1
            self.told = options["told"]

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [self.told for _ in batch]

    assert open_pipe("S[Tells, Tells, Tells]")({"data": 0})["result"] == 3
    pipeline = open_pipe({"backend": "S[Tells, Tells]", "instance_num": 4})
    answers = pipeline([{"data": 0} for _ in range(20)])
    assert {answer["result"] for answer in answers} == {2}
    assert (
        open_pipe({"a": {"backend": "Tells", "next": "b"}, "b": {"backend": "Tells"}})({"data": 0})["result"]
        == 1
    )


# --- traits ---------------------------------------------------------------------------------------

ODD_TRAITS = [
    *[("batch_range", odd) for odd in ("x", None, 5, (), (1,), (1, 2, 3), (0, None), (2, 1), (-1, -1))],
    *[("batch_range", odd) for odd in ((1.5, 2), (1, "x"), (1, 2**70), (True, False))],
    *[("group_by", odd) for odd in (5, None, "shapes")],
]


@pytest.mark.parametrize("form", ["class", "object", "function"])
@pytest.mark.parametrize(("name", "value"), ODD_TRAITS)
def test_an_odd_trait_is_refused_by_name_when_it_is_registered(form: str, name: str, value: Any) -> None:
    class Odd:
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

    def odd(batch: list[dict[str, Any]]) -> list[int]:
        return [0 for _ in batch]

    target: Any = {"class": Odd, "object": Odd(), "function": odd}[form]
    setattr(target, name, value)
    with pytest.raises(hami.ConfigError, match=name):
        hami.register("Odd", target)


# --- building -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("k"), hami.BuildError("own"), SystemExit(2)])
def test_what_init_raises_reaches_the_caller_of_pipe(error: BaseException) -> None:
    class Broken(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            raise error

        def forward(self, batch: list[dict[str, Any]]) -> None: ...

    hami.register("Broken", Broken)
    with pytest.raises(type(error)) as caught:
        hami.pipe("Broken")
    assert str(error) in str(caught.value)


@pytest.mark.parametrize(
    ("where", "expected"), [("", "node `first`: own-code"), ("a.py:3", "a.py:3: own-code")]
)
def test_an_error_of_ours_raised_by_init_names_its_node_unless_it_names_a_place(
    where: str, expected: str
) -> None:
    class Broken(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            raise hami.BuildError("no such thing", code="own-code", where=where)

    hami.register("Broken", Broken)
    with pytest.raises(hami.BuildError) as caught:
        hami.pipe({"first": {"backend": "Broken"}})
    assert str(caught.value).startswith(f"{expected}: no such thing")


def test_a_constructor_that_raises_reaches_the_caller_of_pipe() -> None:
    class Broken(hami.Backend):
        def __init__(self) -> None:
            raise LookupError("in the constructor")

        def forward(self, batch: list[dict[str, Any]]) -> None: ...

    hami.register("Broken", Broken)
    with pytest.raises(LookupError, match="constructor"):
        hami.pipe("Broken")


def test_init_may_build_and_use_another_pipeline(open_pipe: Any) -> None:
    @hami.register
    class Outer(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inner = hami.pipe("Pow")
            assert self.inner({"data": 2})["result"] == 4

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [answer["result"] for answer in self.inner([{"data": item["data"]} for item in batch])]

    assert open_pipe({"backend": "Outer", "max": 4})({"data": 5})["result"] == 25


def test_a_slow_init_lets_other_threads_run(open_pipe: Any) -> None:
    inside, leave = threading.Event(), threading.Event()

    @hami.register
    class Slow(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            inside.set()
            assert leave.wait(10)

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

    other = open_pipe("Identities")
    builder = threading.Thread(target=open_pipe, args=("Slow",))
    builder.start()
    assert inside.wait(10)
    assert other({"data": 1})["result"] == 1
    leave.set()
    builder.join(10)


# --- running --------------------------------------------------------------------------------------


def test_a_batch_is_a_real_list_of_real_dicts(open_pipe: Any) -> None:
    kinds: list[Any] = []

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        kinds.append((type(batch), [type(item) for item in batch]))
        return [0 for _ in batch]

    hami.register("Kinds", forward)
    open_pipe({"backend": "Kinds", "max": 2, "batching_timeout": FOR_EVER_MS})([{"data": 1}, {"data": 2}])
    assert kinds == [(list, [dict, dict])]


def test_zero_rows_never_reach_a_backend(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe(
        {"each": {"backend": "ForEach(target=work)"}, "work": {"backend": "Probe", "max": 4}}
    )
    for _ in range(10):
        assert pipeline({"data": []})["result"] == []
    seen.shut()
    plug = pipeline.submit({"data": ["plug"]})
    seen.wait_for_runs(1)
    futures = [pipeline.submit({"data": [i]}) for i in range(8)]
    for future in futures:
        future.cancel()
    seen.open()
    plug.result(10)
    pipeline({"data": [9]})
    assert seen.batches == [["plug"], [9]]


def test_a_backend_may_call_pipelines_from_its_thread(open_pipe: Any, in_threads: Any) -> None:
    inner = open_pipe({"backend": "Identities", "max": 8})
    hami.register("Outer", lambda batch: [inner({"data": item["data"]})["result"] for item in batch])
    pipeline = open_pipe({"backend": "Outer", "max": 4, "instance_num": 2})

    def call(thread: int) -> None:
        for i in range(30):
            assert pipeline({"data": (thread, i)})["result"] == (thread, i)

    in_threads(8, call)


# Without the GIL the collector also meets, on a thread of the core, what earlier tests left to be finalised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_backend_keeps_its_thread_locals(open_pipe: Any) -> None:
    local = threading.local()

    def forward(batch: list[dict[str, Any]]) -> list[int]:
        local.count = getattr(local, "count", 0) + 1
        gc.collect()
        return [local.count for _ in batch]

    hami.register("Local", forward)
    pipeline = open_pipe("Local")
    assert [pipeline({"data": 0})["result"] for _ in range(5)] == [1, 2, 3, 4, 5]
