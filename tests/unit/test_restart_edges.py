"""Which edges lead back is a matter of the graph, not of the order in which it was written."""

from __future__ import annotations

import random

import pytest

from hami.plan.restarts import edges_back

Named = dict[str, str]


def back(graph: Named, restarts: str, order: list[str] | None = None) -> set[tuple[str, str]]:
    """Return the edges back of a graph of one-letter nodes, `{"a": "bc"}`."""
    names = order or sorted({*graph, *"".join(graph.values())})
    index = {name: number for number, name in enumerate(names)}
    next_of = [[index[end] for end in graph.get(name, "")] for name in names]
    found = edges_back(next_of, {index[name] for name in restarts})
    assert found == sorted(found, key=lambda edge: edge[0])
    return {(names[source], names[end]) for source, end in found}


def is_reached_from_a(graph: dict[str, list[str]], num_nodes: int) -> bool:
    reached = {"a"}
    for _ in graph:
        reached |= {end for name in reached for end in graph[name]}
    return len(reached) == num_nodes


@pytest.mark.parametrize(
    ("graph", "restarts", "found"),
    [
        ({"a": "b", "b": "c", "c": "bd"}, "c", {"cb"}),
        ({"a": "b", "b": "ac"}, "b", {"ba"}),
        ({"a": "ab"}, "a", {"aa"}),
        ({"a": "xy", "x": "j", "y": "j", "j": "r", "r": "xz"}, "r", {"rx"}),
        ({"a": "xy", "x": "j", "y": "j", "j": "r", "r": "yz"}, "r", {"ry"}),
        ({"a": "xy", "x": "j", "y": "j", "j": "r", "r": "xyz"}, "r", {"rx", "ry"}),
        ({"a": "b", "b": "c", "c": "bd", "d": "ae"}, "cd", {"cb", "da"}),
        ({"a": "b", "b": "c", "c": "d", "d": "bae"}, "cd", {"db", "da"}),
        ({"a": "b", "b": "xc", "x": "c", "c": "be"}, "bc", {"cb"}),
        ({"a": "b", "b": "c"}, "b", set()),
        # Restarts whose requests go on into a join, inside a round: of one way and of two.
        ({"a": "b", "b": "uv", "u": "v", "v": "r", "r": "bz"}, "ur", {"rb"}),
        ({"a": "b", "b": "uw", "u": "v", "w": "v", "v": "r", "r": "bz"}, "uwr", {"rb"}),
        ({"a": "xy", "x": "uv", "u": "v", "v": "j", "y": "j", "j": "r", "r": "xz"}, "ur", {"rx"}),
        # Without an entry: the first node that only Restarts lead to.
        ({"a": "b", "b": "a"}, "b", {"ba"}),
        ({"a": "b", "b": "c", "c": "a"}, "bc", {"ca"}),
    ],
    ids=lambda value: str(sorted(value.items())) if isinstance(value, dict) else None,
)
def test_an_edge_leads_back_to_where_a_request_has_been(graph: Named, restarts: str, found: set[str]) -> None:
    assert back(graph, restarts) == {(edge[0], edge[1]) for edge in found}


@pytest.mark.parametrize(
    ("graph", "restarts"),
    [
        ({"a": "bc", "b": "c", "c": "b"}, "bc"),  # either
        ({"a": "st", "s": "t", "t": "u", "u": "sz"}, "su"),  # s -> t, or u -> s
        ({"a": "st", "s": "x", "t": "x", "x": "sty"}, "st"),  # nothing else leads to x
        ({"a": "b", "b": "c", "c": "b"}, ""),  # no Restart
        ({"a": "b", "b": "a"}, ""),
    ],
)
def test_a_cycle_that_can_be_opened_in_several_ways_or_none_stays(graph: Named, restarts: str) -> None:
    assert back(graph, restarts) == set()


def test_the_order_in_which_a_graph_is_written_plays_no_part() -> None:
    draw = random.Random(0)
    num_with_edges_back = 0
    for _ in range(2_000):
        names = "abcdefg"[: draw.randint(2, 7)]
        graph = {name: [other for other in names[1:] if draw.random() < 0.3] for name in names}
        graph["a"] += [name for name in names[1:] if not any(name in ends for ends in graph.values())]
        if not is_reached_from_a(graph, len(names)):
            continue  # a part without an entry: there the first node written is one
        restarts = "".join(name for name in names if draw.random() < 0.5)
        found = back({name: "".join(ends) for name, ends in graph.items()}, restarts)
        num_with_edges_back += bool(found)
        for _ in range(3):
            order = draw.sample(names, len(names))
            mixed = {name: "".join(draw.sample(graph[name], len(graph[name]))) for name in order}
            assert back(mixed, restarts, order) == found, (graph, restarts, mixed)
    assert num_with_edges_back > 200


def test_what_is_left_without_them_is_reached_from_the_entries_without_going_round() -> None:
    draw = random.Random(1)
    for _ in range(2_000):
        names = "abcdef"
        graph = {name: "".join(other for other in names[1:] if draw.random() < 0.3) for name in names}
        found = back(graph, names[1:], list(names))
        if not found:
            continue
        left = {name: {end for end in ends if (name, end) not in found} for name, ends in graph.items()}

        def reached(start: str, left: dict[str, set[str]] = left) -> set[str]:
            seen, waiting = {start}, [start]
            while waiting:
                fresh = left[waiting.pop()] - seen
                seen |= fresh
                waiting += fresh
            return seen

        for source, end in found:
            assert source in reached(end), "it closes a cycle with what is left"
        assert reached("a") == reached("a", {name: set(ends) for name, ends in graph.items()})
