"""Planning against the table of the compiled core itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import family_texts
import pytest

from hami.backend import PARAM_TYPES, core_table
from hami.errors import ConfigError
from hami.parser import ALIASES
from hami.plan import DEFAULT_ENTRYPOINT, plan
from hami.plan.keys import NODE_PARAMS
from hami.plan.values import convert

pytestmark = pytest.mark.usefixtures("real_core")

ROOT = Path(__file__).resolve().parents[2]


def shape(expr: dict[str, Any]) -> Any:
    return (expr["class"], expr["kind"], [shape(child) for child in expr["children"]])


def test_every_declaration_is_sound() -> None:
    for name, declaration in core_table().items():
        assert declaration.name == name
        assert declaration.doc, name
        assert declaration.doc[0].isupper(), name
        assert declaration.min_children >= 0
        assert declaration.max_children == -1 or declaration.max_children >= declaration.min_children
        names = [param.name for param in declaration.params]
        assert len(names) == len(set(names)), name
        for param in declaration.params:
            assert param.type in PARAM_TYPES, (name, param)
            assert param.doc, (name, param)
            assert not (param.required and param.default is not None), (name, param)


def test_every_default_suits_its_own_declaration() -> None:
    for name, declaration in core_table().items():
        for param in declaration.params:
            if param.default is not None:
                assert convert(param, param.default) == param.default, (name, param)


def test_no_class_has_an_old_spelling() -> None:
    assert not set(core_table()) & set(ALIASES)


def test_a_key_that_a_class_shares_with_every_node_has_the_same_type() -> None:
    for declaration in core_table().values():
        for param in declaration.params:
            if param.name in NODE_PARAMS:
                assert param.type == NODE_PARAMS[param.name].type, (declaration.name, param)


def test_the_default_node_can_be_planned() -> None:
    [node] = plan({"backend": "Pow", "instance_num": 2, "max": 4, "batching_timeout": 1}).to_core()["nodes"]

    assert node["expr"]["class"] == "List"
    assert node["expr"]["children"][0]["params"] == {"name": "node", "instance_num": 2}
    assert node["expr"]["children"][1]["params"] == {"name": "node.node"}


@pytest.mark.parametrize(
    "text",
    [family_texts.NODE_BY_IOC, family_texts.NODE_BY_LIST, family_texts.NODE_BY_REFLECT, DEFAULT_ENTRYPOINT],
)
def test_the_ways_to_write_a_node_are_planned(text: str) -> None:
    [node] = plan({"backend": "Pow", "node_entrypoint": text}).nodes

    assert node.backend.name in ("List", "IoC")


def test_the_aspect_alone_is_planned() -> None:
    [node] = plan({"entrypoint": family_texts.ASPECT_ALONE}).to_core()["nodes"]

    assert shape(node["expr"]) == (
        "IoC",
        "create",
        [
            ("InstanceDispatcher", "create", []),
            ("DI", "create", [("Batching", "create", []), ("InstanceDispatcher", "bound", [])]),
            ("DI", "bound", []),
        ],
    )


def test_a_node_by_shared_state_is_planned() -> None:
    [node] = plan({"backend": "Pow", "node_entrypoint": family_texts.NODE_BY_SHARED_STATE}).nodes

    assert node.backend.name == "List"


def test_the_text_that_loads_models_is_planned_with_and_without_a_post_processor() -> None:
    for more in ({}, {"post_processor": "Identities"}):
        [node] = plan({"backend": family_texts.MODEL_LOADING, "model": "m.onnx", "max": 4, **more}).nodes
        assert node.backend


def test_the_short_form_of_the_text_that_loads_models_is_the_same_plan() -> None:
    config = {"model": "m.onnx", "max": 4}
    [short] = plan({"backend": "TensorrtTensor", **config}).nodes
    [whole] = plan({"backend": family_texts.MODEL_LOADING, **config}).nodes

    def shape(part: Any) -> Any:
        return part.name, part.kind, part.prefix, part.params, [shape(child) for child in part.children]

    assert shape(short.backend) == shape(whole.backend)


def walk(part: Any) -> Iterator[Any]:
    yield part
    for child in part.children:
        yield from walk(child)


def test_a_loader_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="`ModelLoader` needs `model`"):
        plan({"backend": family_texts.MODEL_LOADING})


def test_the_engine_in_cat_split_is_planned() -> None:
    text = "IoC[OnnxInfer; CatSplit[S[FixTensor, CatTensor], S[ContiguousTensor, OnnxInfer], SplitTensor]]"
    [node] = plan({"backend": text, "model": "m.onnx"}).nodes

    assert node.backend


# In a process of its own: the backends of an example must not stay registered.
@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/*/pipeline.toml")), ids=lambda path: path.parent.name
)
def test_the_examples_are_planned(path: Path) -> None:
    pytest.importorskip("cv2", reason="the examples need OpenCV")
    command = [sys.executable, "-m", "hami", "check", str(path)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr


def test_the_file_of_the_specification_is_refused_only_for_its_model(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="the image family needs OpenCV")
    path = tmp_path / "pipeline.toml"
    path.write_text(
        """\
batching_timeout = 4            # top-level scalars are inherited by every node

[decode]
backend = "S[DecodeImage, ResizeImage(224,224), ToTensor]"
instance_num = 2
next = "classify"

[classify]
backend = "OnnxInfer"
model = "model.onnx"
max = 8
"""
    )

    decode, classify = plan(path).nodes

    assert (decode.next, classify.next) == ((1,), ())
    assert classify.params["batching_timeout"] == 4.0


# --- ranges of shapes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "rows"),
    [
        ("1x3x224x224", "8x3x224x224", (1, 8)),
        ("1x3x8x8,2x10", "4x3x8x8,4x10", (1, 4)),
        ("1x3x8x8;2x3x8x8", "2x3x8x8; 16x3x8x8", (1, 16)),
        (None, "8", (None, 8)),
    ],
)
def test_shapes_are_rows_for_the_batcher_and_shapes_for_the_engine(low: Any, high: str, rows: Any) -> None:
    config = {"backend": "TensorrtInferTensor", "model": "m.onnx", "max": high}
    [node] = plan({**config, **({} if low is None else {"min": low})}).nodes

    found = {part.name: part.params for part in walk(node.backend)}
    assert (found["BackgroundThread"]["min"], found["BackgroundThread"]["max"]) == rows
    assert found["TensorrtInferTensor"]["max"] == high


@pytest.mark.parametrize("backend", ["Identities", "OnnxInfer(model=m.onnx)"])
def test_shapes_are_refused_where_nobody_takes_them(backend: str) -> None:
    with pytest.raises(ConfigError, match="1x3x8x8"):
        plan({"backend": backend, "max": "1x3x8x8"})


def test_a_text_that_is_no_shape_is_refused_as_rows() -> None:
    with pytest.raises(ConfigError, match="8xa"):
        plan({"backend": "TensorrtInferTensor", "model": "m.onnx", "max": "8xa"})
