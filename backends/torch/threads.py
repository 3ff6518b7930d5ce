"""How many threads of the CPU one run uses: torch knows it per thread, and as a default for new ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

_lock = threading.Lock()


def use_intra_op_threads(count: int) -> None:
    """Let operations that this thread calls use `count` threads; other threads, old and new, keep theirs."""
    with _lock:
        before = torch.get_num_threads()
        if before == count:
            return
        default: list[int] = []
        _in_new_thread(lambda: default.append(torch.get_num_threads()))
        torch.set_num_threads(count)  # of this thread, and the default
        _in_new_thread(lambda: torch.set_num_threads(default[0]))  # of that thread, and the default again


def _in_new_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
