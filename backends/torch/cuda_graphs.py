"""CUDA graphs per batch size: the kernels of a run recorded once and replayed with one call.

A run of n rows uses the smallest recorded size of at least n; sizes are powers of two, and the node's `max`.
Rows beyond n hold what an earlier run left there, and nobody sees what comes of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

# Each recorded shape keeps its activations in memory: models whose inputs come in more shapes run without
# graphs.
MAX_SHAPES = 4
# Lazy initialisation and the choice of kernels belong before the recording.
NUM_WARMUPS = 2
# What another thread does to the device may end a recording: that says nothing of the model.
MAX_TRIES = 3

# One recording at a time: it begins with waiting for the whole device, which CUDA forbids, and ends the other
# recording, while any thread records.
_recording = threading.Lock()

Shapes = tuple[torch.Size, ...]


# Outputs up to this size are copied to the host inside the recording, with rows that nobody asked for: that
# takes less time than a call.
MAX_BYTES_TO_HOST = 2**20

# The first rows of each output on the device, and of its copy on the host where the recording makes one.
Replayed = list[tuple[torch.Tensor, torch.Tensor | None]]


@dataclass(frozen=True)
class Recording:
    """One recorded size: the tensors that the kernels read and write, and views of their first rows."""

    graph: torch.cuda.CUDAGraph
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    on_host: list[torch.Tensor | None]
    views: dict[int, tuple[list[torch.Tensor], Replayed]] = field(default_factory=dict)

    def of_rows(self, rows: int) -> tuple[list[torch.Tensor], Replayed]:
        """Return the first rows of inputs and outputs. Made once: each slice would give the GIL away."""
        if rows not in self.views:
            pairs = zip(self.outputs, self.on_host, strict=True)
            outputs = [(one[:rows], None if copy is None else copy[:rows]) for one, copy in pairs]
            self.views[rows] = ([one[:rows] for one in self.inputs], outputs)
        return self.views[rows]


def sizes_up_to(most: int) -> list[int]:
    """Return the batch sizes that are recorded: 1, 2, 4, ... and `most`."""
    sizes = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return [*sizes, most]


class CudaGraphs:
    """The recordings of one instance; it is used on one thread at a time, in the instance's stream."""

    def __init__(
        self,
        call: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
        device: torch.device,
        most: int,
        copies_to_host: bool,
    ) -> None:
        self._call = call
        self._copies_to_host = copies_to_host
        self._device = device
        self._sizes = sizes_up_to(most)
        self._recordings: dict[tuple[int, Shapes], Recording] = {}
        self._shapes: set[Shapes] = set()
        self._is_off = False
        self._num_tries = 0

    def room_for(self, row: torch.Tensor, rows: int) -> torch.Tensor | None:
        """Return where the kernels read `rows` rows of a lone input, or None where that is not recorded yet.

        What is written there needs no copy in the `run` that follows.
        """
        if self._is_off:
            return None
        size = next((size for size in self._sizes if size >= rows), None)
        recording = None if size is None else self._recordings.get((size, (row.shape,)))
        if recording is None or recording.inputs[0].dtype != row.dtype:
            return None
        return recording.of_rows(rows)[0][0]

    def run(self, inputs: Sequence[torch.Tensor]) -> Replayed | None:
        """Return the outputs for inputs on the host or the device; None: run it without graphs.

        The outputs are memory that the next run overwrites. REQUIRES: axis 0 of all inputs counts the rows.
        """
        rows = inputs[0].shape[0]
        recording = None if self._is_off else self._find(inputs, rows)
        if recording is None:
            return None
        held, outputs = recording.of_rows(rows)
        for room, given in zip(held, inputs, strict=True):
            if given is not room:
                room.copy_(given, non_blocking=True)
        recording.graph.replay()
        return outputs

    def _find(self, inputs: Sequence[torch.Tensor], rows: int) -> Recording | None:
        shapes = tuple(one.shape[1:] for one in inputs)
        size = next((size for size in self._sizes if size >= rows), None)
        if size is None or (shapes not in self._shapes and len(self._shapes) >= MAX_SHAPES):
            return None
        if shapes not in self._shapes:
            self._shapes.add(shapes)
            # All sizes at once: recorded one by one, when each is first needed, they hold up later requests.
            for each in self._sizes:
                self._record_size(inputs, each, shapes)
        if (size, shapes) not in self._recordings:
            self._record_size(inputs, size, shapes)
        return self._recordings.get((size, shapes))

    def _record_size(self, inputs: Sequence[torch.Tensor], size: int, shapes: Shapes) -> None:
        recorded = None if self._is_off else self._record(inputs, size)
        if recorded is not None:
            self._recordings[size, shapes] = recorded

    def _record(self, inputs: Sequence[torch.Tensor], size: int) -> Recording | None:
        held = [one.new_zeros((size, *one.shape[1:]), device=self._device) for one in inputs]
        for tensor, given in zip(held, inputs, strict=True):
            tensor.copy_(given[-1:].expand_as(tensor), non_blocking=True)  # unlike zeros it is surely valid
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(self._device)
        try:
            for _ in range(NUM_WARMUPS):
                outputs = self._call(held)
            stream.synchronize()
            if all(_shares_memory(output, held) for output in outputs):
                self._switch_off("it hands its inputs back and launches no kernels")
                return None
            # Other instances go on allocating meanwhile, which only concerns their own threads.
            with _recording, torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                outputs = [output.detach().resolve_conj().resolve_neg() for output in self._call(held)]
                on_host = [self._host_copy(output) for output in outputs]
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            self._num_tries += 1
            if self._num_tries >= MAX_TRIES:
                self._switch_off(f"its kernels cannot be recorded: {str(error).splitlines()[0]}")
            return None
        if any(not output.shape or output.shape[0] != size for output in outputs):
            self._switch_off("an output does not have the rows of the input")
            return None
        return Recording(graph, held, outputs, on_host)

    def _host_copy(self, output: torch.Tensor) -> torch.Tensor | None:
        if not self._copies_to_host or output.numel() * output.element_size() > MAX_BYTES_TO_HOST:
            return None
        held = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)
        return held.copy_(output, non_blocking=True)

    def _switch_off(self, reason: str) -> None:
        self._is_off = True
        logging.getLogger("hami.torch").warning("the model runs without CUDA graphs: %s", reason)


def _shares_memory(output: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    return output.untyped_storage().data_ptr() in [one.untyped_storage().data_ptr() for one in inputs]
