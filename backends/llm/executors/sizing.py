"""How many pages an executor gets: the share of the memory that may be used, less what the worst step takes.

The worst step is run once on pages that do not exist (all are the dummy page) and its peak is measured: on a
GPU as torch counts it, on the CPU as the kernel does, with fewer tokens there, scaled up, since it would take
seconds.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from hami.errors import BuildError

from ..config import ModelConfig

log = logging.getLogger("hami.llm")
CPU_TRIAL_TOKENS = 256


@dataclass(frozen=True)
class Limits:
    """What the engine's parameters say of memory; `num_pages` 0 means as many as fit, page 0 counted in."""

    page_size: int = 16
    num_pages: int = 0
    memory_utilization: float = 0.9
    max_running: int = 64
    max_model_len: int = 2048
    max_batched_tokens: int = 2048
    num_swap_pages: int = 0

    @property
    def longest(self) -> int:
        """Return the pages of one longest sequence."""
        return -(-self.max_model_len // self.page_size)


def num_pages_for(
    config: ModelConfig,
    limits: Limits,
    element_bytes: int,
    device: torch.device,
    peak_of_step: Callable[[], float],
) -> int:
    """Return the number of pages, the dummy counted in.

    `element_bytes` is the size of a number on a page; `peak_of_step` returns the bytes that the worst step
    takes beyond what is allocated already. Pages to swap to lie in the memory of the host, so on the CPU they
    take from the same. Raises BuildError `llm-memory` if not even one longest sequence fits. An explicit
    number that is too small for that is taken with a warning: the scheduler then refuses what cannot fit,
    request by request.
    """
    if limits.num_pages:
        if limits.num_pages < limits.longest + 1:
            log.warning(
                "%d pages of %d tokens: a sequence of %d tokens does not fit, and such requests are refused",
                limits.num_pages,
                limits.page_size,
                limits.max_model_len,
            )
        return limits.num_pages
    page_bytes = config.kv_elements_per_token * limits.page_size * element_bytes
    peak = peak_of_step()
    memory = available_memory(device, limits.memory_utilization)
    if device.type == "cpu":
        memory -= limits.num_swap_pages * page_bytes
    fitting = int((memory - peak) // page_bytes)
    useful = limits.max_running * limits.longest + 1
    if fitting < limits.longest + 1:
        raise BuildError(
            f"a sequence of {limits.max_model_len} tokens needs {_mib((limits.longest + 1) * page_bytes)} "
            f"of pages, and {_mib(max(0, memory - peak))} are left beside {_mib(peak)} for a step",
            code="llm-memory",
            help="lower `max_model_len` or `max_batched_tokens`, or raise `memory_utilization`",
        )
    return min(fitting, useful)


def _mib(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:.0f} MiB"


def worst_plan(limits: Limits, num_tokens: int) -> SimpleNamespace:
    """Return a plan of `num_tokens` tokens in rows as long as can be, all at the end of their sequences."""
    longest = limits.max_model_len
    lengths = [longest] * (num_tokens // longest) + ([num_tokens % longest] if num_tokens % longest else [])
    counts, rows = np.array(lengths), len(lengths)
    empty = np.zeros((0, 2), np.int32)
    return SimpleNamespace(
        num_rows=rows,
        num_decode_rows=0,
        num_tokens=num_tokens,
        token_ids=np.zeros(num_tokens, np.int32),
        positions=np.concatenate([np.arange(longest - count, longest) for count in lengths]),
        slots=np.zeros(num_tokens, np.int32),
        query_starts=np.concatenate([[0], counts.cumsum()]),
        context_lens=np.full(rows, longest),
        table_rows=np.zeros(rows, np.int32),
        page_table=np.zeros((1, limits.longest), np.int32),
        logit_tokens=np.arange(min(num_tokens, limits.max_running)),
        swap_out=empty,
        swap_in=empty,
        copies=empty,
    )


def measured_peak(limits: Limits, device: torch.device, trial: Callable[[Any], None]) -> float:
    """Return the bytes that the worst step takes beyond what stays."""
    trial(worst_plan(limits, 1))  # what libraries allocate once and keep is no part of a step
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        trial(worst_plan(limits, limits.max_batched_tokens))
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device) - before
        torch.cuda.empty_cache()
        return peak
    tokens = min(limits.max_batched_tokens, CPU_TRIAL_TOKENS)
    reset_peak()
    before = resident()[0]
    trial(worst_plan(limits, tokens))
    return max(0, resident()[1] - before) * limits.max_batched_tokens / tokens


def reset_peak() -> None:
    """Let the kernel forget the most memory that this process had; where it cannot, the peak is too high."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        log.debug("the peak of memory cannot be reset: %s", error)


def resident() -> tuple[int, int]:
    """Return the bytes of memory that this process has, and the most it had."""
    fields = {}
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            fields[name] = value.split()
        return int(fields["VmRSS"][0]) << 10, int(fields["VmHWM"][0]) << 10
    except (OSError, KeyError, ValueError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        return most, most


def available_memory(device: torch.device, utilization: float) -> float:
    """Return the bytes that may still be used: `utilization` of the memory, less what is in use."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return total * utilization - (total - free)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = total
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdecimal() and int(limit) < total:
            used = int(Path("/sys/fs/cgroup/memory.current").read_text())
            total, free = int(limit), min(free, int(limit) - used)
    except (OSError, ValueError, IndexError) as error:
        log.debug("the memory that is free is not known exactly: %s", error)
    return total * utilization - (total - free)
