"""CUDA graphs per batch size: the kernels of a run recorded once and replayed with one call.

A run of n rows uses the smallest recorded size of at least n; sizes are powers of two, and the node's `max`.
Rows beyond n hold what an earlier run left there, and nobody sees what comes of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

# Each recorded shape keeps its activations in memory: models whose inputs come in more shapes run without
# graphs.
MAX_SHAPES = 4
# Lazy initialisation and the choice of kernels belong before the recording.
NUM_WARMUPS = 2

Shapes = tuple[torch.Size, ...]


@dataclass(frozen=True)
class Recording:
    """One recorded size: the tensors that the kernels read and write."""

    graph: torch.cuda.CUDAGraph
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]


def sizes_up_to(most: int) -> list[int]:
    """Return the batch sizes that are recorded: 1, 2, 4, ... and `most`."""
    sizes = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return [*sizes, most]


class CudaGraphs:
    """The recordings of one instance; it is used on one thread at a time, in the instance's stream."""

    def __init__(
        self, call: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]], device: torch.device, most: int
    ) -> None:
        self._call = call
        self._device = device
        self._sizes = sizes_up_to(most)
        self._recordings: dict[tuple[int, Shapes], Recording] = {}
        self._shapes: set[Shapes] = set()
        self._is_off = False

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """Return the outputs for inputs on the host or the device; None: run it without graphs.

        The outputs are memory that the next run overwrites. REQUIRES: axis 0 of all inputs counts the rows.
        """
        rows = inputs[0].shape[0]
        recording = None if self._is_off else self._find(inputs, rows)
        if recording is None:
            return None
        for held, given in zip(recording.inputs, inputs, strict=True):
            held[:rows].copy_(given, non_blocking=True)
        recording.graph.replay()
        return [output[:rows] for output in recording.outputs]

    def _find(self, inputs: Sequence[torch.Tensor], rows: int) -> Recording | None:
        shapes = tuple(one.shape[1:] for one in inputs)
        size = next((size for size in self._sizes if size >= rows), None)
        if size is None or (shapes not in self._shapes and len(self._shapes) >= MAX_SHAPES):
            return None
        self._shapes.add(shapes)
        if (size, shapes) not in self._recordings:
            recorded = self._record(inputs, size)
            if recorded is None:
                return None
            self._recordings[size, shapes] = recorded
        return self._recordings[size, shapes]

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
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                outputs = self._call(held)
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            self._switch_off(f"its kernels cannot be recorded: {str(error).splitlines()[0]}")
            return None
        if any(not output.shape or output.shape[0] != size for output in outputs):
            self._switch_off("an output does not have the rows of the input")
            return None
        return Recording(graph, held, outputs)

    def _switch_off(self, reason: str) -> None:
        self._is_off = True
        logging.getLogger("hami.torch").warning("the model runs without CUDA graphs: %s", reason)


def _shares_memory(output: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    return output.untyped_storage().data_ptr() in [one.untyped_storage().data_ptr() for one in inputs]
