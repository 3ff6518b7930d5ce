"""The keys of a node and the parameters of every backend in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planning import backends, error_of, params

from hami.backend import Backend, param, register
from hami.plan import plan
from hami.scheduler import Scheduler

Write = Callable[..., str]


# --- parameters ---------------------------------------------------------------------------------------------


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
    class ByHeight(Scheduler):
        pass

    register(ByHeight)

    assert plan({"backend": "Pow", "scheduler": "ByHeight"}).nodes[0].params["scheduler"] is ByHeight


# --- keys ---------------------------------------------------------------------------------------------------


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


def test_a_backend_beside_tables_is_explained(write: Write) -> None:
    error = error_of(write('backend = "Pow"\n[a]\nbackend = "Pow"\n'))

    assert error.code == "config-unknown-key"
    assert "makes all of it one node" in error.help
