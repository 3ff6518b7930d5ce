"""How many cores other processes use: a figure beside every measurement, which tells whether to trust it.

Read from /proc, so only on Linux; elsewhere it is not a number, and no round is repeated because of it.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

PROC = Path("/proc")
STAT = PROC / "stat"


def busy_seconds(stat: str, ticks_per_s: int) -> float:
    """Return the seconds that all cores together were busy since the start, from the text of /proc/stat."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks_per_s


def stat_of_process(text: str) -> tuple[int, int]:
    """Return the parent and the ticks used (ended children included), from the text of /proc/PID/stat."""
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return int(fields[1]), sum(map(int, fields[11:15]))


def descendants(processes: dict[int, tuple[int, int]], ancestor: int) -> set[int]:
    """Return all processes below `ancestor`, from the parent and ticks of every process."""
    found: set[int] = set()
    generation = {ancestor}
    while generation:
        generation = {pid for pid, (parent, _) in processes.items() if parent in generation}
        found |= generation
    return found


def descendants_ticks(processes: dict[int, tuple[int, int]], ancestor: int) -> int:
    """Return the ticks of all processes below `ancestor`."""
    return sum(processes[pid][1] for pid in descendants(processes, ancestor))


def all_processes() -> dict[int, tuple[int, int]]:
    """Return parent and ticks of every process."""
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = stat_of_process((folder / "stat").read_text())
            except OSError:  # it has ended meanwhile
                continue
    return found


class OtherLoad:
    """Cores used by others between the making of this object and `cores()`.

    With `has_workers` the processes that this one has started count as its own.
    """

    def __init__(self, has_workers: bool = False) -> None:
        self.has_workers = has_workers
        self.start_s = time.perf_counter()
        self.busy_s = self._busy()
        self.own_s = self.own_seconds()

    @staticmethod
    def _busy() -> float:
        if not STAT.exists():
            return math.nan
        return busy_seconds(STAT.read_text(), os.sysconf("SC_CLK_TCK"))

    def own_seconds(self) -> float:
        """Return the seconds of processor time that this process, with its workers, has used until now."""
        if not self.has_workers or not STAT.exists():
            return time.process_time()
        ended = os.times()
        workers = descendants_ticks(all_processes(), os.getpid()) / os.sysconf("SC_CLK_TCK")
        return time.process_time() + ended.children_user + ended.children_system + workers

    def own_cores(self) -> float:
        """Return how many cores this process has used since the making."""
        return (self.own_seconds() - self.own_s) / (time.perf_counter() - self.start_s)

    def cores(self) -> float:
        own_s = self.own_seconds() - self.own_s
        busy_s = self._busy() - self.busy_s
        return max(0.0, busy_s - own_s) / (time.perf_counter() - self.start_s)


def sample(seconds: float) -> float:
    """Return the cores that others use while this process sleeps for `seconds`."""
    load = OtherLoad()
    time.sleep(seconds)
    return load.cores()
