"""What ran on the GPUs during a trace: kernels and copies, from torch.profiler, which asks CUPTI.

Used where the program has loaded torch and sees a GPU. The two clocks are brought together by a marker: a
`record_function` of that name is opened and closed between two readings of the monotonic clock, so that its
time in the profile is known by both; again, where the two lie far apart.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RequestError
from .recording import Run, Thread
from .timeline import FIRST_GPU, Event, Timeline, metadata, process

MARKER = "hami.trace.clock"
# Readings further apart than that say little of the marker between them: the thread was interrupted.
_NEAR_NS, _MOST_MARKERS = 50_000, 20

# Categories of torch.profiler for what a GPU does.
_GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHERS = ("cuda_runtime", "cuda_driver")
_KEPT_ARGS = ("stream", "grid", "block", "bytes", "registers per thread", "shared memory")


class Work(NamedTuple):
    """One kernel or copy; times in nanoseconds of the monotonic clock."""

    name: str
    category: str
    device: int
    stream: int
    begin: int
    end: int
    correlation: int | None
    args: dict[str, Any]


class Launch(NamedTuple):
    """The call that put something on a GPU: when, and on which thread, as the profile calls it."""

    time: int
    thread: int


@dataclass(frozen=True)
class GpuProfile:
    """What GPUs did, and who asked them for it, by the number that CUPTI gives both."""

    work: list[Work]
    launches: dict[int, Launch]
    device_names: dict[int, str]

    @classmethod
    def of(cls, content: Mapping[str, Any], marked_ns: int) -> GpuProfile:
        """Read what torch.profiler exports. `marked_ns`: when the marker was set, by the monotonic clock.

        Raises RequestError when the marker is not there.
        """
        events = [event for event in content["traceEvents"] if event.get("ph") == "X"]
        markers = [event for event in events if event["name"] == MARKER]
        marker = max(markers, key=lambda event: float(event["ts"]), default=None)
        if marker is None:
            raise RequestError(
                f"the profile of torch has no event `{MARKER}`, so its clock is unknown",
                code="trace-gpu-clock",
                help="trace without the GPUs: `pipe.trace(gpu=False)`",
            )
        offset = marked_ns - _ns(marker["ts"] + marker["dur"] / 2)
        work = []
        launches = {}
        for event in events:
            args = event.get("args", {})
            category = event.get("cat", "")
            begin = offset + _ns(event["ts"])
            if category in _GPU_WORK:
                kept = {key: args[key] for key in _KEPT_ARGS if key in args}
                device, stream = int(args.get("device", event["pid"])), int(args.get("stream", event["tid"]))
                end = begin + _ns(event["dur"])
                number = args.get("correlation")
                work.append(Work(event["name"], category, device, stream, begin, end, number, kept))
            elif category in _LAUNCHERS and "correlation" in args:
                launches[args["correlation"]] = Launch(begin, int(event["tid"]))
        names = {device["id"]: device["name"] for device in content.get("deviceProperties", ())}
        return cls(work, launches, names)


def _ns(microseconds: float) -> int:
    # The product alone would lose the nanoseconds of a time since 1970.
    whole = int(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)


class GpuProfiler:
    """torch.profiler while a trace runs. Its end must come on the thread of its beginning."""

    def __init__(self, torch: Any) -> None:
        activity = torch.profiler.ProfilerActivity
        # The marker is work of the CPU, of which only that of this thread is recorded.
        # One cycle: there is nothing to clear, and without this torch warns that it would be.
        self._profile = torch.profiler.profile(activities=[activity.CPU, activity.CUDA], acc_events=True)
        self._thread = threading.get_ident()
        self._profile.start()
        for _ in range(_MOST_MARKERS):
            before = time.monotonic_ns()
            with torch.profiler.record_function(MARKER):
                pass
            after = time.monotonic_ns()
            if after - before <= _NEAR_NS:
                break
        self._marked_ns = (before + after) // 2  # of the last one

    @classmethod
    def start(cls) -> GpuProfiler | None:
        """Start it where there is a GPU that the program uses through torch."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return None
        try:
            return cls(torch)
        except RuntimeError as error:
            raise RequestError(
                f"the profiler of the GPUs cannot be started: {error}",
                code="trace-gpu-profiler",
                help="end the other profiler of torch, or trace with `gpu=False`",
            ) from error

    def check_may_stop(self) -> None:
        """Raise RequestError on another thread than the one that started it."""
        if threading.get_ident() != self._thread:
            raise RequestError(
                "the trace was started on another thread, and so was the profiler of the GPUs",
                code="trace-thread",
                help="stop it on the thread that started it, or start it with `gpu=False`",
            )

    def end(self) -> None:
        """End it without a look at what it saw."""
        self._profile.stop()

    def stop(self) -> GpuProfile:
        """End it, and return what it saw."""
        self.end()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "profile.json"
            self._profile.export_chrome_trace(str(path))
            return GpuProfile.of(json.loads(path.read_text(encoding="utf-8")), self._marked_ns)


