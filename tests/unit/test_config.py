"""What a file, a text and a dict give: nodes, global settings, inheritance, and where each value stands."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hami.config import Config, load
from hami.errors import ConfigError

Write = Callable[..., str]

EXAMPLE = """\
batching_timeout = 4            # top-level scalars are inherited by every node
output = "classify"

[decode]
backend = "S[DecodeImage, ResizeImage(224,224), ToTensor]"
instance_num = 2
next = "classify"

[classify]
backend = "OnnxInfer"
model = "model.onnx"
max = 8
"""


def values(config: Config) -> dict[str, dict[str, Any]]:
    return {
        node.name: {key: node.find(key).value for key in [*node.inherited, *node.settings]}  # type: ignore[union-attr]
        for node in config.nodes
    }


def error_of(source: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(source)
    return caught.value


# --- what is what --------------------------------------------------------------------------------------


def test_a_file_has_its_tables_as_nodes(write: Write) -> None:
    config = load(write(EXAMPLE))

    assert values(config) == {
        "decode": {
            "batching_timeout": 4,
            "backend": "S[DecodeImage, ResizeImage(224,224), ToTensor]",
            "instance_num": 2,
            "next": "classify",
        },
        "classify": {"batching_timeout": 4, "backend": "OnnxInfer", "model": "model.onnx", "max": 8},
    }
    assert config.settings["output"].value == "classify"


def test_a_path_is_a_file(write: Write) -> None:
    write("[a]\nbackend = 'A'", "no_suffix")

    assert [node.name for node in load(Path("no_suffix")).nodes] == ["a"]


def test_other_text_is_an_expression() -> None:
    config = load("A[B]")

    assert values(config) == {"node": {"backend": "A[B]"}}


def test_a_dict_with_a_text_backend_is_one_node() -> None:
    config = load({"backend": "A", "max": 4, "options": {"x": 1}, "priority": 2})

    assert values(config) == {"node": {"backend": "A", "max": 4, "options": {"x": 1}}}
    assert config.settings["priority"].value == 2


def test_a_dict_with_entrypoint_and_no_tables_is_one_node() -> None:
    config = load({"entrypoint": "IoCV0[Identity;Forward[Identity]]"})

    assert values(config) == {"node": {"node_entrypoint": "IoCV0[Identity;Forward[Identity]]"}}


def test_another_dict_has_nodes() -> None:
    config = load({"a": {"backend": "A"}, "b": {}, "max": 3, "entrypoint": "DagDispatcher"})

    assert values(config) == {"a": {"max": 3, "backend": "A"}, "b": {"max": 3}}
    assert config.settings["entrypoint"].value == "DagDispatcher"


def test_a_file_with_a_text_backend_is_one_node(write: Write) -> None:
    assert values(load(write('backend = "A"'))) == {"node": {"backend": "A"}}


def test_a_nodes_own_value_wins_over_the_inherited() -> None:
    assert values(load({"max": 3, "a": {"max": 5}, "b": {}})) == {"a": {"max": 5}, "b": {"max": 3}}


def test_global_keys_are_not_inherited() -> None:
    config = load({"output": "a", "fanout": "roots", "deadline_ms": 3, "max_in_flight": 9, "a": {}})

    assert values(config) == {"a": {}}
    assert set(config.settings) == {"output", "fanout", "deadline_ms", "max_in_flight"}


@pytest.mark.parametrize("source", [None, 3, b"A", ["A"], ("A",), 2.5, object()])
def test_anything_else_is_refused(source: object) -> None:
    assert error_of(source).code == "config-type"


@pytest.mark.parametrize("source", [{}, {"max": 3}, {"backend": 3}])
def test_no_node_is_refused(source: object) -> None:
    error = error_of(source)

    assert error.code == "config-empty"
    assert "there is no node" in error.message


@pytest.mark.parametrize("source", [{1: {}}, {"a": {2: 3}}, {None: 1, "backend": "A"}])
def test_keys_must_be_text(source: object) -> None:
    assert error_of(source).code == "config-key"


@pytest.mark.parametrize("name", ["input", "a.b", "a b", "", "a,b", "a[", "a:b"])
def test_a_node_needs_a_name_that_others_can_write(name: str) -> None:
    assert error_of({name: {"backend": "A"}}).code == "config-node-name"


@pytest.mark.parametrize("name", ["a", "a-b", "1", "größe", "_"])
def test_names_of_nodes(name: str) -> None:
    assert load({name: {}}).nodes[0].name == name


def test_one_node_cannot_have_two_entrypoints() -> None:
    error = error_of({"backend": "A", "entrypoint": "B", "node_entrypoint": "C"})

    assert error.code == "config-two-entrypoints"


# --- values ----------------------------------------------------------------------------------------------


def test_types_of_toml_are_kept(write: Write) -> None:
    text = """\
