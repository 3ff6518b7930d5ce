"""A stand-in for the load engine, so that the command `hami bench` is tested without measuring anything.

hami is imported when the fixture is used: other tests of the same folder replace its core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run

if TYPE_CHECKING:
    from hami.bench.load import Load
    from hami.bench.report import LoadReport

Write = Callable[..., str]

PIPELINE = """\
[first]
backend = "Identity"
next = "second"

[second]
backend = "Identity"
max = 4
"""
REQUESTS = '{"data": 1}\n{"data": 2}\n'


class Stand:
    """Measures by rule: requests a second by the number of callers; the journal has every load."""

    def __init__(self) -> None:
        self.loads: list[Load] = []
        self.samples: list[Any] = []
        self.per_s: Callable[[Load], float] = lambda load: 100.0 * (load.num_callers or 1) + load.seed
        self.num_errors = 0
        self.interrupt_at: int | None = None

    def measure_with(self, samples: Any) -> Callable[..., LoadReport]:
        self.samples = samples

        from measured_cases import MADE_WITH, one_round

        from hami.bench.report import LoadReport

        def measure(pipe: Any, load: Load, on_share: Callable[[float], None]) -> LoadReport:
            if self.interrupt_at == len(self.loads):
                raise KeyboardInterrupt
            self.loads.append(load)
            on_share(0.5)
            return LoadReport(load, (one_round(self.per_s(load), num_errors=self.num_errors),), MADE_WITH)

        return measure


@pytest.fixture
def stand(real_core: None, monkeypatch: pytest.MonkeyPatch, write: Write) -> Stand:
    """A pipeline and requests in the current folder, and the stand-in for the engine."""
    import hami.cli.bench.measure  # noqa: F401  so that it can be found below

    stand = Stand()
    monkeypatch.setattr(sys.modules["hami.cli.bench.measure"], "measure_with", stand.measure_with)
    write(PIPELINE)
    write(REQUESTS, "in.jsonl")
    return stand


def bench(*options: str) -> Any:
    """Run the command on the pipeline with its requests."""
    return run("bench", "pipeline.toml", "--input", "in.jsonl", *options)