def gpu_rows(timeline: Timeline, profile: GpuProfile) -> Iterator[Event]:
    """Yield a track for each stream of each GPU, and arrows from the runs that launched its work.

    What a stream does at the same time, as the branches of a CUDA graph, gets further tracks.
    """
    streams: dict[tuple[int, int], list[Work]] = {}
    for work in profile.work:
        if work.begin >= timeline.recording.begin:
            streams.setdefault((work.device, work.stream), []).append(work)
    for device in sorted({device for device, _ in streams}):
        name = profile.device_names.get(device)
        yield from process(FIRST_GPU + device, f"GPU {device}" + (f" ({name})" if name else ""))
    launchers = _Launchers(timeline)
    num_tracks = 0
    for (device, stream), works in sorted(streams.items()):
        for lane, row in enumerate(_rows(works)):
            num_tracks += 1
            place = {"pid": FIRST_GPU + device, "tid": num_tracks}
            name = f"stream {stream}" + (f" ({lane + 1})" if lane else "")
            yield metadata(place["pid"], num_tracks, "thread_name", name=name)
            for work in row:
                yield timeline.slice(work.begin, work.end, work.name, work.category, place, work.args)
                yield from _arrow(timeline, profile, work, place, launchers)


def _rows(works: Iterable[Work]) -> list[list[Work]]:
    rows: list[list[Work]] = []
    for work in sorted(works, key=lambda work: (work.begin, work.end)):
        free = next((row for row in rows if row[-1].end <= work.begin), None)
        if free is None:
            rows.append([work])
        else:
            free.append(work)
    return rows


def _arrow(
    timeline: Timeline, profile: GpuProfile, work: Work, place: Event, launchers: _Launchers
) -> Iterator[Event]:
    launch = None if work.correlation is None else profile.launches.get(work.correlation)
    run = None if launch is None else launchers.find(launch)
    if launch is None or run is None:
        return
    event = {"name": "launch", "cat": "gpu", "id": f"gpu {work.correlation}"}
    track = timeline.tracks[run.first.thread]
    yield timeline.at(launch.time, {**event, "ph": "s", **track.place})
    yield timeline.at(max(work.begin, launch.time), {**event, "ph": "f", "bp": "e", **place})


def _names_in_profiles(thread: Thread) -> set[int]:
    """Return what a profile may call a thread.

    Those that torch watches go by the kernel's id; any other by what CUPTI has, which is 32 bits of its POSIX
    handle, and Kineto writes without their sign.
    """
    low = thread.handle & 0xFFFF_FFFF
    return {thread.native_id, low if low < 1 << 31 else (1 << 32) - low}


class _Launchers:
    """The runs by the thread and the time in which they may have launched something."""

    def __init__(self, timeline: Timeline) -> None:
        names = {thread.number: _names_in_profiles(thread) for thread in timeline.recording.threads}
        self._runs: dict[int, list[Run]] = {}
        for run in sorted(timeline.runs.values(), key=lambda run: run.begin):
            for name in names[run.first.thread]:
                self._runs.setdefault(name, []).append(run)

    def find(self, launch: Launch) -> Run | None:
        """Return the run that was under way on that thread."""
        runs = self._runs.get(launch.thread, [])
        index = bisect_right(runs, launch.time, key=lambda run: run.begin) - 1
        if index < 0:
            return None
        run = runs[index]
        return run if run.end is None or launch.time <= run.end else None
