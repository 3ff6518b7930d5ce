"""How many cores other processes use: a figure beside every measurement, which tells whether to trust it.

Read from /proc/stat, so only on Linux; elsewhere it is not a number, and no round is repeated because of it.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

STAT = Path("/proc/stat")


def busy_seconds(stat: str, ticks_per_s: int) -> float:
    """Return the seconds that all cores together were busy since the start, from the text of /proc/stat."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks_per_s


class OtherLoad:
    """Cores used by others between the making of this object and `cores()`."""

    def __init__(self) -> None:
        self.start_s = time.perf_counter()
        self.busy_s = self._busy()
        self.own_s = time.process_time()

    @staticmethod
    def _busy() -> float:
        if not STAT.exists():
            return math.nan
        return busy_seconds(STAT.read_text(), os.sysconf("SC_CLK_TCK"))

    def cores(self) -> float:
        own_s = time.process_time() - self.own_s
        busy_s = self._busy() - self.busy_s
        return max(0.0, busy_s - own_s) / (time.perf_counter() - self.start_s)


def sample(seconds: float) -> float:
    """Return the cores that others use while this process sleeps for `seconds`."""
    load = OtherLoad()
    time.sleep(seconds)
    return load.cores()
