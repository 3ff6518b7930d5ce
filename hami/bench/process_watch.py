"""`ProcessWatch`: what a measurement costs its machine: processor time, memory, and use of the GPUs.

It only reads counters of the system, through psutil and NVML, and starts no thread: whoever waits for a round
calls `look` meanwhile. What cannot be read (a package or a driver is missing) is None.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from importlib import import_module
from typing import Any

# How long the list of processes is taken for the current one.
_CHILDREN_S = 1.0


class ProcessWatch:
    """The figures of one round: made at its start, `look` while it runs, then `figures`. One thread."""

    def __init__(self) -> None:
        self._process = _process()
        self._children: list[Any] = []
        self._children_at_s = -math.inf
        self._gpus = _visible_gpus()
        self._peak_bytes = 0
        self._peak_gpu_bytes = 0
        self._gpu_uses: list[float] = []
        self._start_s = time.monotonic()
        self._start_cpu_s = self._cpu_seconds()

    def look(self) -> None:
        """Read what has no counter of its own: memory, and what the GPUs do now."""
        if self._process is not None:
            self._peak_bytes = max(self._peak_bytes, sum(map(_memory_bytes, self._family())))
        if self._gpus:
            nvml = self._gpus[0].nvml
            with contextlib.suppress(nvml.NVMLError):
                self._gpu_uses.append(sum(gpu.use() for gpu in self._gpus) / len(self._gpus))
                self._peak_gpu_bytes = max(
                    self._peak_gpu_bytes, sum(gpu.memory_bytes() for gpu in self._gpus)
                )

    def figures(self) -> dict[str, Any]:
        """Return the last fields of `Round`, from the start until now."""
        self.look()
        seconds = max(time.monotonic() - self._start_s, 1e-9)
        has_process, has_gpu = self._process is not None, bool(self._gpu_uses)
        return {
            "cpu_cores": max(0.0, self._cpu_seconds() - self._start_cpu_s) / seconds if has_process else None,
            "peak_memory_bytes": self._peak_bytes if has_process else None,
            "gpu_use": sum(self._gpu_uses) / len(self._gpu_uses) if has_gpu else None,
            "gpu_memory_bytes": self._peak_gpu_bytes if has_gpu else None,
        }

    def _family(self) -> list[Any]:
        """Return this process and those that it started, such as the workers of a `ProcessPool`.

        Finding them means reading every process of the machine, so that is done once a second.
        """
        if time.monotonic() - self._children_at_s >= _CHILDREN_S:
            self._children = self._process.children(recursive=True)
            self._children_at_s = time.monotonic()
        return [self._process, *self._children]

    def _cpu_seconds(self) -> float:
        return 0.0 if self._process is None else sum(map(_cpu_seconds, self._family()))


def _package(name: str) -> Any:
    """Return a package of the extra `bench`, or None; both carry no types."""
    try:
        return import_module(name)
    except ImportError:
        return None


def _process() -> Any:
    psutil = _package("psutil")
    return None if psutil is None else psutil.Process()


def _cpu_seconds(process: Any) -> float:
    try:
        times = process.cpu_times()
    except _package("psutil").Error:  # it has ended meanwhile
        return 0.0
    return float(times.user + times.system)


def _memory_bytes(process: Any) -> int:
    try:
        return int(process.memory_info().rss)
    except _package("psutil").Error:
        return 0


class _Gpu:
    """One GPU as NVML sees it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self._handle = handle

    def use(self) -> float:
        return float(self.nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu) / 100

    def memory_bytes(self) -> int:
        return int(self.nvml.nvmlDeviceGetMemoryInfo(self._handle).used)


def _visible_gpus() -> list[_Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, by number or UUID; all where it is not set."""
    pynvml = _package("pynvml")
    if pynvml is None:
        return []
    try:
        pynvml.nvmlInit()
        names = os.environ.get("CUDA_VISIBLE_DEVICES")
        if names is None:
            chosen: list[str | int] = list(range(pynvml.nvmlDeviceGetCount()))
        else:
            chosen = [int(name) if name.isdigit() else name for name in names.split(",") if name]
        return [
            _Gpu(
                pynvml,
                pynvml.nvmlDeviceGetHandleByIndex(name)
                if isinstance(name, int)
                else pynvml.nvmlDeviceGetHandleByUUID(name),
            )
            for name in chosen
        ]
    except pynvml.NVMLError:  # no driver, or no such GPU
        return []
