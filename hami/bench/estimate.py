"""`Estimate`: a figure over the rounds of a measurement, with what is known about it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# The 97.5 % points of Student's t for 1 to 10 degrees of freedom (Abramowitz and Stegun, table 26.10).
_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


@dataclass(frozen=True)
class Estimate:
    """The mean of a figure over rounds, and the 95 % confidence interval of that mean.

    The interval is that of Student ("The probable error of a mean", Biometrika 6, 1908): mean plus or minus
    t * s / sqrt(n). `low` and `high` are None for a single round, which says nothing about the next one.
    """

    mean: float
    low: float | None
    high: float | None
    smallest: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the estimate from one value of each round; there must be at least one."""
        mean = statistics.fmean(values)
        if len(values) == 1:
            return cls(mean, None, None, mean, mean)
        half = t_point(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half, min(values), max(values))

    @property
    def margin(self) -> float | None:
        """Half the width of the interval; None for a single round."""
        return None if self.high is None else self.high - self.mean


def t_point(degrees: int) -> float:
    """Return the 97.5 % point of Student's t, right to four digits.

    Above the table it is the expansion 26.7.5 of Abramowitz and Stegun, "Handbook of Mathematical Functions".
    """
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / degrees ** (i + 1) for i, term in enumerate(terms))
