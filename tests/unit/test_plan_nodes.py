"""One node: its keys, its expression, and the parameters of every backend in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hami.backend import Backend, param, register
from hami.errors import ConfigError
from hami.parser import alias
from hami.plan import DEFAULT_ENTRYPOINT, PlannedBackend, plan

Write = Callable[..., str]


def backends(source: object, name: str) -> list[PlannedBackend]:
    """Return all backends of that name in the pipeline."""
    found: list[PlannedBackend] = []

    def visit(one: PlannedBackend) -> None:
        if one.name == name:
            found.append(one)
        for child in one.children:
            visit(child)

    for node in plan(source).nodes:
        visit(node.backend)
    return found


def params(source: object, name: str) -> dict[str, Any]:
    [backend] = backends(source, name)
    return dict(backend.params)


def error_of(source: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        plan(source)
    assert caught.value.where
    assert caught.value.help
    return caught.value


def shape(backend: PlannedBackend) -> Any:
    return (backend.name, [shape(child) for child in backend.children]) if backend.children else backend.name


# --- how a node is built ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize("backend", ["S[ForEach(target=b)]", "S[Pow, ForEach(target=b)]", "DI[ForEach, Pow]"])
def test_an_operator_inside_something_is_refused(backend: str) -> None:
    error = error_of({"a": {"backend": backend}, "b": {"backend": "Pow"}})

    assert error.code == "plan-nested-operator"


def test_an_operator_inside_an_entrypoint_is_refused() -> None:
    source = {
        "a": {"backend": "ForEach(target=b)", "node_entrypoint": "List[BackendProxy]"},
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


# --- names of backends -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("name", "family"), [("TorchInfer", "torch"), ("LoadTensorrtEngine", "tensorrt"), ("LLM", "llm")]
)
def test_a_backend_of_a_family_to_come_says_so(name: str, family: str) -> None:
    error = error_of(f"S[{name}]")

    assert error.code == "plan-unavailable-backend"
    assert f"`{name}` belongs to the `{family}` backends, which are not part of this version" in error.message


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


# --- instances -------------------------------------------------------------------------------------------


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

    assert forward.children[0].kind == "instance"
    assert forward.children[0].python is thing


def test_a_name_registered_twice_is_refused() -> None:
    assert (
        error_of({"entrypoint": "List[Register[Pow], Register[Identity]]"}).code == "plan-duplicate-instance"
    )


# --- parameters ------------------------------------------------------------------------------------------


def test_own_arguments_win_over_the_nodes() -> None:
    source = {"backend": "S[Add(1), Add(value=2), Add]", "value": 3, "times": 4}

    assert [dict(backend.params) for backend in backends(source, "Add")] == [
        {"value": 1.0, "times": 4},
        {"value": 2.0, "times": 4},
        {"value": 3.0, "times": 4},
    ]


def test_defaults_fill_the_rest() -> None:
    assert params({"backend": "OnnxInfer", "model": "/m"}, "OnnxInfer") == {
        "model": "/m",
        "max": None,
        "provider": "cpu",
        "intra_op_threads": 1,
    }


def test_text_is_accepted_where_a_number_is_declared() -> None:
    assert params({"backend": "Add('1.5')", "times": "4"}, "Add") == {"value": 1.5, "times": 4}


def test_the_nodes_keys_are_checked_and_typed() -> None:
    [node] = plan({"backend": "Pow", "max": "8", "batching_timeout": 4, "instance_num": 2.0}).nodes

    assert node.params == {"backend": "Pow", "max": 8, "batching_timeout": 4.0, "instance_num": 2}


def test_a_bare_number_for_text_is_kept_as_written() -> None:
    class Coded(Backend):
        code = param("")

    register(Coded)

    assert params("Coded(007)", "Coded") == {"code": "007"}


def test_a_placeholder_keeps_its_type() -> None:
    class Listed(Backend):
        sizes = param([])

    register(Listed)

    assert params({"backend": "Listed({shape})", "shape": [1, 2]}, "Listed") == {"sizes": [1, 2]}


def test_paths_are_relative_to_the_file(write: Write, tmp_path: Path) -> None:
    write('[a]\nbackend = "S[OnnxInfer, OnnxInfer(models/own.onnx)]"\nmodel = "m.onnx"\n', "sub/p.toml")

    assert [backend.params["model"] for backend in backends("sub/p.toml", "OnnxInfer")] == [
        str(tmp_path / "sub/m.onnx"),
        str(tmp_path / "sub/models/own.onnx"),
    ]


def test_paths_in_a_dict_stay() -> None:
    assert params({"backend": "OnnxInfer(m.onnx)"}, "OnnxInfer")["model"] == "m.onnx"


def test_a_missing_parameter_names_backend_and_node() -> None:
    error = error_of({"a": {"backend": "S[OnnxInfer]"}})

    assert error.code == "plan-missing-parameter"
    assert "`OnnxInfer` needs `model`" in error.message
    assert "`a`" in error.help


@pytest.mark.parametrize(
    ("backend", "code", "words"),
    [
        ("Add(1, 2, 3)", "plan-too-many-arguments", "takes at most 2"),
        ("Identity(1)", "plan-too-many-arguments", "takes no"),
        ("Add(1, tmes=2)", "plan-unknown-argument", "has no parameter `tmes`"),
        ("Add(1, value=2)", "plan-duplicate-argument", "by position and by name"),
        ("Add(x)", "plan-bad-value", "`value` must be a number, got `x`"),
        ("Add(1, times=0)", "plan-bad-value", "`times` must be at least 1, got `0`"),
        ("OnnxInfer(m, provider=cdua)", "plan-bad-value", "`provider` cannot be `cdua`"),
    ],
)
def test_a_wrong_argument_is_refused(backend: str, code: str, words: str) -> None:
    error = error_of(f"S[{backend}]")

    assert error.code == code
    assert words in error.message


def test_a_wrong_argument_is_pointed_at(write: Write) -> None:
    error = error_of(write('[a]\nbackend = "Add(1, times=99)"'))

    assert error.where == "pipeline.toml:2"
    assert error.excerpt.split("\n")[1].index("^") == len('2 | backend = "Add(1, ')


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("batching_timeout", -1, "at least 0 ms, got `-1`"),
        ("batching_timeout", float("inf"), "a number in ms"),
        ("batching_timeout", float("nan"), "a number in ms"),
        ("batching_timeout", "soon", "a number in ms, got `soon`"),
        ("instance_num", 0, "at least 1"),
        ("instance_num", 1.5, "a whole number"),
        ("instance_num", True, "a whole number"),
        ("instance_num", 10**6, "at most 4096"),
        ("max", 0, "at least 1"),
        ("min", -3, "at least 1"),
        ("queue_capacity", 0, "at least 1"),
        ("scheduler", "fif", "cannot be `fif`"),
        ("isolate_errors", "maybe", "`true` or `false`"),
        ("or", 3, "`true` or `false`"),
        ("backend", 3, "text"),
        ("node_entrypoint", ["A"], "text"),
    ],
)
def test_a_wrong_value_of_a_node_key_is_refused(key: str, value: Any, words: str) -> None:
    error = error_of({"a": {"backend": "Identity", key: value}})

    assert error.code == "plan-bad-value"
    assert error.where == f"a.{key}"
    assert words in error.message


def test_a_wrong_value_in_a_file_is_pointed_at(write: Write) -> None:
    error = error_of(write("batching_timeout = -1\n[a]\nbackend = 'Identity'\n"))

    assert error.where == "pipeline.toml:1"
    assert error.excerpt == "1 | batching_timeout = -1\n  |                    ^^"


def test_min_above_max_is_refused() -> None:
    error = error_of({"a": {"backend": "Identity", "min": 5, "max": 4}})

    assert "`min` of node `a` is `5`, above its `max` of `4`" in error.message


def test_a_registered_scheduler_is_accepted() -> None:
    class ByHeight(Backend):
        pass

    register(ByHeight)

    assert plan({"backend": "Pow", "scheduler": "ByHeight"}).nodes[0].params["scheduler"] == "ByHeight"


# --- keys ------------------------------------------------------------------------------------------------


def test_an_unknown_key_reads_as_the_specification_says(write: Write) -> None:
    decode = '[decode]\nbackend = "Identity"\nnext = "classify"\n\n'
    classify = '[classify]\nbackend = "OnnxInfer"\nmodel = "m"\n\n'

    error = error_of(write(decode + classify + "batching_timeot = 4\n"))

    assert (
        str(error)
        == """\
