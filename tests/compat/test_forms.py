"""What each form of the language means: one law for each row of the family's table, run by `hami.pipe`."""

from __future__ import annotations

from typing import Any

import pytest
from family_texts import TEXTS

import hami
from hami.plan import plan

FOR_EVER_MS = 600_000


def answer(pipeline: hami.Pipeline, data: Any = 3, **keys: Any) -> Any:
    return pipeline({"data": data, **keys})["result"]


@pytest.fixture
def made() -> list[str]:
    """Names of backends of the classes `First`, `Second` and `Third`, in the order they were made."""
    names: list[str] = []

    def declare(name: str) -> None:
        class Made(hami.Backend):
            def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
                names.append(name)
                self.options = options
                options.setdefault("names", []).append(name)

            def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
                return [(name, id(self), list(self.options["names"])) for _ in batch]

        hami.register(name, Made)

    for name in ("First", "Second", "Third"):
        declare(name)
    return names


# --- A, A[B], A[B[C]], A[B,C[D]] -------------------------------------------------------------------------


def test_a_name_creates_a_backend(open_pipe: Any, made: list[str]) -> None:
    assert answer(open_pipe("First"))[0] == "First"
    assert made == ["First"]


def test_brackets_hold_what_a_backend_contains(open_pipe: Any) -> None:
    assert answer(open_pipe("Launch[Pow]")) == 9


def test_a_class_may_stand_at_several_levels(open_pipe: Any) -> None:
    assert answer(open_pipe("S[S[S[Pow, S[Pow]]]]")) == 81
    deep = "S[" * 150 + "Pow" + "]" * 150
    assert answer(open_pipe(deep)) == 9


def test_a_container_holds_a_list(open_pipe: Any) -> None:
    assert answer(open_pipe("Tuple[Pow, Tuple[Identity, Pow], AddInt,]")) == [9, [3, 9], 4]


# --- arguments and prefixes ------------------------------------------------------------------------------


def test_own_arguments_win_over_the_nodes_parameters(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "S[AddInt, AddInt(100)]", "value": 10})
    assert answer(pipeline) == 113
    assert answer(open_pipe({"backend": "S[AddInt(value=1), AddInt]", "value": 10})) == 14


def test_suffixes_are_prefixes_of_their_backends() -> None:
    expr = hami.parse("ModelLoadder[(.onnx)Onnx2Tensorrt,(.trt)LoadTensorrtEngine]")
    assert [child.prefix[0].value.value for child in expr.children] == [".onnx", ".trt"]


def test_or_runs_only_for_items_without_a_result(open_pipe: Any) -> None:
    assert answer(open_pipe("S[Identity,Pow]")) == 9
    assert answer(open_pipe("S[Pow,(or)Pow]")) == 9
    assert answer(open_pipe("S[HasKey(k),(or)Pow]")) == 9


@pytest.mark.parametrize("prefix", ["filter=run", "run"])
def test_run_is_the_condition_that_always_holds(open_pipe: Any, prefix: str) -> None:
    assert answer(open_pipe(f"S[({prefix})Pow]")) == 9


def test_a_named_condition_selects_items(open_pipe: Any) -> None:
    hami.condition("big")(lambda item: item["data"] > 10)
    pipeline = open_pipe("S[(big)Pow,(filter=big)AddInt]")
    assert [answer(pipeline, value) for value in (3, 20)] == [3, 401]


# --- IoC -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ioc", ["IoC", "IoCV0"])
def test_phase_1_is_made_in_written_order_and_shares_its_options(
    open_pipe: Any, made: list[str], ioc: str
) -> None:
    pipeline = open_pipe(f"{ioc}[Second, First; Third]")
    assert made == ["Second", "First", "Third"]
    assert answer(pipeline)[2] == ["Second", "First", "Third"]


def test_a_bare_name_in_phase_2_is_the_one_of_phase_1(open_pipe: Any, made: list[str]) -> None:
    pipeline = open_pipe("IoCV0[First; Tuple[First, Forward[First], S[Identity, First]]]")
    one, two, three = answer(pipeline)
    assert one[1] == two[1] == three[1]
    assert made == ["First"]


def test_with_arguments_or_brackets_a_name_is_made_anew(open_pipe: Any, made: list[str]) -> None:
    pipeline = open_pipe("IoCV0[First; Tuple[First, First()]]")
    one, same = answer(pipeline)
    assert one[1] == same[1]  # empty parentheses say nothing
    assert answer(open_pipe("IoCV0[AddInt(5); Tuple[AddInt, AddInt(1)]]")) == [8, 4]


def test_the_entrypoint_of_the_family_answers(open_pipe: Any) -> None:
    for _ in range(3):
        assert open_pipe({"entrypoint": "IoCV0[Identity;Forward[Identity]]"})({"data": 1})["result"] == 1


def test_two_items_of_one_class_in_phase_1_are_an_error() -> None:
    with pytest.raises(hami.ConfigError, match="`Pow`"):
        hami.pipe("IoC[Pow, Pow; Pow]")


def test_phases_elsewhere_are_an_error() -> None:
    with pytest.raises(hami.ConfigError, match="only `IoC` has phases"):
        hami.pipe("S[Pow; Pow]")


# --- S, List, With, CatSplit -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["S", "Sequential", "S_v0", "SequentialV0"])
def test_a_sequence_hands_results_on_as_data(open_pipe: Any, name: str) -> None:
    assert answer(open_pipe(f"{name}[AddInt, Pow, AddInt(-1)]")) == 15


def test_a_list_makes_and_keeps_its_children(open_pipe: Any, made: list[str]) -> None:
    pipeline = open_pipe("List[First, Second]")
    assert made == ["First", "Second"]
    assert answer(pipeline)[0] == "Second"


