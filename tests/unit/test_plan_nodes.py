"""One node: how it is built, the names of its backends, instances, macros, and what the core gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from planning import backends, error_of, params

from hami.backend import register
from hami.errors import ConfigError
from hami.parser import alias
from hami.plan import DEFAULT_ENTRYPOINT, PlannedBackend, plan

Write = Callable[..., str]


def shape(backend: PlannedBackend) -> Any:
    return (backend.name, [shape(child) for child in backend.children]) if backend.children else backend.name


# --- how a node is built ------------------------------------------------------------------------------------


def test_a_node_is_batcher_and_instances() -> None:
    [node] = plan("S[Identity, Pow]").nodes

    assert shape(node.backend) == (
        "List",
        [
            ("InstancesRegister", [("BackgroundThread", [("S", ["Identity", "Pow"])])]),
            ("Register", [("DI", ["Batching", "InstanceDispatcher"])]),
        ],
    )


def test_the_default_is_an_expression_like_any_other() -> None:
    written = plan({"backend": "Pow", "node_entrypoint": DEFAULT_ENTRYPOINT}).nodes[0].backend
    default = plan({"backend": "Pow"}).nodes[0].backend

    assert shape(written) == shape(default)


def test_registered_names_come_from_the_node() -> None:
    source = {"a": {"backend": "Pow", "instance_num": 3}}

    assert params(source, "Register") == {"name": "node.a"}
    assert params(source, "InstancesRegister") == {"name": "a", "instance_num": 3}


def test_a_registered_name_may_be_given() -> None:
    source = {"node_entrypoint": "List[Register(other)[Pow], Register[DI[Forward[other]]]]", "a": {}}

    assert [backend.params["name"] for backend in backends(source, "Register")] == ["other", "node.a"]


def test_a_key_called_name_does_not_rename_what_is_registered() -> None:
    assert error_of({"backend": "Pow", "name": "x"}).code == "config-unknown-key"


def test_an_operator_is_the_whole_node() -> None:
    source = {"a": {"backend": "ForEach(target=b)"}, "b": {"backend": "Pow"}}

    assert plan(source).nodes[0].backend.name == "ForEach"


def test_an_operator_in_a_sequence_makes_the_node_several() -> None:
    source = {"a": {"backend": "S[Pow, S[Pow, ForEach(target=b)], Pow]"}, "b": {"backend": "Pow"}}
    nodes = plan(source).nodes
    assert [(node.name, node.next, node.target) for node in nodes] == [
        ("a", (1,), None),
        ("a#2", (2,), 3),
        ("a#3", (), None),
        ("b", (), None),
    ]


@pytest.mark.parametrize(
    "backend", ["List[ForEach(target=b)]", "IoC[Pow; ForEach(target=b)]", "DI[ForEach, Pow]"]
)
def test_an_operator_inside_something_is_refused(backend: str) -> None:
    error = error_of({"a": {"backend": backend}, "b": {"backend": "Pow"}})

    assert error.code == "plan-nested-operator"


def test_an_operator_inside_an_entrypoint_is_refused() -> None:
    source = {
        "a": {"backend": "Pow", "node_entrypoint": "List[BackendProxy, ForEach(target=b)]"},
        "b": {"backend": "Pow"},
    }

    assert error_of(source).code == "plan-nested-operator"


def test_a_node_needs_a_backend(write: Write) -> None:
    error = error_of(write("[a]\nmax = 3\n"))

    assert (error.code, error.where) == ("plan-missing-backend", "pipeline.toml:1")
    assert "node `a` has no `backend`" in error.message


def test_an_entrypoint_that_reflects_nothing_needs_no_backend() -> None:
    assert plan({"entrypoint": "IoCV0[Identity;Forward[Identity]]"}).nodes[0].backend.name == "IoC"


def test_phases_reach_the_core() -> None:
    [node] = plan({"entrypoint": "IoCV0[Identity, Pow; S[Identity, Forward[Pow]]]"}).nodes
    made = node.backend

    assert (made.num_phase1, len(made.children)) == (2, 3)
    assert [child.kind for child in made.children[2].children] == ["bound", "create"]
    assert made.children[2].children[1].children[0].kind == "bound"


@pytest.mark.parametrize("value", [3, ["A"], {"a": 1}, True])
def test_a_backend_must_be_text(value: object) -> None:
    assert error_of({"a": {"backend": value}}).code == "plan-bad-value"


def test_a_prefix_reaches_the_core() -> None:
    [identity] = backends("S[Pow, (or)Identity]", "Identity")

    assert identity.prefix == "or"
    assert backends("S[(.onnx)Pow, Identity]", "Pow")[0].prefix == ".onnx"
    assert backends("S[(filter=run)Pow]", "Pow")[0].prefix == "filter=run"
    assert backends("Pow", "Pow")[0].prefix is None


# --- names of backends --------------------------------------------------------------------------------------


def test_an_unknown_backend_is_refused_at_its_place(write: Write) -> None:
    error = error_of(write('[a]\nbackend = "S[Identity, Idenity]"'))

    assert (error.code, error.where) == ("plan-unknown-backend", "pipeline.toml:2")
    assert error.excerpt == '2 | backend = "S[Identity, Idenity]"\n  |                        ^^^^^^^'
    assert error.help.startswith("did you mean `Identity`")


def test_a_place_in_a_text_of_several_lines_is_right(write: Write) -> None:
    error = error_of(write('[a]\nbackend = """\nS[\n  Identity,\n  Foo\n]"""'))

    assert error.where == "pipeline.toml:5"
    assert error.excerpt == "5 |   Foo\n  |   ^^^"


def test_a_name_that_is_near_nothing_points_to_the_list() -> None:
    assert error_of("Qqqqqqqqqq").help == "run `hami backends` for the list"


def test_an_old_spelling_is_suggested_too() -> None:
    assert "`SequentialV0`" in error_of("SequentialV1[Pow]").help


def test_a_family_that_is_not_installed_is_an_error_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        raise ConfigError("cv2 is missing", code="family-missing", help="pip install hami-core[image]")

    monkeypatch.setattr("hami.plan.backends.find", find)
    error = error_of("DecodeImage")

    assert (error.code, error.where, error.help) == (
        "family-missing",
        "expression:1",
        "pip install hami-core[image]",
    )
    assert error.excerpt


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("S", "takes at least 1"),
        ("CatSplit[Pow, Pow]", "takes 3"),
        ("Identity[Pow]", "takes no backends"),
        ("Batching[Pow, Pow]", "takes 0 to 1"),
        ("With[Pow]", "takes 2"),
    ],
)
def test_the_number_of_children_is_checked(text: str, words: str) -> None:
    error = error_of(text)

    assert error.code == "plan-num-children"
    assert words in error.message


# --- instances ----------------------------------------------------------------------------------------------


def test_the_instance_of_another_node_can_be_called() -> None:
    source = {"a": {"backend": "Pow", "next": "b"}, "b": {"backend": "S[Forward[node.a], Forward[a.0]]"}}

    found = [backend.children[0] for backend in backends(source, "Forward")]
    assert [(backend.name, backend.kind) for backend in found] == [
        ("node.a", "instance"),
        ("a.0", "instance"),
    ]


def test_there_are_as_many_instances_as_the_node_says() -> None:
    source = {
        "backend": "Pow",
        "instance_num": 2,
        "node_entrypoint": f"List[{DEFAULT_ENTRYPOINT}, Forward[node.2]]",
    }

    error = error_of(source)
    assert error.code == "expand-unknown-instance"
    assert "`node.1`" in error.help


def test_an_object_registered_in_python_can_be_called() -> None:
    class Thing:
        def forward(self, batch: list[dict[str, Any]]) -> None:
            pass

    thing = Thing()
    register("thing", thing)
    [forward] = backends("Forward[thing]", "Forward")

    assert forward.children[0].kind == "create"
    assert forward.children[0].python is thing


def test_a_name_registered_twice_is_refused() -> None:
    assert (
        error_of({"entrypoint": "List[Register[Pow], Register[Identity]]"}).code == "plan-duplicate-instance"
    )


# --- macros -------------------------------------------------------------------------------------------------


def test_keywords_of_a_macro_reach_the_backends_that_declare_them() -> None:
    alias("Z", "S[Identity, OnnxInfer]", max=4, provider="cuda")
    source = {"backend": "Z", "model": "m", "max": 8}

    assert params(source, "OnnxInfer") == {"model": "m", "max": 4, "provider": "cuda", "intra_op_threads": 1}


def test_arguments_win_over_keywords_of_a_macro() -> None:
    alias("Z", "S[OnnxInfer(max=2)]", max=4)

    assert params({"backend": "Z(max=5)", "model": "m"}, "OnnxInfer")["max"] == 2


def test_a_keyword_of_a_macro_that_nobody_declares_is_refused() -> None:
    alias("Z", "S[Identity]", size=4)

    error = error_of("Z")
    assert error.code == "plan-unknown-argument"
    assert "`size`" in error.message


def test_a_macro_with_the_name_of_a_backend_is_refused_where_it_is_used() -> None:
    alias("Pow", "Identity")

    assert plan("Identity")
    assert error_of("Pow").code == "plan-hidden-backend"


# --- for the core -------------------------------------------------------------------------------------------


def test_a_plan_is_plain_data_for_the_core() -> None:
    data = plan({"backend": "Add(1)", "max": 4}).to_core()

    [node] = data["nodes"]
    add = node["expr"]["children"][0]["children"][0]["children"][0]
    assert add == {
        "class": "Add",
        "kind": "create",
        "params": {"value": 1.0, "times": 1},
        "children": [],
        "num_phase1": 0,
        "prefix": None,
        "where": "expression:1",
        "python": None,
        "condition": None,
        "is_condition": False,
    }
    assert {key: node[key] for key in node if key != "expr"} == {
        "name": "node",
        "params": {"backend": "Add(1)", "max": 4},
        "region": 0,
        "next": [],
        "map": None,
        "or": False,
        "foreach_target": None,
        "restart_at": None,
    }
    assert data["regions"] == [{"roots": [0], "output": 0}]
    assert data["fanout"] is None
    assert data["settings"] == {
        "queue_capacity": 65536,
        "max_in_flight": None,
        "deadline_ms": None,
        "priority": 0,
    }


def test_wiring_stands_at_the_node_and_backends_at_their_text(write: Write) -> None:
    [node] = plan(write('\n[a]\nmax = 1\nbackend = "Pow"\n')).nodes

    assert node.backend.where == "pipeline.toml:2"
    assert node.backend.children[0].children[0].children[0].where == "pipeline.toml:4"
