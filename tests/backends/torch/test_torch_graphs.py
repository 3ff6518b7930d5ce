"""Recordings of runs: which sizes there are, what is written where, and what becomes of one that fails.

CUDA is played by objects of this file, which record nothing and run the model again when they are replayed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from torch_samples import needs_gpu, normal, torch

from hami.backends.torch import cuda_graphs
from hami.backends.torch.cuda_graphs import MAX_TRIES, CudaGraphs, sizes_up_to

WAIT_S = 30


class Graph:
    """What `torch.cuda.CUDAGraph` is to its users."""

    def __init__(self) -> None:
        self.num_replays = 0

    def replay(self) -> None:
        self.num_replays += 1


class Stream:
    def synchronize(self) -> None:
        """Wait for nothing."""


class Recorder:
    """What `torch.cuda.graph` does: it lets the body run, unless it is told to fail."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.num_inside = self.most_inside = 0
        self.meets = threading.Event()

    @contextmanager
    def graph(self, graph: Graph, **options: Any) -> Iterator[None]:
        self.num_inside += 1
        self.most_inside = max(self.most_inside, self.num_inside)
        self.meets.wait(0.02)  # room for another one to come in, where nothing keeps it out
        try:
            yield
            if self.failures:
                raise RuntimeError(self.failures.pop())
        finally:
            self.num_inside -= 1


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "graph", found.graph)
    return found


class Model:
    """y = 2 x + 1 and the number of rows of each call."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        self.rows.append(tensors[0].shape[0])
        return [tensors[0] * 2 + 1]


def graphs_of(model: Model, most: int = 6) -> CudaGraphs:
    return CudaGraphs(model, torch.device("cpu"), most, copies_to_host=False)


# --- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (9, [1, 2, 4, 8, 9])]
)
def test_sizes_are_powers_of_two_and_the_most(most: int, sizes: list[int]) -> None:
    assert sizes_up_to(most) == sizes


def test_all_sizes_are_recorded_with_the_first_run(recorder: Recorder) -> None:
    model = Model()
    graphs = graphs_of(model)

    graphs.run([normal(3, 5)])
    after_first = len(model.rows)
    for rows in range(1, 7):
        assert graphs.run([normal(rows, 5)]) is not None

    assert set(model.rows) == {1, 2, 4, 6}
    assert len(model.rows) == after_first, "a later run recorded once more"


def test_a_run_uses_the_smallest_size_that_holds_its_rows(recorder: Recorder) -> None:
    graphs = graphs_of(Model())
    for rows in (1, 2, 3, 4, 5, 6):
        graphs.run([normal(rows, 5)])

    replays = {size: recording.graph.num_replays for (size, _), recording in graphs._recordings.items()}

    assert replays == {1: 1, 2: 1, 4: 2, 6: 2}


def test_more_rows_than_the_most_run_without(recorder: Recorder) -> None:
    assert graphs_of(Model()).run([normal(7, 5)]) is None


def test_the_outputs_are_the_rows_that_were_asked_for(recorder: Recorder) -> None:
    replayed = graphs_of(Model()).run([normal(3, 5)])

    assert replayed is not None
    ((output, copy),) = replayed
    assert output.shape == (3, 5) and copy is None


def test_a_new_shape_of_row_is_recorded_and_too_many_shapes_are_not(recorder: Recorder) -> None:
    graphs = graphs_of(Model(), most=2)

    for columns in range(1, cuda_graphs.MAX_SHAPES + 1):
        assert graphs.run([normal(2, columns)]) is not None

    assert graphs.run([normal(2, 99)]) is None
    assert graphs.run([normal(2, 1)]) is not None


# --- inputs ----------------------------------------------------------------------------------------


def test_the_rows_are_copied_to_where_the_kernels_read_them(recorder: Recorder) -> None:
    graphs, rows = graphs_of(Model()), normal(3, 5)
    graphs.run([rows])

    room = graphs.room_for(rows[0], 3)

    assert torch.equal(room, rows)


def test_what_was_written_there_is_not_copied_again(recorder: Recorder) -> None:
    graphs = graphs_of(Model())
    graphs.run([normal(3, 5)])
    room = graphs.room_for(normal(5), 3)
    version = room._version

    assert graphs.run([room]) is not None
    assert room._version == version


def test_there_is_no_room_before_the_first_run_and_for_other_rows(recorder: Recorder) -> None:
    graphs = graphs_of(Model())

    assert graphs.room_for(normal(5), 3) is None
    graphs.run([normal(3, 5)])
    assert graphs.room_for(normal(4), 3) is None
    assert graphs.room_for(normal(5).half(), 3) is None
    assert graphs.room_for(normal(5), 7) is None


def test_views_of_as_many_rows_are_made_once(recorder: Recorder) -> None:
    graphs = graphs_of(Model())
    first, second = (graphs.run([normal(3, 5)]) for _ in range(2))

    assert first is second


# --- failures --------------------------------------------------------------------------------------


def test_a_recording_that_others_ended_is_tried_again(recorder: Recorder) -> None:
    recorder.failures = ["operation failed due to a previous error during capture"]
    graphs = graphs_of(Model(), most=1)

    assert graphs.run([normal(1, 5)]) is not None or graphs.run([normal(1, 5)]) is not None


def test_a_model_that_cannot_be_recorded_runs_without_and_says_so(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.failures = ["operation not permitted when stream is capturing"] * (MAX_TRIES + 5)
    graphs = graphs_of(Model(), most=1)

    with caplog.at_level("WARNING", "hami.torch"):
        assert [graphs.run([normal(1, 5)]) for _ in range(MAX_TRIES + 2)] == [None] * (MAX_TRIES + 2)

    assert len(recorder.failures) == 5, "it was tried more often than MAX_TRIES"
    (record,) = caplog.records
    assert "cannot be recorded" in record.getMessage()


def test_another_error_of_a_recording_is_raised(recorder: Recorder) -> None:
    recorder.failures = ["the weights have gone"]

    with pytest.raises(RuntimeError, match="the weights have gone"):
        graphs_of(Model(), most=1).run([normal(1, 5)])


def test_a_model_that_hands_its_input_back_is_not_recorded(recorder: Recorder) -> None:
    graphs = CudaGraphs(lambda tensors: list(tensors), torch.device("cpu"), 4, copies_to_host=False)

    assert graphs.run([normal(2, 5)]) is None
    assert graphs.room_for(normal(5), 2) is None


def test_recordings_of_several_instances_take_turns(recorder: Recorder) -> None:
    graphs = [graphs_of(Model()) for _ in range(4)]
    threads = [threading.Thread(target=one.run, args=([normal(3, 5)],)) for one in graphs]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert recorder.most_inside == 1
    assert all(len(one._recordings) == 4 for one in graphs)


@needs_gpu
def test_instances_that_start_together_all_have_their_recordings() -> None:
    device = torch.device("cuda", 0)
    layer = torch.nn.Linear(64, 64).to(device)
    graphs = [
        CudaGraphs(lambda tensors: [layer(tensors[0])], device, 8, copies_to_host=True) for _ in range(6)
    ]
    rows = normal(5, 64).pin_memory()
    found: list[Any] = []

    def run(one: CudaGraphs) -> None:
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream), torch.inference_mode():
            replayed = one.run([rows])
            stream.synchronize()
            found.append(replayed)

    threads = [threading.Thread(target=run, args=(one,)) for one in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    expected = layer(rows.to(device)).detach().cpu()
    for replayed in found:
        ((_, copy),) = replayed
        assert torch.allclose(copy, expected, atol=1e-5)
    assert len(found) == 6