[a]
b = true
i = 3
f = 2.5
s = "x"
l = [1, "two", [3.0]]
t = {x = 1, y = {z = 2}}
d = 2020-01-02
[a.sub]
k = 1
"""
    assert values(load(write(text))) == {
        "a": {
            "b": True,
            "i": 3,
            "f": 2.5,
            "s": "x",
            "l": [1, "two", [3.0]],
            "t": {"x": 1, "y": {"z": 2}},
            "d": datetime.date(2020, 1, 2),
            "sub": {"k": 1},
        }
    }


def test_objects_in_a_dict_are_kept_as_they_are() -> None:
    value = object()

    assert values(load({"backend": "A", "x": value}))["node"]["x"] is value


def test_relative_paths_start_from_the_folder_of_the_file(write: Write, tmp_path: Path) -> None:
    assert load(write(EXAMPLE, "sub/pipeline.toml")).directory == str(tmp_path / "sub")
    assert load("A").directory is None
    assert load({"backend": "A"}).directory is None


# --- environment -----------------------------------------------------------------------------------------


def test_environment_variables_are_put_in(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_DIR", "/models")
    monkeypatch.delenv("KIND", raising=False)
    text = '[a]\nmodel = "${MODEL_DIR}/${KIND:-fp16}.onnx"\nl = ["${MODEL_DIR}", {x = "${KIND:-}"}]'

    assert values(load(write(text))) == {"a": {"model": "/models/fp16.onnx", "l": ["/models", {"x": ""}]}}


def test_environment_variables_work_in_texts_and_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", "A")

    assert values(load("${KIND}[B]")) == {"node": {"backend": "A[B]"}}
    assert values(load({"a": {"k": "${KIND}"}})) == {"a": {"k": "A"}}


def test_a_set_variable_wins_over_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", "A")

    assert values(load("${KIND:-B}")) == {"node": {"backend": "A"}}


@pytest.mark.parametrize("text", ["$${HOME}", "${}", "${1}", "${A B}", "${", "$HOME", "{HOME}", "${A-b}"])
def test_what_is_no_reference_stays(text: str) -> None:
    expected = text[1:] if text.startswith("$$") else text

    assert values(load({"a": {"k": text}})) == {"a": {"k": expected}}


def test_an_unset_variable_is_refused_at_its_place(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_DIRECTORY", "x")
    error = error_of(write('[a]\nmodel = "${MODEL_DIRECTRY}/m.onnx"'))

    assert error.code == "config-unset-variable"
    assert error.where == "pipeline.toml:2"
    assert error.help == "did you mean `MODEL_DIRECTORY`?"


def test_an_unset_variable_without_a_near_one_shows_how_to_default() -> None:
    assert error_of({"a": {"k": "${QZX_9}"}}).help == "set it, or write `${QZX_9:-default}`"


def test_places_behind_a_variable_are_right(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", "VeryLongName")
    source = load(write('[a]\nbackend = "${KIND}[B]"')).nodes[0].settings["backend"].source

    assert source is not None
    assert source.position(len("VeryLongName[")) == (2, 20)


# --- places ----------------------------------------------------------------------------------------------


def test_each_key_and_value_knows_its_place(write: Write) -> None:
    config = load(write(EXAMPLE))
    setting = config.nodes[1].settings["max"]

    assert setting.key is not None
    assert setting.value_span is not None
    assert setting.key.where_column == "pipeline.toml:12:1"
    assert setting.value_span.where_column == "pipeline.toml:12:7"
    assert config.nodes[0].where == "pipeline.toml:4"
    assert config.nodes[0].find("batching_timeout").where == "pipeline.toml:1"  # type: ignore[union-attr]


def test_a_dict_has_paths_of_keys_for_places() -> None:
    assert load({"a": {"max": 3}}).nodes[0].settings["max"].where == "a.max"


# --- files -----------------------------------------------------------------------------------------------


def test_a_missing_file_is_an_error_with_the_nearest_name(write: Write) -> None:
    write(EXAMPLE)
    error = error_of("pipline.toml")

    assert (error.code, error.where) == ("config-missing-file", "pipline.toml")
    assert error.help == "did you mean `pipeline.toml`?"


def test_a_file_in_a_missing_folder_says_so() -> None:
    assert error_of("/no/such/folder/p.toml").help == "the folder `/no/such/folder` does not exist"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert error_of(tmp_path).code == "config-unreadable-file"


def test_a_path_that_cannot_exist_is_an_error() -> None:
    assert error_of("a\0b.toml").code == "config-unreadable-file"


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "max = 3\n"])
def test_an_empty_file_is_an_error(write: Write, text: str) -> None:
    error = error_of(write(text))

    assert (error.code, error.where) == ("config-empty", "pipeline.toml")


@pytest.mark.parametrize(
    ("text", "where", "excerpt"),
    [
        ("[a]\nnext = classify\n", "pipeline.toml:2:8", "2 | next = classify\n  |        ^"),
        ("[a\n", "pipeline.toml:1:3", "1 | [a\n  |   ^"),
        ("a = 1 b = 2\n", "pipeline.toml:1:7", "1 | a = 1 b = 2\n  |       ^"),
        ("a = [1,", "pipeline.toml:1:8", "1 | a = [1,\n  |        ^"),
        ('a = "x\n', "pipeline.toml:1:7", '1 | a = "x\n  |       ^'),
    ],
)
def test_invalid_toml_is_pointed_at(write: Write, text: str, where: str, excerpt: str) -> None:
    error = error_of(write(text))

    assert (error.code, error.where, error.excerpt) == ("config-toml", where, excerpt)
    assert error.help


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[a]\nx = 1\n[b]\n[a]\n", 4, "[a]"),
        ("[a]\nx = 1\nx = 2\n", 3, "x"),
        ("[a]\nx = 1\n  x=2 # twice\n", 3, "x"),
        ("[a.b]\n[a]\nb = 1\n", 3, "b"),
    ],
)
def test_what_is_defined_twice_is_pointed_at(write: Write, text: str, line: int, what: str) -> None:
    error = error_of(write(text))

    assert (error.code, error.where) == ("config-duplicate", f"pipeline.toml:{line}")
    assert f"`{what}` is defined twice" in error.message
    assert error.excerpt.endswith("^" * len(what))


def test_a_list_of_tables_is_no_node(write: Write) -> None:
    error = error_of(write("[[a]]\nbackend = 'A'\n[[a]]\nbackend = 'B'\n"))

    assert error.code == "config-array-of-tables"
    assert error.help == "write `[a]`, with one pair of brackets"


def test_a_file_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b'[a]\nbackend = "\xff"\n')
    error = error_of(path)

    assert (error.code, error.where) == ("config-encoding", f"{path}:2")
    assert "`0xff`" in error.message


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_byte_order_marks_and_windows_lines_are_accepted(
    tmp_path: Path, prefix: bytes, newline: bytes
) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(prefix + newline.join([b"# c", b"[a]", b'backend = "A["', b""]))
    setting = load(path).nodes[0].settings["backend"]

    assert setting.value_span is not None
    assert setting.value_span.where_column == f"{path}:3:11"


def test_deep_nesting_in_toml_is_an_error_of_the_file(write: Write) -> None:
    assert error_of(write("a = " + "[" * 100_000)).code in ("config-nesting", "config-toml")


def test_a_value_that_contains_itself_is_an_error() -> None:
    value: list[Any] = []
    value.append(value)

    assert error_of({"a": {"x": value}}).code == "config-nesting"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("")
    path.chmod(0)

    assert error_of(path).code == "config-unreadable-file"
