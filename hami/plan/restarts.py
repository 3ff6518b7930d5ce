"""Edges by which a Restart leads back, told from those by which its requests go on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

Edge = tuple[int, int]


def edges_back(next_of: Sequence[Sequence[int]], sources: Collection[int]) -> list[Edge]:
    """Return the edges out of `sources`, the Restarts, that lead back; in the order of the nodes.

    `next_of` has the successors of every node. An edge leads back to a node that every request on its way to
    the Restart has passed. Where cycles are left, as between branches that run side by side, an edge leads
    back as well if its end leads to its start, can be reached without it, and no other edge opens that cycle.
    The order in which successors are written plays no part; only in a graph that no edge enters from outside,
    requests enter at the first node to which nothing but Restarts lead.

    Returns nothing where that leaves a cycle: two edges could each be the one that leads back.
    """
    entries = _entries(next_of, sources)
    found = [
        (source, end)
        for source in sorted(sources)
        for end in next_of[source]
        if end == source or source not in _reached(entries, next_of, without=end)
    ]
    forward = _without(next_of, found)
    ahead = [_reached([node], forward) for node in range(len(forward))]
    open_edges = [
        (source, end)
        for source in sorted(sources)
        for end in forward[source]
        if source in ahead[end] and end in _reached(entries, forward, without=source)
    ]
    rest = _without(forward, open_edges)
    found += [(source, end) for source, end in open_edges if source in _reached([end], rest)]
    forward = _without(next_of, found)
    is_open = all(node not in _reached(ends, forward) for node, ends in enumerate(forward))
    is_whole = _reached(entries, forward) == _reached(entries, next_of)
    return sorted(found, key=lambda edge: edge[0]) if is_open and is_whole else []


def _entries(next_of: Sequence[Sequence[int]], sources: Collection[int]) -> list[int]:
    previous: list[set[int]] = [set() for _ in next_of]
    for node, ends in enumerate(next_of):
        for end in ends:
            previous[end].add(node)
    entries = [node for node, before in enumerate(previous) if not before]
    reached = _reached(entries, next_of)
    for node, before in enumerate(previous):
        if node in reached or not before.issubset(sources):
            continue
        ahead = _reached([node], next_of)
        if _reached([node], previous) <= ahead:  # else another part of the graph is in front
            entries.append(node)
            reached |= ahead
    return entries


def _without(next_of: Sequence[Sequence[int]], edges: Collection[Edge]) -> list[list[int]]:
    return [[end for end in ends if (node, end) not in edges] for node, ends in enumerate(next_of)]


def _reached(starts: Iterable[int], next_of: Sequence[Iterable[int]], without: int | None = None) -> set[int]:
    """Return `starts` and all that they lead to, by ways that do not pass `without`."""
    waiting = [start for start in starts if start != without]
    found = set(waiting)
    while waiting:
        for end in next_of[waiting.pop()]:
            if end not in found and end != without:
                found.add(end)
                waiting.append(end)
    return found
