"""What a reader looks for in a node: the expression that its author wrote, its sizes, its condition."""

from __future__ import annotations

from collections.abc import Iterator

from ..parser import Expr
from ..plan import PlannedBackend, PlannedNode

_INSTANCE = "BackgroundThread"

DEFAULT_WAIT_MS = 4.0
"""What the core takes for `batching_timeout` where `max` is above 1."""


def own_expression(node: PlannedNode) -> Expr:
    """Return what the user wrote as `backend`, expanded: the part inside BackgroundThread, if there is
    one."""
    for part in node.expr.walk():
        if part.name == _INSTANCE and len(part.children) == 1:
            return part.children[0]
    return node.expr


def own_backend(node: PlannedNode) -> PlannedBackend:
    """Return the same of the backends that are built."""
    for part in parts_of(node.backend):
        if part.name == _INSTANCE and len(part.children) == 1:
            return part.children[0]
    return node.backend


def parts_of(backend: PlannedBackend) -> Iterator[PlannedBackend]:
    """Yield a backend and all that stand inside it, in written order."""
    waiting = [backend]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(part.children))


def condition_of(node: PlannedNode, following: PlannedNode) -> str:
    """Return in words when a request goes from a node on to the following one; empty: always."""
    backend = own_backend(node)
    is_condition = backend.is_condition and not backend.children
    if following.is_or:
        return "otherwise" if is_condition else "without a result"
    return f"if {own_expression(node)}" if is_condition else ""


def instances_of(node: PlannedNode) -> int:
    """Return how many copies of its backend a node runs side by side."""
    count = node.params.get("instance_num", 1)
    return count if isinstance(count, int) and not node.is_operator else 1


def batch_of(node: PlannedNode) -> tuple[int, int] | None:
    """Return the fewest and most rows of one run, as far as the plan knows; None: nothing is batched."""
    if node.is_operator:
        return None
    lows, highs = [node.params.get("min")], [node.params.get("max")]
    for part in parts_of(own_backend(node)):
        allowed = getattr(part.python, "batch_range", None)
        if isinstance(allowed, tuple):
            lows.append(allowed[0])
            highs.append(allowed[1])
    high = min((one for one in highs if isinstance(one, int)), default=1)
    low = max((one for one in lows if isinstance(one, int)), default=1)
    return (low, high) if high > 1 else None


def wait_ms_of(node: PlannedNode) -> float:
    """Return how long a request of a node that batches waits for company, at most."""
    wait = node.params.get("batching_timeout")
    return DEFAULT_WAIT_MS if wait is None else float(wait)


def keys_taken(node: PlannedNode, source: int) -> list[str]:
    """Return in words which keys the `map` of a node takes from a source, and as what."""
    entries = [entry for entry in node.map or () if entry.source == source]
    return [one.key if one.source_key == one.key else f"{one.source_key} → {one.key}" for one in entries]


def facts(node: PlannedNode) -> list[str]:
    """Return the sizes that a reader looks for: instances, batch, wait."""
    found: list[str] = []
    if node.is_operator:
        return found
    if node.params.get("instance_num", 1) != 1:
        found.append(f"{node.params['instance_num']} instances")
    if node.params.get("max") is not None:
        found.append(f"max {node.params['max']}")
    if node.params.get("batching_timeout") is not None:
        found.append(f"{node.params['batching_timeout']:g} ms")
    if node.is_or:
        found.append("or")
    return found


def shorten(text: str, columns: int) -> str:
    """Cut a text that is longer than `columns`."""
    return text if len(text) <= columns else text[: columns - 1] + "…"
