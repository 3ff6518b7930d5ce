"""How many cores other processes use meanwhile: a figure beside every round, which tells if to trust it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


def _psutil() -> Any:
    """Return the package, which carries no types; None where the extra `bench` is not installed."""
    try:
        return import_module("psutil")
    except ImportError:
        return None


def busy_seconds() -> float | None:
    """Return the seconds that all cores together were busy since the start; None without psutil."""
    psutil = _psutil()
    if psutil is None:
        return None
    times = psutil.cpu_times()
    return float(sum(getattr(times, name, 0.0) for name in _BUSY))


def own_seconds() -> float:
    """Return the processor time of this process and of all that it started, in seconds. Needs psutil."""
    psutil = _psutil()
    this = psutil.Process()
    own = this.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in this.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            times = child.cpu_times()
            total += times.user + times.system
    return float(total)


class OtherLoad:
    """Cores used by others between the making of this object and `cores()`."""

    def __init__(
        self,
        busy: Callable[[], float | None] = busy_seconds,
        own: Callable[[], float] = own_seconds,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._busy, self._own, self._clock = busy, own, clock
        self._start_s, self._start_busy_s = clock(), busy()
        self._start_own_s = 0.0 if self._start_busy_s is None else own()

    def cores(self) -> float | None:
        """Return how many cores others have used; None where the system does not tell."""
        busy_s = self._busy()
        if busy_s is None or self._start_busy_s is None:
            return None
        seconds = max(self._clock() - self._start_s, 1e-9)
        return max(0.0, busy_s - self._start_busy_s - (self._own() - self._start_own_s)) / seconds
