"""Laws of what a timeline shows of a real GPU: its clock is ours, and its work hangs on who asked for it."""

from __future__ import annotations

from typing import Any

import pytest
from registries import clean_registry
from torch_samples import needs_gpu, torch
from trace_format import Event, checked_events, select

import hami
from hami.trace.timeline import FIRST_GPU

__all__ = ["clean_registry"]

pytestmark = needs_gpu

# How far the clocks of torch's profiler and of the core may lie apart.
SLACK_US = 100.0


@pytest.fixture
def events(clean_registry: None) -> list[Event]:
    """The timeline of three runs that multiply matrices on the GPU, and wait for it."""

    class TracedProduct(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                matrix = torch.full((1024, 1024), float(item["data"]), device="cuda")
                item["result"] = float((matrix @ matrix)[0, 0])

    hami.register("TracedProduct", TracedProduct)
    with hami.pipe({"work": {"backend": "TracedProduct"}}) as pipe:
        pipe({"data": 1})  # loads the libraries
        trace = pipe.trace()
        trace.start()
        assert [pipe({"data": number})["result"] for number in (1, 2, 3)] == [1024, 4096, 9216]
        return checked_events(trace)


def work_of_gpu(events: list[Event]) -> list[Event]:
    return [event for event in select(events, "X") if event["pid"] >= FIRST_GPU]


def test_kernels_and_copies_are_there(events: list[Event]) -> None:
    assert {"kernel", "gpu_memcpy"} <= {event["cat"] for event in work_of_gpu(events)}


def test_what_a_gpu_did_lies_inside_the_runs_that_waited_for_it(events: list[Event]) -> None:
    runs = [event for event in select(events, "X") if event["name"] == "python"]
    assert len(runs) == 3
    for work in work_of_gpu(events):
        begin, end = work["ts"] + SLACK_US, work["ts"] + work["dur"] - SLACK_US
        assert any(run["ts"] <= begin and end <= run["ts"] + run["dur"] for run in runs), work


def test_an_arrow_leads_to_each_kernel_from_the_run_that_launched_it(events: list[Event]) -> None:
    kernels = [event for event in work_of_gpu(events) if event["cat"] == "kernel"]
    arrows = [event for event in select(events, "s") if event.get("cat") == "gpu"]
    assert len(arrows) >= len(kernels) > 0
