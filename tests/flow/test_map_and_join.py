"""Laws of `map` and joins: a node's frame is the mapped keys, from the node that made it or the caller."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import hami


@pytest.fixture(autouse=True)
def backends() -> None:
    """`Show` returns its frame without what the request itself brought; `Write` writes keys."""

    def show(batch: list[dict[str, Any]]) -> list[Any]:
        return [dict(item) for item in batch]

    @hami.register
    class Write(hami.Backend):
        keys = hami.param("", type="str")

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            for item in batch:
                for key in self.keys.split():
                    item[key] = f"{key} of {item['data']}"
            return [item["data"] for item in batch]

    hami.register("Show", show)


def diamond(map_text: str, **join: Any) -> dict[str, Any]:
    """Return root -> left, right -> join."""
    return {
        "root": {"backend": "Write", "keys": "r", "next": "left,right"},
        "left": {"backend": "S[Pow, Write]", "keys": "x", "next": "join"},
        "right": {"backend": "Write", "keys": "x y", "next": "join"},
        "join": {"backend": "Show", "map": map_text, **join},
    }


def test_a_join_gets_the_mapped_keys_and_no_others(open_pipe: Any) -> None:
    pipeline = open_pipe(diamond("left[result:data,x:lx],right[result:other,y:y]"))
    assert pipeline({"data": 3, "mine": 1})["result"] == {
        "data": 9,
        "lx": "x of 9",
        "other": 3,
        "y": "y of 3",
    }


def test_every_request_joins_with_itself_only(open_pipe: Any, in_threads: Any) -> None:
    hami.register("Both", lambda batch: [(item["l"], item["r"]) for item in batch])
    nodes = diamond("left[result:l],right[result:r]", backend="Both", max=8)
    for node in nodes.values():
        node["instance_num"] = 2
    pipeline = open_pipe(nodes)

    def call(thread: int) -> None:
        numbers = range(thread * 100, thread * 100 + 100)
        answers = pipeline([{"data": i} for i in numbers])
        assert [answer["result"] for answer in answers] == [(i * i, i) for i in numbers]

    in_threads(6, call)


def test_input_names_the_callers_own_keys(open_pipe: Any) -> None:
    pipeline = open_pipe(diamond("left[result:data],input[mine:m,data:original]"))
    mine = object()
    result = pipeline({"data": 3, "mine": mine, "unused": 1})["result"]
    assert result == {"data": 9, "m": mine, "original": 3}


def test_a_map_reaches_back_to_any_earlier_node(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "Write", "keys": "k", "next": "b"},
            "b": {"backend": "Pow", "next": "c"},
            "c": {"backend": "Pow", "next": "d"},
            "d": {"backend": "Show", "map": "a[k:k,result:first],c[result:data],input[data:mine]"},
        }
    )
    assert pipeline({"data": 2})["result"] == {"k": "k of 2", "first": 2, "data": 16, "mine": 2}


def test_a_map_on_the_entry_renames_the_callers_keys(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Pow", "map": "input[number:data]"}})
    assert pipeline({"number": 4}) == {"number": 4, "result": 16}


def test_one_source_key_may_go_to_several_keys(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Show", "map": "input[data:x,data:y]"}})
    value = object()
    assert pipeline({"data": value})["result"] == {"x": value, "y": value}


@pytest.mark.parametrize("backend", ["Identity", "Write"])
def test_a_callers_key_can_be_mapped_from_a_node_it_passed(open_pipe: Any, backend: str) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": backend, "next": "b"},
            "b": {"backend": "Identity", "next": "c"},
            "c": {"backend": "Show", "map": "a[mine:m],b[mine:n]"},
        }
    )
    mine = object()
    assert pipeline({"data": 1, "mine": mine})["result"] == {"m": mine, "n": mine}


def test_context_travels_through_maps(open_pipe: Any) -> None:
    context = object()
    pipeline = open_pipe(diamond("left[result:data]"))
    assert pipeline({"data": 1, "context": context})["result"]["context"] is context


@pytest.mark.parametrize(
    ("map_text", "names"),
    [
        ("left[nothing:data]", ("`join`", "`left`", "`nothing`")),
        ("input[nothing:data],left[result:x]", ("`join`", "`input`", "`nothing`")),
    ],
)
def test_a_mapped_key_absent_at_run_time_names_node_source_and_key(
    open_pipe: Any, map_text: str, names: tuple[str, ...]
) -> None:
    request = {"data": 1}
    with pytest.raises(hami.RequestError) as caught:
        open_pipe(diamond(map_text))(request)
    assert all(name in str(caught.value) for name in names)
    assert caught.value.code == "request-missing-key" and request == {"data": 1}


def test_a_key_absent_for_one_request_harms_no_other(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Pow", "map": "input[number:data]", "max": 4}})
    requests: list[dict[str, Any]] = [{"number": 1}, {}, {"number": 3}]
    with pytest.raises(hami.RequestError, match="`number`"):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [1, None, 9]


def test_keys_of_a_skipped_source_are_simply_absent(open_pipe: Any) -> None:
    hami.register("Never", lambda batch: None)
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": "maybe,sure"},
            "maybe": {"backend": "Never", "next": "help,skipped"},
            "help": {"backend": "Pow", "or": True, "next": "join"},
            "skipped": {"backend": "Pow", "next": "join"},
            "sure": {"backend": "Identity", "next": "join"},
            "join": {"backend": "Show", "map": "help[result:h],skipped[result:s],sure[result:data]"},
        }
    )
    assert pipeline({"data": 3})["result"] == {"h": 9, "data": 3}


def test_a_join_whose_sources_were_all_skipped_is_skipped_itself(open_pipe: Any, probe: Any) -> None:
    hami.register("Never", lambda batch: None)
    joined = probe("Joined")
    pipeline = open_pipe(
        {
            "output": "answer",
            "root": {"backend": "Never", "next": "left,right,answer"},
            "left": {"backend": "Pow", "next": "join"},
            "right": {"backend": "Pow", "next": "join"},
            "join": {"backend": "Joined", "map": "left[result:l],right[result:r]"},
            "answer": {"backend": "Pow", "or": True},
        }
    )
    assert pipeline({"data": 3})["result"] == 9
    assert joined.batches == []


def test_the_result_of_a_skipped_entry_is_absent(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "Pow", "next": "out"},
            "b": {"backend": "Pow", "next": "out"},
            "out": {"backend": "Show", "map": "a[result:a],b[result:b],input[data:d]"},
        }
    )
    assert pipeline({"data": 3, "node_name": "b"})["result"] == {"b": 9, "d": 3}


def test_the_frame_of_a_join_is_its_own(open_pipe: Any) -> None:
    hami.register("Spoil", lambda batch: [item.clear() or item.update(data=0) for item in batch])
    pipeline = open_pipe(
        {
            "root": {"backend": "Write", "keys": "k", "next": "spoil,show"},
            "spoil": {"backend": "Spoil", "map": "root[k:k,result:data]", "next": "join"},
            "show": {"backend": "Show", "map": "root[k:k]", "next": "join"},
            "join": {"backend": "Identity", "map": "show[result:data],spoil[result:s]"},
        }
    )
    for _ in range(20):
        assert pipeline({"data": 5})["result"] == {"k": "k of 5"}


def test_joins_of_joins_wait_for_all_their_branches(open_pipe: Any) -> None:
    hami.register("Collect", lambda batch: [sorted(str(item[key]) for key in item) for item in batch])
    nodes: dict[str, Any] = {"root": {"backend": "Identity", "next": "a,b,c"}}
    for name in "abc":
        nodes[name] = {"backend": "Write", "next": ["ab", "abc"] if name != "c" else "abc"}
    nodes["ab"] = {"backend": "Collect", "map": "a[result:a],b[result:b]", "next": "abc"}
    nodes["abc"] = {"backend": "Collect", "map": "a[result:a],b[result:b],c[result:c],ab[result:ab]"}
    assert open_pipe(nodes)({"data": 1})["result"] == sorted(["1", "1", "1", str(["1", "1"])])


def test_a_wide_fan_out_joins_in_order(open_pipe: Any) -> None:
    width = 24
    hami.register("All", lambda batch: [[item[f"k{i}"] for i in range(width)] for item in batch])
    hami.register("Index", lambda batch: [item["data"] for item in batch])
    nodes: dict[str, Any] = {"root": {"backend": "Identity", "next": [f"n{i}" for i in range(width)]}}
    for i in range(width):
        nodes[f"n{i}"] = {"backend": f"Add{i}", "next": "all"}
        hami.register(f"Add{i}", lambda batch, i=i: [item["data"] + i for item in batch])
    nodes["all"] = {"backend": "All", "map": ",".join(f"n{i}[result:k{i}]" for i in range(width))}
    pipeline = open_pipe(nodes)
    answers = pipeline([{"data": i * 100} for i in range(20)])
    assert [answer["result"] for answer in answers] == [
        [base + i for i in range(width)] for base in range(0, 2000, 100)
    ]


@pytest.mark.parametrize("names", list(itertools.permutations("abc")))
def test_the_merge_does_not_depend_on_which_branch_ends_first(
    open_pipe: Any, probe: Any, names: tuple[str, ...]
) -> None:
    gates = {}
    nodes: dict[str, Any] = {"root": {"backend": "Identity", "next": "a,b,c"}}
    for name in "abc":
        gates[name] = probe(name.upper(), work=lambda item, name=name: item.update(who=name) or name)
        nodes[name] = {"backend": name.upper(), "next": "join"}
    nodes["join"] = {"backend": "Identity", "map": "a[result:data],b[result:b],c[result:c]"}
    pipeline = open_pipe(nodes)
    for gate in gates.values():
        gate.shut()
    future = pipeline.submit({"data": 0})
    for gate in gates.values():
        gate.wait_for_runs(1)
    for name in names:
        gates[name].open()
    assert future.result(10) == {"data": 0, "who": "c", "result": "a"}
