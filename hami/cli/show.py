"""A plan as text: the graph as a tree of arrows, a node as the tree of its backends."""

from __future__ import annotations

from collections.abc import Iterator

from ..drawing import facts, own_expression, shorten
from ..parser.render import to_text, to_tree
from ..plan import DEFAULT_ENTRYPOINT, Plan, PlannedNode

_MAX_COLUMNS = 60


def graph_text(plan: Plan) -> str:
    """Return the graph, from the entry nodes on; a join is drawn below its last predecessor."""
    return "\n".join(_Drawing(plan).lines())


class _Drawing:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.num_left = [0] * len(plan.nodes)
        for node in plan.nodes:
            for following in node.next:
                self.num_left[following] += 1
        self.entered: set[int] = set()

    def lines(self) -> Iterator[str]:
        for root in self.plan.regions[0].roots:
            yield from self._draw(root, "", "", "")

    def _draw(self, root: int, first: str, rest: str, note: str) -> Iterator[str]:
        """Draw a node and, below it, what it leads to; iterative, because a chain may be long."""
        waiting = [(root, first, rest, note)]
        while waiting:
            index, head, margin, note = waiting.pop()
            node = self.plan.nodes[index]
            if self.num_left[index] > 0:
                self.num_left[index] -= 1
                if self.num_left[index]:
                    yield f"{head}{node.name} (joined below)"
                    continue
            yield f"{head}{node.name}{note}{self._answers(index)}  {summary(node)}"
            edges = [(following, "─> ", "") for following in node.next]
            if node.target is not None and node.target not in self.entered:
                self.entered.add(node.target)
                edges.insert(0, (node.target, "·> ", " (each element)"))
            elif node.target is not None:
                yield f"{margin}{'├' if edges else '└'}·> {self.plan.nodes[node.target].name} (drawn above)"
            below = []
            for position, (following, arrow, edge_note) in enumerate(edges):
                is_last = position == len(edges) - 1
                corner, line = ("└", "    ") if is_last else ("├", "│   ")
                below.append((following, f"{margin}{corner}{arrow}", f"{margin}{line}", edge_note))
            waiting.extend(reversed(below))

    def _answers(self, index: int) -> str:
        is_clear = len([node for node in self.plan.nodes if not node.next and node.region == 0]) == 1
        return "" if is_clear or index != self.plan.regions[0].output else " (answers)"


def summary(node: PlannedNode) -> str:
    """Return what a node computes, and its size, on one line."""
    text = shorten(to_text(own_expression(node)), _MAX_COLUMNS)
    return "  ".join([text, *facts(node)])


def is_default(node: PlannedNode) -> bool:
    """Say whether the node is built as most are: a batcher in front of instances."""
    return "node_entrypoint" not in node.params and not node.is_operator


def default_text() -> str:
    """Return the sentence about what `node_text` leaves out."""
    return f"Around each of these, unless it brings a `node_entrypoint`:\n{DEFAULT_ENTRYPOINT}"


def node_text(node: PlannedNode, *, is_full: bool) -> str:
    """Return a node's name and the tree that it expands to; of a default node only its backend, if not
    `is_full`."""
    expr = own_expression(node) if is_default(node) and not is_full else node.expr
    return f"[{node.name}]\n{to_tree(expr)}"
