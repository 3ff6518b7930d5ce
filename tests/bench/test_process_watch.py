"""Laws of `ProcessWatch`: what it adds up, and that whatever cannot be read is None."""

from __future__ import annotations

import subprocess
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

from hami.bench.process_watch import ProcessWatch


class FakeNvml(types.ModuleType):
    """NVML with two GPUs, whose figures a test sets."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.uses = [0, 0]
        self.used = [0, 0]
        self.is_broken = False

    def nvmlInit(self) -> None:  # noqa: N802  its own name
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.uses)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index >= len(self.uses):
            raise self.NVMLError("invalid argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:  # noqa: N802
        return {"GPU-a": 0, "GPU-b": 1}[name]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if self.is_broken:
            raise self.NVMLError("not supported")
        return types.SimpleNamespace(gpu=self.uses[handle])

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return types.SimpleNamespace(used=self.used[handle])


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Stand in for NVML and its driver."""
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that this one has started, with 64 MiB of its own."""
    code = "import sys; held = b'x' * (64 << 20); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.communicate()


def test_a_process_that_computes_uses_about_a_core() -> None:
    pytest.importorskip("psutil", reason="psutil is not installed")
    watch = ProcessWatch()
    start_s, cpu_s = time.monotonic(), time.process_time()
    while time.process_time() - cpu_s < 0.1:
        pass
    elapsed_s = time.monotonic() - start_s

    figures = watch.figures()

    # The clock of psutil has a resolution of 10 ms.
    assert figures["cpu_cores"] == pytest.approx(0.1 / elapsed_s, rel=0.5)


def test_memory_is_that_of_all_processes_it_started(worker: subprocess.Popen[bytes]) -> None:
    psutil = pytest.importorskip("psutil", reason="psutil is not installed")
    own = psutil.Process().memory_info().rss

    figures = ProcessWatch().figures()

    assert figures["peak_memory_bytes"] > own * 0.9 + (64 << 20)


def test_without_psutil_processor_and_memory_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)

    figures = ProcessWatch().figures()

    assert (figures["cpu_cores"], figures["peak_memory_bytes"]) == (None, None)


def test_the_gpus_are_averaged_and_the_most_memory_is_kept(nvml: FakeNvml) -> None:
    watch = ProcessWatch()
    nvml.uses, nvml.used = [100, 50], [3000, 1000]
    watch.look()
    nvml.uses, nvml.used = [0, 50], [2000, 1000]

    figures = watch.figures()

    assert figures["gpu_use"] == pytest.approx(0.5)
    assert figures["gpu_memory_bytes"] == 4000


@pytest.mark.parametrize(
    ("names", "use"), [("1", 0.8), ("GPU-b", 0.8), ("0,1", 0.5), ("", None), ("7", None)]
)
def test_only_visible_gpus_are_looked_at(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, names: str, use: float | None
) -> None:
    nvml.uses = [20, 80]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)

    assert ProcessWatch().figures()["gpu_use"] == (None if use is None else pytest.approx(use))


def test_a_gpu_that_cannot_be_read_is_none(nvml: FakeNvml) -> None:
    nvml.is_broken = True

    figures = ProcessWatch().figures()

    assert (figures["gpu_use"], figures["gpu_memory_bytes"]) == (None, None)


def test_without_nvml_the_gpu_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    figures = ProcessWatch().figures()

    assert (figures["gpu_use"], figures["gpu_memory_bytes"]) == (None, None)
