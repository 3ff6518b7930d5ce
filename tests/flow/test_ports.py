"""Laws of `Pipeline.ports`: what an engine at an end of a node says is what the node takes or gives there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hami
from hami import TensorSpec
from hami.engine import NodePorts

IMAGE = TensorSpec("image", "uint8", (-1, 4, 4, 3))
SCORES = TensorSpec("scores", "float32", (-1, 10))
ANYTHING = NodePorts(None, None, 1)


@pytest.fixture(autouse=True)
def engine() -> None:
    """Register `Classify`, an engine from IMAGE to SCORES, and `Plain`, a Python backend."""

    @hami.register
    class Classify(hami.Engine):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inputs, self.outputs = [IMAGE], [SCORES]

        def run(self, arrays: list[Any]) -> list[Any]:
            return [np.zeros((len(arrays[0]), 10), np.float32)]

    @hami.register
    def Plain(batch: list[Any]) -> list[Any]:  # noqa: N802
        return [item["data"] for item in batch]


def ports_of(open_pipe: Callable[..., hami.Pipeline], backend: str, **settings: Any) -> NodePorts:
    return open_pipe({"node": {"backend": backend, **settings}}).ports()["node"]


def test_an_engine_says_what_its_node_takes_and_gives(open_pipe: Any) -> None:
    assert ports_of(open_pipe, "Classify", max=8) == NodePorts((IMAGE,), (SCORES,), 8)


def test_any_other_backend_takes_and_gives_anything(open_pipe: Any) -> None:
    assert ports_of(open_pipe, "Plain") == ANYTHING
    assert ports_of(open_pipe, "Pow").inputs is None


def test_the_first_stage_says_what_goes_in_and_the_last_what_comes_out(open_pipe: Any) -> None:
    assert ports_of(open_pipe, "S[Plain, Classify]") == NodePorts(None, (SCORES,), 1)
    assert ports_of(open_pipe, "S[Classify, Plain]") == NodePorts((IMAGE,), None, 1)
    assert ports_of(open_pipe, "S[Classify, Plain, Classify]") == NodePorts((IMAGE,), (SCORES,), 1)


@pytest.mark.parametrize(
    "backend",
    [
        "Profile[Classify]",
        "S[Classify]",
        "S[S[Classify], ContiguousTensor]",
        "ThreadPoolExecutor(num_threads=2)[Classify]",
        "CatSplit[CatTensor, Classify, SplitTensor]",
        "IoC[Classify; CatSplit[S[FixTensor, CatTensor], S[ContiguousTensor, Classify], SplitTensor]]",
    ],
)
def test_what_stands_around_an_engine_hides_it_not(open_pipe: Any, backend: str) -> None:
    ports = ports_of(open_pipe, backend)
    assert (ports.inputs, ports.outputs) == ((IMAGE,), (SCORES,))


@pytest.mark.parametrize("prefix", ["or", "HasKey(x)"])
def test_a_stage_that_may_be_passed_by_says_nothing(open_pipe: Any, prefix: str) -> None:
    ports = ports_of(open_pipe, f"S[Plain, ({prefix})Classify]")
    assert (ports.inputs, ports.outputs) == (None, None)


def test_nodes_come_in_the_order_of_the_graph(open_pipe: Any) -> None:
    pipe = open_pipe(
        {
            "classify": {"backend": "Classify"},
            "read": {"backend": "Plain", "next": "classify"},
        }
    )
    assert list(pipe.ports()) == ["read", "classify"]
    assert pipe.ports() == {"read": ANYTHING, "classify": NodePorts((IMAGE,), (SCORES,), 1)}


def test_operators_take_and_give_anything(open_pipe: Any) -> None:
    pipe = open_pipe({"each": {"backend": "ForEach(target=one)"}, "one": {"backend": "Classify"}})
    assert pipe.ports()["each"] == NodePorts(None, None, None)
    assert pipe.ports()["one"].outputs == (SCORES,)


def test_an_input_without_rows_says_so(open_pipe: Any) -> None:
    whole = TensorSpec("table", "float64", (3,), has_rows=False)

    @hami.register
    class Looking(hami.Engine):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inputs, self.outputs = [IMAGE, whole], [SCORES]

    assert ports_of(open_pipe, "Looking").inputs == (IMAGE, whole)


def test_a_closed_pipeline_still_says_it(open_pipe: Any) -> None:
    pipe = open_pipe({"node": {"backend": "Classify"}})
    pipe.close()
    assert pipe.ports()["node"].inputs == (IMAGE,)


def test_the_types_that_numpy_has_not_have_their_names(open_pipe: Any) -> None:
    spec = TensorSpec("x", "bfloat16", (-1, 2))

    @hami.register
    class Half(hami.Engine):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inputs = self.outputs = [spec]

    assert ports_of(open_pipe, "Half").outputs == (spec,)
