"""What the nodes of a pipeline did during a run: the difference of two `pipe.stats()`, and sums of those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class NodeFigures:
    """One node during some runs: how many rows a batch had, why it ran, how long things took.

    `run_s` is the time inside the backend and `wait_s` the time in the queue, both summed up; `rows` maps the
    rows of a run to the number of such runs, `releases` why batches ran to how often. `seconds` is how long
    it was looked at.
    """

    node: str
    seconds: float
    instances: int
    items: int = 0
    run_s: float = 0.0
    wait_s: float = 0.0
    rows: Mapping[int, int] = field(default_factory=dict)
    releases: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_runs(self) -> int:
        """Batches that ran."""
        return sum(self.rows.values())

    @property
    def mean_batch(self) -> float:
        """Rows of a run; 0 where nothing ran."""
        return sum(rows * count for rows, count in self.rows.items()) / max(1, self.num_runs)

    @property
    def largest_batch(self) -> int:
        """Rows of the largest run."""
        return max(self.rows, default=0)

    @property
    def mean_run_ms(self) -> float:
        """Milliseconds of a run in the backend; 0 where nothing ran."""
        return self.run_s * 1e3 / max(1, self.num_runs)

    @property
    def mean_wait_ms(self) -> float:
        """Milliseconds of an item in the node's queue; 0 where nothing ran."""
        return self.wait_s * 1e3 / max(1, self.items)

    @property
    def busy(self) -> float:
        """The part of the time in which an instance computed, from 0 to 1, the mean of all instances."""
        return self.run_s / (self.seconds * self.instances) if self.seconds and self.instances else 0.0

    def release_share(self, reason: str) -> float:
        """The part of the batches that ran for `reason`, from 0 to 1."""
        return self.releases.get(reason, 0) / max(1, sum(self.releases.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "rows": {str(rows): count for rows, count in self.rows.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NodeFigures:
        """Return what `to_dict` was made from."""
        return cls(**{**data, "rows": {int(rows): count for rows, count in data["rows"].items()}})


def figures_between(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], seconds: float
) -> list[NodeFigures]:
    """Return what each node did between two calls of `pipe.stats(buckets=True)`.

    Of runs in place only some are timed, so the time of all is their mean times their number.
    """
    return [_between(old, new, seconds) for old, new in zip(before, after, strict=True)]


def _between(old: Mapping[str, Any], new: Mapping[str, Any], seconds: float) -> NodeFigures:
    rows = _difference(old["batch_rows"], new["batch_rows"])
    timed = new["run_ms"]["count"] - old["run_ms"]["count"]
    mean_run_ms = (new["run_ms"]["sum"] - old["run_ms"]["sum"]) / timed if timed else 0.0
    return NodeFigures(
        node=new["node"],
        seconds=seconds,
        instances=new["instances"],
        items=new["items"] - old["items"],
        run_s=mean_run_ms * sum(rows.values()) / 1e3,
        wait_s=(new["wait_ms"]["sum"] - old["wait_ms"]["sum"]) / 1e3,
        rows=rows,
        releases=_difference(old["releases"], new["releases"]),
    )


def _difference(old: Mapping[Any, int], new: Mapping[Any, int]) -> dict[Any, int]:
    return {key: count - old.get(key, 0) for key, count in new.items() if count > old.get(key, 0)}


def summed(figures: Iterable[NodeFigures]) -> NodeFigures:
    """Return the figures of one node over several runs. At least one is needed."""
    first, *others = figures
    rows, releases = Counter(first.rows), Counter(first.releases)
    for one in others:
        rows.update(one.rows)
        releases.update(one.releases)
    return NodeFigures(
        node=first.node,
        seconds=first.seconds + sum(one.seconds for one in others),
        instances=first.instances,
        items=first.items + sum(one.items for one in others),
        run_s=first.run_s + sum(one.run_s for one in others),
        wait_s=first.wait_s + sum(one.wait_s for one in others),
        rows=dict(sorted(rows.items())),
        releases=dict(releases),
    )


def by_node(rounds: Iterable[Sequence[NodeFigures]]) -> list[NodeFigures]:
    """Return the figures of every node, summed over rounds that all have the same nodes."""
    return [summed(of_node) for of_node in zip(*rounds, strict=True)]