pipeline.toml:9: config-unknown-key: node `classify` has no parameter `batching_timeot`
9 | batching_timeot = 4
  | ^^^^^^^^^^^^^^^
help: did you mean `batching_timeout`?"""
    )


def test_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    assert error_of({"a": {"backend": "Identity", "max_bacth": 8}}).help == "did you mean `max`?"


def test_a_key_of_any_backend_is_known() -> None:
    assert plan({"a": {"backend": "S[Identity, Add]", "value": 3}})


def test_a_key_of_the_pipeline_does_not_belong_to_a_node(write: Write) -> None:
    error = error_of(write("[a]\nbackend = 'Pow'\nfanout = 'roots'\n"))

    assert error.code == "config-unknown-key"
    assert error.help == "`fanout` belongs to the whole pipeline: write it above the first table"


def test_a_key_at_the_top_must_be_known_to_some_node() -> None:
    source = {"value": 3, "a": {"backend": "Add", "next": "b"}, "b": {"backend": "Identity"}}

    assert plan(source)
    assert error_of({**source, "valu": 3}).code == "config-unknown-key"


def test_a_key_that_a_reflect_reads_is_known() -> None:
    assert plan({"backend": "S[Reflect[post]]", "post": "Pow"})


def test_a_key_that_a_placeholder_reads_is_known() -> None:
    assert plan({"backend": "Add({by})", "by": 3})


def test_a_misspelt_key_for_a_reflect_is_refused() -> None:
    error = error_of({"a": {"backend": "S[Reflect[post_processor]]", "post_procesor": "Pow"}})

    assert (error.code, error.help) == ("config-unknown-key", "did you mean `post_processor`?")


def test_a_misspelt_name_in_a_reflect_is_refused() -> None:
    error = error_of({"a": {"backend": "Pow", "node_entrypoint": "S[Reflect[backnd]]"}})

    assert error.code == "expand-unset-parameter"
    assert error.help == "did you mean `backend`?"


def test_an_unset_reflect_beside_a_set_one_with_a_similar_name_is_fine() -> None:
    assert plan({"backend": "S[Reflect[pre_a], Reflect[pre_b]]", "pre_a": "Pow"})


def test_a_bare_python_class_takes_any_key() -> None:
    class Anything:
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            pass

        def forward(self, batch: list[dict[str, Any]]) -> None:
            pass

    register(Anything)
    source = {"a": {"backend": "S[Anything(k=1)]", "whatever": [1, 2], "max": "4"}}

    [backend] = backends(source, "Anything")
    assert backend.params == {
        "backend": "S[Anything(k=1)]",
        "whatever": [1, 2],
        "max": 4,
        "node_name": "a",
        "k": 1,
    }
    assert backend.python is Anything


def test_a_python_class_with_parameters_takes_its_own_keys_only() -> None:
    class Typed(Backend):
        size = param(1)

    register(Typed)

    assert params({"backend": "Typed", "size": 3}, "Typed") == {"size": 3}
    assert error_of({"a": {"backend": "Typed", "sise": 3}}).help == "did you mean `size`?"


# --- macros ----------------------------------------------------------------------------------------------


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


# --- for the core ----------------------------------------------------------------------------------------


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
    }
    assert {key: node[key] for key in node if key != "expr"} == {
        "name": "node",
        "params": {"backend": "Add(1)", "max": 4},
        "region": 0,
        "next": [],
        "map": None,
        "or": False,
        "foreach_target": None,
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