def test_with_runs_the_second_in_the_care_of_the_first(open_pipe: Any) -> None:
    assert answer(open_pipe("With[Identity, Pow]")) == 9


def test_cat_split_makes_one_tensor_of_many_requests(open_pipe: Any, probe: Any) -> None:
    numpy = pytest.importorskip("numpy", reason="the arrays of the test")
    seen = probe("Double", lambda item: numpy.asarray(item["data"]) * 2, batch_range=(1, 8))
    pipeline = open_pipe(
        {
            "backend": "CatSplit[S_v0[FixTensor,CatTensor],S_v0[ContiguousTensor,Double],SplitTensor]",
            "max": 4,
            "batching_timeout": FOR_EVER_MS,
        }
    )
    arrays = [numpy.full((1, 2), value, numpy.float32) for value in range(4)]
    answers = pipeline([{"data": array} for array in arrays])
    assert [numpy.asarray(a["result"]).tolist() for a in answers] == [[[v * 2.0] * 2] for v in range(4)]
    assert [numpy.asarray(data).shape for data in seen.items] == [(4, 2)]


# --- names and parameters --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Register", "Node"])
def test_register_names_an_instance_after_the_node(open_pipe: Any, name: str) -> None:
    pipeline = open_pipe({"a": {"backend": f"S[List[{name}(other)[Pow]], Forward[other]]"}})
    assert answer(pipeline) == 81
    pipeline = open_pipe({"a": {"node_entrypoint": f"List[{name}[Pow], Identity]"}})
    assert answer(pipeline) == 9  # the instance `node.a` is what a call goes to


@pytest.mark.parametrize("name", ["InstancesRegister", "Instances"])
def test_instances_are_copies_that_know_their_number(open_pipe: Any, made: list[str], name: str) -> None:
    text = f"List[{name}(copy)[First], Tuple[Forward[copy.0], Forward[copy.1]]]"
    first, second = answer(open_pipe({"a": {"node_entrypoint": text, "instance_num": 2}}))
    assert made == ["First", "First"]
    assert first[1] != second[1]


def test_a_parameter_may_name_an_instance(open_pipe: Any) -> None:
    hami.register("squares", _Squares())
    for text in ("InstanceFromParam[who]", "S[Identity, InstanceFromParam[who]]"):
        assert answer(open_pipe({"backend": text, "who": "squares"})) == 9


class _Squares:
    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = item["data"] ** 2


@pytest.mark.parametrize("name", ["Reflect", "ProxyFromParam"])
def test_reflect_runs_the_expression_of_a_parameter(open_pipe: Any, name: str) -> None:
    text = f"S[AddInt, {name}[post_processor, Identity]]"
    assert answer(open_pipe({"backend": text, "post_processor": "S[Pow, AddInt]"})) == 17
    assert answer(open_pipe({"backend": text})) == 4
    assert answer(open_pipe({"backend": f"S[AddInt, {name}[post_processor]]"})) == 4
    with pytest.raises(hami.ConfigError, match="`Nothing`") as caught:
        hami.pipe({"backend": text, "post_processor": "Nothing"})
    assert caught.value.code == "plan-unknown-backend"
    with pytest.raises(hami.ConfigError, match="post_processor"):
        hami.pipe({"backend": text, "post_procesor": "Pow"})


def test_backend_proxy_is_the_backend_of_the_node_and_required(open_pipe: Any) -> None:
    text = "List[InstancesRegister[BackgroundThread[BackendProxy]],Register[DI[Batching,InstanceDispatcher]]]"
    assert answer(open_pipe({"backend": "Pow", "node_entrypoint": text})) == 9
    with pytest.raises(hami.ConfigError, match="`backend`"):
        hami.pipe({"a": {"node_entrypoint": text}})


def test_forward_calls_a_registered_instance(open_pipe: Any) -> None:
    hami.register("squares", _Squares())
    assert answer(open_pipe("Forward[squares]")) == 9
    with pytest.raises(hami.ConfigError, match="`squares`"):
        hami.pipe("Forward[square]")


@pytest.mark.parametrize("name", ["DI", "DI_v0", "Proxy", "Aspect", "Block"])
def test_injection_has_five_names_and_one_meaning(open_pipe: Any, name: str) -> None:
    dispatch = f"Register[{name}[Batching,InstanceDispatcher]]"
    text = f"List[InstancesRegister[BackgroundThread[Reflect[backend]]],{dispatch}]"
    assert answer(open_pipe({"backend": "Pow", "node_entrypoint": text})) == 9
    assert answer(open_pipe(f"{name}[Pow]")) == 9
    with pytest.raises(hami.BuildError) as caught:
        hami.pipe(f"{name}[Pow, Identity]")
    assert caught.value.code == "build-inject"


# --- macros ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "expected"),
    [("S", 9), ("S[AddInt, S]", 16), ("S[AddInt, S[Launch]]", 16)],
)
def test_a_macro_hands_its_child_to_the_innermost_backend(
    open_pipe: Any, definition: str, expected: int
) -> None:
    hami.alias("Z", definition)
    assert answer(open_pipe("Z[Pow]")) == expected


def test_a_macro_hands_its_keywords_to_who_declares_them(open_pipe: Any) -> None:
    hami.alias("Z", "S[AddInt, Pow]", value=7)
    assert answer(open_pipe("Z")) == 100
    assert answer(open_pipe("Z(value=1)")) == 16


# --- the family's texts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_familys_texts_are_accepted_as_they_stand(text: str) -> None:
    assert hami.parse(str(hami.parse(text))) == hami.parse(text)


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "model loading"])
def test_the_familys_entrypoints_plan(name: str) -> None:
    assert plan({"backend": "Identity", "node_entrypoint": TEXTS[name]}).nodes
