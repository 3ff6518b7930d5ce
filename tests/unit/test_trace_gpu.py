"""Work of GPUs joins a timeline: the clocks, the tracks of streams, and who launched what.

No test here has a GPU: profiles are made by hand, and one comes from torch itself on the CPU, whose operators
then stand for kernels.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from trace_format import Event, select, track_name, violations
from trace_records import BEGIN, Row, one_request, recording_of

from hami.errors import RequestError
from hami.trace import gpu
from hami.trace.chrome import chrome_trace
from hami.trace.gpu import MARKER, GpuProfile, GpuProfiler

BASE_US = 1_700_000_000_000_000.0  # torch counts from 1970, or from a base of its own
MARKED_NS = 1_500  # by the monotonic clock, when torch says BASE_US + 1


def marker() -> Event:
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": MARKER,
        "ts": BASE_US,
        "dur": 2.0,
        "pid": 1,
        "tid": 1,
    }


def kernel(
    begin_ns: int, end_ns: int, *, stream: int = 7, device: int = 0, number: int = 1, **more: Any
) -> Event:
    """Return a kernel that torch would report for these times of the monotonic clock."""
    ts = BASE_US + 1 + (begin_ns - MARKED_NS) / 1000
    args = {"device": device, "stream": stream, "correlation": number, "grid": [1, 2, 3], "other": "left out"}
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": ts, "dur": (end_ns - begin_ns) / 1000}
    return {**event, "pid": device, "tid": stream, "args": args, **more}


def launch(time_ns: int, thread: int, number: int = 1, **more: Any) -> Event:
    ts = BASE_US + 1 + (time_ns - MARKED_NS) / 1000
    event = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts, "dur": 1.0}
    return {**event, "pid": 1, "tid": thread, "args": {"correlation": number}, **more}


def profile_of(*events: Event) -> GpuProfile:
    content = {
        "traceEvents": [{"ph": "M", "name": "process_name"}, marker(), *events],
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
    }
    return GpuProfile.of(content, MARKED_NS)


def events_with(profile: GpuProfile, *threads: list[Row]) -> list[Event]:
    events: list[Event] = chrome_trace(recording_of(*threads), {}, profile)["traceEvents"]
    assert violations(events) == []
    return events


def near(event: Event, begin_ns: int) -> bool:
    """Say whether an event begins there; the numbers of torch are right to a quarter of a microsecond."""
    return abs(event["ts"] * 1000 + BEGIN - begin_ns) <= 250


def test_the_clock_of_torch_becomes_that_of_the_recording() -> None:
    [work] = profile_of(kernel(2_550, 3_050)).work

    assert abs(work.begin - 2_550) <= 250
    assert work.end - work.begin == 500


def test_nanoseconds_survive_small_times() -> None:
    content = {
        "traceEvents": [
            {**marker(), "ts": 10.0},
            {"ph": "X", "cat": "kernel", "name": "k", "ts": 12.345, "dur": 0.678, "pid": 0, "tid": 7},
        ]
    }

    [work] = GpuProfile.of(content, 11_000).work

    assert (work.begin, work.end) == (12_345, 13_023)
    assert (work.device, work.stream, work.correlation) == (0, 7, None)


def test_of_several_markers_the_last_one_counts() -> None:
    later = {**marker(), "ts": BASE_US + 500}
    work = {"ph": "X", "cat": "kernel", "name": "k", "ts": BASE_US + 502, "dur": 1.0, "pid": 0, "tid": 7}

    [found] = GpuProfile.of({"traceEvents": [later, work, marker()]}, MARKED_NS).work

    assert abs(found.begin - (MARKED_NS + 1_000)) <= 250


def test_a_profile_without_the_marker_is_refused() -> None:
    with pytest.raises(RequestError, match=r"no event `hami.trace.clock`") as caught:
        GpuProfile.of({"traceEvents": []}, 0)

    assert caught.value.code == "trace-gpu-clock"
    assert "gpu=False" in caught.value.help


def test_a_stream_is_a_track_of_its_gpu() -> None:
    events = events_with(profile_of(kernel(2_600, 2_800)))

    [work] = select(events, "X", "gemm")
    assert near(work, 2_600)
    assert track_name(events, work) == "stream 7"
    assert work["args"] == {"stream": 7, "grid": [1, 2, 3]}
    [name] = [
        event["args"]["name"] for event in select(events, "M", "process_name") if event["pid"] == work["pid"]
    ]
    assert name == "GPU 0 (NVIDIA H200)"


def test_copies_and_fills_are_work_and_operators_of_the_cpu_are_not() -> None:
    events = [
        kernel(2_600, 2_700, cat="gpu_memcpy", name="Memcpy HtoD"),
        kernel(2_700, 2_750, cat="gpu_memset", name="Memset"),
        kernel(2_600, 2_900, cat="cpu_op", name="aten::mm"),
    ]

    assert [work.name for work in profile_of(*events).work] == ["Memcpy HtoD", "Memset"]


def test_what_a_stream_does_at_once_has_tracks_beside_each_other() -> None:
    events = events_with(profile_of(kernel(20_000, 40_000), kernel(30_000, 50_000, number=2)))

    tracks = {track_name(events, work) for work in select(events, "X", "gemm")}
    assert tracks == {"stream 7", "stream 7 (2)"}


def test_streams_of_several_gpus_do_not_share_tracks() -> None:
    events = events_with(profile_of(kernel(20_000, 40_000), kernel(20_000, 40_000, device=1, number=2)))

    first, second = select(events, "X", "gemm")
    assert first["pid"] != second["pid"]
    assert {"GPU 0 (NVIDIA H200)", "GPU 1"} <= {
        event["args"]["name"] for event in select(events, "M", "process_name")
    }


def test_work_from_before_the_recording_is_left_out() -> None:
    assert select(events_with(profile_of(kernel(-90_000, -80_000))), "X", "gemm") == []


def long_run() -> tuple[list[Row], list[Row]]:
    """Return a request whose run lasts from 20 to 60 microseconds, on thread 102."""
    caller, instance = one_request()

    def late(one: Row) -> Row:
        stretched = [time if time < 2_500 else (time - 2_500) * 100 + 20_000 for time in one[4:6]]
        return (*one[:4], *stretched, *one[6:])

    return [late(one) for one in caller], [late(one) for one in instance]


def test_an_arrow_leads_from_the_run_that_launched_to_the_kernel() -> None:
    events = events_with(profile_of(kernel(40_000, 50_000), launch(30_000, 102)), *long_run())

    [begin] = [event for event in events if event["ph"] == "s" and event["cat"] == "gpu"]
    [end] = [event for event in events if event["ph"] == "f" and event["cat"] == "gpu"]
    [run] = select(events, "X", "decode")
    assert (begin["pid"], begin["tid"]) == (run["pid"], run["tid"])
    assert near(begin, 30_000)
    assert near(end, 40_000)


@pytest.mark.parametrize("thread", [102, 0x8000_0000 - 2], ids=["the kernel's id", "the handle in 32 bits"])
def test_a_thread_is_known_by_each_of_its_names(thread: int) -> None:
    driver = launch(30_000, thread, cat="cuda_driver", name="cuLaunchKernel")

    events = events_with(profile_of(kernel(40_000, 50_000), driver), *long_run())

    assert len([event for event in events if event["ph"] == "s" and event["cat"] == "gpu"]) == 1


@pytest.mark.parametrize(
    ("time_ns", "native_id"),
    [(30_000, 999), (10_000, 102), (90_000, 102)],
    ids=["another thread", "before the run", "after the run"],
)
def test_work_that_no_run_launched_has_no_arrow(time_ns: int, native_id: int) -> None:
    events = events_with(profile_of(kernel(95_000, 96_000), launch(time_ns, native_id)), *long_run())

    assert len(select(events, "X", "gemm")) == 1
    assert [event for event in events if event.get("cat") == "gpu"] == []


# --- the profiler of torch ---


class FakeProfile:
    """Stands in for torch.profiler.profile: exports what it is told."""

    exported: ClassVar[dict[str, Any]] = {"traceEvents": []}

    def __init__(self, activities: list[str], *, acc_events: bool) -> None:
        self.activities = activities
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_text(json.dumps(self.exported), encoding="utf-8")


class FakeAnnotation:
    def __init__(self, name: str) -> None:
        assert name == MARKER

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


Install = Callable[..., None]


@pytest.fixture
def torch_with(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that puts a torch in place, with or without a GPU."""

    def install(has_gpu: bool, profile: Any = FakeProfile) -> None:
        activity = types.SimpleNamespace(CPU="cpu", CUDA="cuda")
        fake = types.SimpleNamespace(
            cuda=types.SimpleNamespace(is_available=lambda: has_gpu),
            profiler=types.SimpleNamespace(
                profile=profile, ProfilerActivity=activity, record_function=FakeAnnotation
            ),
        )
        monkeypatch.setitem(sys.modules, "torch", fake)

    return install


