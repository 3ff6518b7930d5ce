"""`Trace`: the timeline of a pipeline, every station of every request, for Perfetto and chrome://tracing.

Made by `hami.Pipeline.trace`. The core records (`csrc/core/trace.h`); this package makes rows of it:
`recording` reads the records, `stations` makes spans of requests, `thread_rows`, `request_rows` and `gpu`
make events, `chrome` the file.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ..errors import RequestError
from .chrome import chrome_trace, write
from .gpu import GpuProfile, GpuProfiler
from .recording import Interval, Recording
from .stations import StationTimes, station_times

__all__ = ["Interval", "StationTimes", "Trace"]

_MOST_RECORDS = 1 << 32


class Traced(Protocol):
    """What a trace needs of a pipeline."""

    def _start_trace(self, max_records: int) -> bool: ...
    def _stop_trace(self) -> dict[str, Any] | None: ...


class Trace:
    """Records what a pipeline does between `start` and `stop`; made by `pipe.trace()`.

    As a context manager it starts, stops, and saves to the path that it was given. A pipeline has one at a
    time: the second `start` is a RequestError. Any thread may call anything, but with GPUs the end must come
    on the thread of the beginning. Closing the pipeline meanwhile is fine.
    """

    def __init__(
        self,
        pipeline: Traced,
        path: str | os.PathLike[str] | None = None,
        *,
        name: str = "",
        made: tuple[Interval, ...] = (),
        max_records: int,
        gpu: bool,
    ) -> None:
        given: object = max_records
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise RequestError(
                f"`max_records` must be a whole number of at least 1, got `{max_records!r}`",
                code="trace-max-records",
                help="leave it out for 500000, which are about 50000 requests of one node",
            )
        if path is not None:
            _check_place(path)
        self._pipeline = pipeline
        self._path = path
        self._name = name
        self._made = made
        self._max_records = min(max_records, _MOST_RECORDS)
        self._uses_gpu = gpu
        self._lock = threading.Lock()
        self._is_running = False
        self._profiler: GpuProfiler | None = None
        self._recording: Recording | None = None
        self._gpus: GpuProfile | None = None
        self._thread_names: dict[int, str] = {}

    def start(self) -> Trace:
        """Begin to record, and forget what was recorded before; returns itself."""
        if not self._pipeline._start_trace(self._max_records):
            raise RequestError(
                "this pipeline is being traced already",
                code="trace-running",
                help="stop the other trace first",
            )
        self._recording = self._gpus = None
        try:
            self._profiler = GpuProfiler.start() if self._uses_gpu else None
        except BaseException:
            self._pipeline._stop_trace()
            raise
        self._is_running = True
        return self

    def stop(self) -> None:
        """Stop recording; a second time does nothing. What is inside then shows as unfinished."""
        with self._lock:
            if self._is_running:
                self._end()

    def _end(self) -> None:
        if self._profiler is not None:
            self._profiler.check_may_stop()
        rows = self._pipeline._stop_trace()
        assert rows is not None
        self._is_running = False
        profiler, self._profiler = self._profiler, None
        self._recording = Recording.of(rows, self._name, self._made)
        # Those that have ended by now go by what the kernel calls them.
        self._thread_names = {
            thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id is not None
        }
        if profiler is not None:
            self._gpus = profiler.stop()

    @property
    def is_running(self) -> bool:
        """Whether it records now."""
        return self._is_running

    @property
    def num_dropped(self) -> int:
        """How many records found no room: `max_records` was too small for all that happened."""
        return self._recorded().num_dropped

    def events(self) -> list[dict[str, Any]]:
        """Return the events of Chrome's trace format, in the order of time. Stops the trace."""
        return list(self._content()["traceEvents"])

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write the file, compressed where its name ends in `.gz`. Stops the trace. Raises OSError."""
        target = self._path if path is None else path
        if target is None:
            raise RequestError(
                "the trace has no path", code="trace-path", help='write `trace.save("trace.json")`'
            )
        _check_place(target)
        write(self._content(), target)

    def stations(self) -> dict[str, StationTimes]:
        """Return how long requests were at each station, in all nodes together. Stops the trace."""
        return station_times(self._recorded())

    def _recorded(self) -> Recording:
        self.stop()
        if self._recording is None:
            raise RequestError(
                "the trace was never started",
                code="trace-not-started",
                help="write `with pipe.trace() as trace:`, or call `trace.start()`",
            )
        return self._recording

    def _content(self) -> dict[str, Any]:
        return chrome_trace(self._recorded(), self._thread_names, self._gpus)

    def __enter__(self) -> Trace:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if self._path is not None:
            self.save()

    def __del__(self) -> None:
        # Nobody could stop it any more, and the pipeline could not be traced again.
        if not getattr(self, "_is_running", False):
            return
        with contextlib.suppress(Exception):  # in a child process, and where torch has gone already
            self._pipeline._stop_trace()
            if self._profiler is not None:
                self._profiler.end()


def _check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a path before anything is recorded, not after."""
    place = Path(path).absolute()
    if place.is_dir():
        reason = "it is a folder"
    elif not place.parent.is_dir():
        reason = f"there is no folder `{place.parent}`"
    else:
        return
    raise RequestError(
        f"`{os.fspath(path)}` cannot be written: {reason}",
        code="trace-path",
        help="give the path of a file in a folder that exists",
    )
