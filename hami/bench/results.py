"""What `hami bench` has measured: one `CaseResult` for each setting and load, kept as JSON or CSV.

Plain data; the pipelines it came from are gone. `to_dict` is versioned, and `Results.read` refuses what
another version wrote.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .estimate import Estimate
from .load import Load
from .node_figures import NodeFigures, by_node
from .report import LoadReport
from .sweep import Change, Changes, changes_text

SCHEMA = "hami.bench/1"

_LATENCIES = ("p50", "p90", "p99", "p99.9", "mean", "max")


@dataclass(frozen=True)
class Case:
    """One thing to measure: what is changed in the pipeline, and how requests arrive."""

    changes: Changes
    load: Load

    @property
    def setting(self) -> str:
        """The changes as text."""
        return changes_text(self.changes)

    @property
    def arrivals(self) -> str:
        """The load as a few words: `1 caller`, `200/s`, `200/s evenly`."""
        return arrivals_text(self.load)


def arrivals_text(load: Load) -> str:
    """Return how requests arrive in a few words."""
    if load.rate_per_s is not None:
        return f"{load.rate_per_s:g}/s" + (" evenly" if load.arrivals == "fixed" else "")
    return "1 caller" if load.num_callers == 1 else f"{load.num_callers} callers"


@dataclass(frozen=True)
class CaseResult:
    """The rounds of one case: what callers saw, what the nodes did, and how many cores others used."""

    changes: Changes
    report: LoadReport
    nodes: tuple[tuple[NodeFigures, ...], ...] = ()
    other_cores: tuple[float, ...] = ()

    @property
    def case(self) -> Case:
        """What was measured."""
        return Case(self.changes, self.report.load)

    @property
    def key(self) -> tuple[str, str]:
        """Setting and load as texts: what two measurements are matched by."""
        return self.case.setting, self.case.arrivals

    @cached_property
    def figures(self) -> dict[str, NodeFigures]:
        """What each node did in all rounds together, by its name."""
        return {one.node: one for one in by_node(self.nodes)} if self.nodes else {}

    @property
    def has_failed(self) -> bool:
        """Whether no request of any round was answered without an error."""
        return self.report.num_errors == self.report.num_requests

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "changes": [{"node": c.node, "key": c.key, "value": c.value} for c in self.changes],
            "report": self.report.to_dict(),
            "nodes": [[one.to_dict() for one in of_round] for of_round in self.nodes],
            "other_cores": list(self.other_cores),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CaseResult:
        """Return what `to_dict` was made from."""
        return cls(
            tuple(Change(**change) for change in data["changes"]),
            LoadReport.from_dict(data["report"]),
            tuple(tuple(map(NodeFigures.from_dict, of_round)) for of_round in data["nodes"]),
            tuple(data["other_cores"]),
        )


@dataclass(frozen=True)
class Results:
    """All cases of one measurement of one pipeline; `unbuilt` maps settings that cannot be built to why."""

    source: str
    cases: tuple[CaseResult, ...]
    unbuilt: Mapping[str, str] = field(default_factory=dict)
    is_complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; the key `schema` names its form."""
        return {
            "schema": SCHEMA,
            "source": self.source,
            "is_complete": self.is_complete,
            "unbuilt": dict(self.unbuilt),
            "cases": [case.to_dict() for case in self.cases],
        }

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a file of `hami bench --json`. Raises ConfigError for anything else."""
        help = "give a file that `hami bench --json FILE` of this version wrote"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict) or data.get("schema") != SCHEMA:
                raise ConfigError(
                    f"the file is no measurement of the form `{SCHEMA}`",
                    code="bench-bad-file",
                    where=str(path),
                    help=help,
                )
            cases = tuple(map(CaseResult.from_dict, data["cases"]))
            return cls(data["source"], cases, data["unbuilt"], data["is_complete"])
        except OSError as error:
            message = f"the file cannot be read: {error.strerror}"
            raise ConfigError(
                message, code="bench-bad-file", where=str(path), help="check the path"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError) and error.code == "bench-bad-file":
                raise
            message = f"the file is damaged: {type(error).__name__}: {error}"
            raise ConfigError(message, code="bench-bad-file", where=str(path), help=help) from None

    def to_json(self) -> str:
        """Return the text of the file that `read` reads."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def to_csv(self) -> str:
        """Return a table, a line a case: means over the rounds, and the bounds of their intervals."""
        rows = [_csv_row(case) for case in self.cases]
        columns = list(dict.fromkeys(column for row in rows for column in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def _csv_row(case: CaseResult) -> dict[str, Any]:
    report = case.report
    row: dict[str, Any] = {
        "setting": case.case.setting,
        "load": case.case.arrivals,
        "rounds": len(report.rounds),
        "requests": report.num_requests,
        "errors": report.num_errors,
        "first_error": report.first_error,
        **_with_bounds("throughput_per_s", report.throughput_per_s),
    }
    for name in _LATENCIES:
        row |= _with_bounds(f"{name}_ms", report.latency_ms(name))
    row["lateness_p99_ms"] = _mean(report.lateness_ms("p99"))
    row["cpu_cores"] = _mean(report.cpu_cores)
    row["peak_memory_bytes"] = _mean(report.peak_memory_bytes)
    row["gpu_use"] = _mean(report.gpu_use)
    row["other_cores"] = max(case.other_cores, default=None)
    for name, figures in case.figures.items():
        row[f"{name}.mean_batch"] = figures.mean_batch
        row[f"{name}.run_ms"] = figures.mean_run_ms
        row[f"{name}.wait_ms"] = figures.mean_wait_ms
        row[f"{name}.busy"] = figures.busy
    return row


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _with_bounds(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    if estimate is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
