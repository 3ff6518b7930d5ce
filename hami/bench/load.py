"""`Load`: how requests arrive, for how long, and how often that is repeated.

A load is checked when it is made, so that a measurement never begins with one that means nothing. Any thread
may use it; it never changes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import ConfigError, did_you_mean, quoted

ARRIVALS = ("poisson", "fixed")
ORDERS = ("random", "given")

_MOST_CALLERS = 1024
_MOST_REPEATS = 1000


@dataclass(frozen=True)
class Load:
    """How requests arrive: from callers who wait for their answers, or at a rate that waits for nobody.

    `num_callers` makes a closed loop: that many callers, each of whom sends the next request when the last
    one is answered. `rate_per_s` makes an open loop: requests are sent at times that were drawn before,
    whatever the pipeline does. One of the two must be set. A round lasts `duration_s`, or `num_requests`
    requests, whichever ends first; with neither it lasts 5 s. Raises ConfigError for what cannot be.
    """

    num_callers: int | None = None
    """Callers of a closed loop, 1 to 1024."""
    rate_per_s: float | None = None
    """Requests a second of an open loop."""
    arrivals: str = "poisson"
    """Gaps of an open loop: `poisson` draws them from an exponential distribution, `fixed` are all alike."""
    duration_s: float | None = None
    """How long requests are sent in each round, in seconds."""
    num_requests: int | None = None
    """How many requests are sent in each round."""
    warmup_s: float = 1.0
    """How long the same load runs before the first round, in seconds; what happens there is not counted."""
    repeats: int = 5
    """Rounds; the confidence intervals come from how much they differ. 1 to 1000."""
    seed: int = 0
    """Of the gaps and of the order of inputs. Every round has a seed of its own, made from this one."""
    order: str = "random"
    """Which input comes next: `random` draws each with the same chance, `given` takes them in turn."""
    max_in_flight: int = 10_000
    """Requests of an open loop that may be unanswered at once; one more counts as an error."""
    timeout_s: float = 60.0
    """A request without an answer after that many seconds is cancelled, and counts as an error."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        if (self.num_callers is None) == (self.rate_per_s is None):
            given = "neither" if self.num_callers is None else "both"
            raise _refused(
                f"a load has {given} of `num_callers` and `rate_per_s`",
                "set `num_callers` for callers who wait for their answers, or `rate_per_s` for a rate",
            )
        if self.num_callers is not None:
            _check_count("num_callers", self.num_callers, _MOST_CALLERS)
        if self.rate_per_s is not None:
            _check_number("rate_per_s", self.rate_per_s, 1e7)
        _check_choice("arrivals", self.arrivals, ARRIVALS)
        _check_choice("order", self.order, ORDERS)
        if self.duration_s is None and self.num_requests is None:
            object.__setattr__(self, "duration_s", 5.0)
        if self.duration_s is not None:
            _check_number("duration_s", self.duration_s, 1e6)
        if self.num_requests is not None:
            _check_count("num_requests", self.num_requests, 10**9)
        _check_number("warmup_s", self.warmup_s, 1e6, may_be_zero=True)
        _check_count("repeats", self.repeats, _MOST_REPEATS)
        _check_count("seed", self.seed, 2**63 - 1, least=0)
        _check_count("max_in_flight", self.max_in_flight, 10**7)
        _check_number("timeout_s", self.timeout_s, 1e6)

    @property
    def is_open(self) -> bool:
        """Whether requests come at a rate, whatever the answers do."""
        return self.rate_per_s is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Load:
        """Make a load of what `to_dict` returned. Raises ConfigError for other keys."""
        names = [field.name for field in fields(cls)]
        for name in values:
            if name not in names:
                help = did_you_mean(name, names, otherwise=f"the fields are {quoted(names)}")
                raise _refused(f"a load has no field `{name}`", help)
        return cls(**values)

    def __str__(self) -> str:
        if self.is_open:
            kind = "Poisson" if self.arrivals == "poisson" else "evenly spaced"
            how = f"open loop, {self.rate_per_s:g} requests/s, {kind}"
        else:
            how = f"closed loop, {self.num_callers} {'caller' if self.num_callers == 1 else 'callers'}"
        ends = []
        if self.duration_s is not None:
            ends.append(f"{self.duration_s:g} s")
        if self.num_requests is not None:
            ends.append(f"{self.num_requests} requests")
        return f"{how}, {self.repeats} x {' or '.join(ends)}, warm-up {self.warmup_s:g} s"


def _refused(message: str, help: str) -> ConfigError:
    return ConfigError(message, code="load-setting", where="load", help=help)


def _wrong(name: str, value: object, expected: str) -> ConfigError:
    return _refused(f"`{name}` must be {expected}, got `{value!r}`", "correct it, or leave it out")


def _check_count(name: str, value: object, most: int, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _wrong(name, value, f"a whole number from {least} to {most}")


def _check_number(name: str, value: object, most: float, *, may_be_zero: bool = False) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and (value >= 0 if may_be_zero else value > 0) and value <= most:  # type: ignore[operator]
        return
    least = "from 0" if may_be_zero else "above 0 and"
    raise _wrong(name, value, f"a number {least} up to {most:g}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value in choices:
        return
    help = did_you_mean(str(value), choices, otherwise=f"use {quoted(choices)}")
    raise _refused(f"`{name}` must be {' or '.join(f'`{c}`' for c in choices)}, got `{value!r}`", help)