def test_without_torch_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)

    assert GpuProfiler.start() is None
    assert "torch" not in sys.modules


def test_without_a_gpu_nothing_is_profiled(torch_with: Install) -> None:
    torch_with(has_gpu=False)

    assert GpuProfiler.start() is None


def test_the_profile_is_that_of_the_time_between_start_and_stop(
    torch_with: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_with(has_gpu=True)
    readings = iter([1_000, 2_000])
    monkeypatch.setattr(gpu.time, "monotonic_ns", lambda: next(readings))
    exported = {"traceEvents": [marker(), kernel(2_550, 3_050)]}
    monkeypatch.setattr(FakeProfile, "exported", exported)

    profiler = GpuProfiler.start()
    assert profiler is not None
    [work] = profiler.stop().work

    assert abs(work.begin - 2_550) <= 250  # the marker was set between 1000 and 2000: at 1500
    assert profiler._profile.activities == ["cpu", "cuda"]
    assert profiler._profile.calls == ["start", "stop"]


def test_a_profiler_that_runs_already_is_an_error(torch_with: Install) -> None:
    class Busy(FakeProfile):
        def start(self) -> None:
            raise RuntimeError("Profiler is already enabled on this thread")

    torch_with(has_gpu=True, profile=Busy)

    with pytest.raises(RequestError, match="already enabled on this thread") as caught:
        GpuProfiler.start()

    assert caught.value.code == "trace-gpu-profiler"


def test_the_profiler_ends_on_the_thread_of_its_start(torch_with: Install) -> None:
    torch_with(has_gpu=True)
    profiler = GpuProfiler.start()
    assert profiler is not None
    profiler.check_may_stop()
    raised: list[RequestError] = []

    def elsewhere() -> None:
        try:
            profiler.check_may_stop()
        except RequestError as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert [error.code for error in raised] == ["trace-thread"]


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_profile_of_torch_itself_is_read_at_the_right_time() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    profiler = GpuProfiler(torch)
    before = time.monotonic_ns()
    torch.ones(64, 64) @ torch.ones(64, 64)
    after = time.monotonic_ns()
    exported: dict[str, Any] = {}

    def keep(path: str) -> None:
        export(path)
        exported.update(json.loads(Path(path).read_text(encoding="utf-8")))

    export = profiler._profile.export_chrome_trace
    profiler._profile.export_chrome_trace = keep
    profile = profiler.stop()

    assert profile.work == []  # nothing ran on a GPU
    # On the CPU the operators stand for kernels.
    for event in exported["traceEvents"]:
        if event.get("name") == "aten::mm":
            event["cat"] = "kernel"
            event["args"] = {"device": 0, "stream": 7}
    [work] = GpuProfile.of(exported, profiler._marked_ns).work
    tolerance_ns = 200_000
    assert before - tolerance_ns <= work.begin <= work.end <= after + tolerance_ns
