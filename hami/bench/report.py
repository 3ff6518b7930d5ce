"""`LoadReport`: what a measurement found, round by round, and the estimates from it.

Plain data: it can be written as JSON and read again, and compared without the pipeline that it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import ConfigError
from .estimate import Estimate
from .load import Load
from .report_text import text_of, warnings_of

SCHEMA = "hami.load-report/1"
"""Names the keys of `to_dict`; another number is another meaning of them."""

PERCENTILES = ("p50", "p90", "p99", "p99.9")


@dataclass(frozen=True)
class Round:
    """What one repeat measured."""

    seconds: float
    """From the first request to the last answer; of an open loop at least for as long as it was to last."""
    num_requests: int
    """All that were sent, those that failed too."""
    num_errors: int
    first_error: str | None
    """What the first request that failed, in the order of sending, failed with."""
    latency_ms: dict[str, float]
    """`p50`, `p90`, `p99`, `p99.9`, `mean` and `max` of requests without an error; empty where all failed.

    Of an open loop they count from the time at which a request was to be sent. Right to 0.4 percent.
    """
    lateness_ms: dict[str, float] | None = None
    """How much later than planned an open loop sent its requests, same keys; None for a closed loop."""
    cpu_cores: float | None = None
    """Processor time of this process and those it started, per second; None without psutil."""
    peak_memory_bytes: int | None = None
    """Most memory of the same processes at any look, ten times a second; None without psutil."""
    gpu_use: float | None = None
    """Share of the time in which the GPUs computed, 0 to 1, their mean; None without a GPU."""
    gpu_memory_bytes: int | None = None
    """Most memory used on all GPUs together at any look; None without a GPU."""

    @property
    def throughput_per_s(self) -> float:
        """Requests answered without an error, per second."""
        return (self.num_requests - self.num_errors) / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class LoadReport:
    """The rounds of one load, and the estimates over them."""

    load: Load
    rounds: tuple[Round, ...]
    made_with: dict[str, str] = field(default_factory=dict)
    """Where it was measured: `hami`, `python`, `system`, `machine`, `processors`, `time` (UTC, ISO 8601)."""

    @property
    def num_requests(self) -> int:
        """All requests of all rounds."""
        return sum(each.num_requests for each in self.rounds)

    @property
    def num_errors(self) -> int:
        """All errors of all rounds."""
        return sum(each.num_errors for each in self.rounds)

    @property
    def first_error(self) -> str | None:
        """The first error of the first round that has one."""
        return next((each.first_error for each in self.rounds if each.first_error is not None), None)

    @property
    def throughput_per_s(self) -> Estimate:
        """Requests answered without an error, per second."""
        return Estimate.of([each.throughput_per_s for each in self.rounds])

    def latency_ms(self, percentile: str = "p50") -> Estimate | None:
        """Return a percentile: `p50`, `p90`, `p99`, `p99.9`, `mean` or `max`.

        None where no request of any round succeeded. Raises ConfigError for another name.
        """
        known = (*PERCENTILES, "mean", "max")
        if percentile not in known:
            raise ConfigError(
                f"`percentile` must be one of {', '.join(f'`{name}`' for name in known)}, got `{percentile}`",
                code="load-setting",
                where="load report",
            )
        return self._estimate(lambda each: each.latency_ms.get(percentile))

    def lateness_ms(self, percentile: str = "p99") -> Estimate | None:
        """Return how late requests were sent; None for a closed loop."""
        return self._estimate(lambda each: (each.lateness_ms or {}).get(percentile))

    @property
    def cpu_cores(self) -> Estimate | None:
        """Processor time per second; None without psutil."""
        return self._estimate(lambda each: each.cpu_cores)

    @property
    def peak_memory_bytes(self) -> Estimate | None:
        """Most memory; None without psutil."""
        return self._estimate(lambda each: each.peak_memory_bytes)

    @property
    def gpu_use(self) -> Estimate | None:
        """Share of the time in which the GPUs computed; None without a GPU."""
        return self._estimate(lambda each: each.gpu_use)

    @property
    def gpu_memory_bytes(self) -> Estimate | None:
        """Most memory used on the GPUs; None without a GPU."""
        return self._estimate(lambda each: each.gpu_memory_bytes)

    def _estimate(self, figure: Callable[[Round], float | None]) -> Estimate | None:
        values = [value for each in self.rounds if (value := figure(each)) is not None]
        return Estimate.of(values) if values else None

    @property
    def warnings(self) -> list[str]:
        """What keeps the figures from meaning what they seem to, in words; empty when nothing does."""
        return warnings_of(self)

    def __str__(self) -> str:
        return text_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; the key `schema` names its form."""
        return {
            "schema": SCHEMA,
            "made_with": dict(self.made_with),
            "load": self.load.to_dict(),
            "rounds": [asdict(each) for each in self.rounds],
        }

    @classmethod
    def from_dict(cls, data: Any) -> LoadReport:
        """Make a report of what `to_dict` returned. Raises ConfigError for another form."""
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise ConfigError(
                f"`schema` must be `{SCHEMA}`, got `{schema}`",
                code="load-report",
                where="load report",
                help="read a file that this version of hami wrote",
            )
        names = {each.name for each in fields(Round)}
        try:
            rounds = tuple(Round(**{k: v for k, v in row.items() if k in names}) for row in data["rounds"])
            return cls(Load.from_dict(data["load"]), rounds, dict(data["made_with"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"the report is not complete: {type(error).__name__}: {error}",
                code="load-report",
                where="load report",
                help="read a file that this version of hami wrote",
            ) from error
