"""`TorchInfer`: the engine of torch, on the CPU or on a GPU.

An instance is a stream: it copies in through pinned memory, runs, copies out, and waits, so that several
instances overlap and nobody after them has to know of streams.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from hami.backend import param, register
from hami.engine import MAX_ROWS, MIN_ROWS, Engine, TensorSpec
from hami.errors import BuildError, Error, RequestError

from .arrays import as_tensor
from .cuda_graphs import CudaGraphs
from .device import find_device
from .outputs import describe_outputs, select
from .ports import flat, parse_port
from .precision import converted
from .programs import Program, load_program, telling_line
from .stream import OnStreams, OwnStreams
from .threads import use_intra_op_threads

CUDA = 2  # DLPack's code of the device type

# The instances of a pipeline share the weights, and a function that makes a module is called once for all of
# them.
_lock = threading.Lock()
_programs: WeakKeyDictionary[Any, dict[tuple[Any, ...], Program]] = WeakKeyDictionary()


@register
class TorchInfer(Engine):
    """Run a model of torch: a module, TorchScript, a program of torch.export, or an AOTInductor package."""

    model = param(None, type="path", doc="a file of TorchScript, torch.export or AOTInductor")
    module = param("", doc="`package.module:attribute`: an nn.Module, or a function that returns one")
    weights = param(
        None, type="path", doc="a state dict for `module`: safetensors, or tensors saved by torch"
    )
    inputs = param(
        None, type="list", doc='"name:dtype[-1x3x224x224]" of each; a program of torch.export knows them'
    )
    outputs = param(
        None, type="list", doc="names of the outputs: a choice of those that have names, else all"
    )
    device = param("cpu", type="any", doc="`cpu`, `cuda`, or `cuda:1` for the second GPU")
    precision = param(
        "fp32", choices=["fp32", "fp16", "bf16"], doc="what the model computes in; floats outside are float32"
    )
    channels_last = param(False, doc="keep pictures in memory as the tensor cores of a GPU want them")
    cuda_graph = param(True, doc="on a GPU: record the kernels of each batch size once, and replay them")
    keep_on_device = param(False, doc="on a GPU: results stay there for the next backend")
    intra_op_threads = param(
        1, min=1, max=1024, doc="threads of one run on the CPU; several instances beat one wide run"
    )
    has_batch_axis = param(True, doc="whether axis 0 is the batch; false: every item runs alone, as it is")
    # Declared again, so that the model is the first argument.
    max = param(None, type="int", min=1, doc=MAX_ROWS)
    min = param(None, type="int", min=1, doc=MIN_ROWS)

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Load the model, describe it, and run it once. Raises BuildError for what does not fit."""
        self._device = find_device(self.device)
        self._streams = OwnStreams()
        self._graphs: CudaGraphs | None = None
        self._broken = ""
        self._thread = 0
        self._program = self._load()
        self.model_name = self._program.name
        self.inputs = self._describe_inputs()
        self.finds_rows = self.has_batch_axis
        self._suit_rows()
        with self._running():
            found = describe_outputs(self._program, self.inputs, self._most_rows())
        self._pick, self.outputs = select(found, self.outputs, self._program.name)
        if not self.has_batch_axis:
            self.outputs = [
                TensorSpec(one.name, one.dtype, one.shape, has_rows=False) for one in self.outputs
            ]
        if self._device.type == "cuda":
            self.array_device = (CUDA, self._device.index or 0)
            self.stages_inputs = True
            if (
                self.cuda_graph
                and self.has_batch_axis
                and all(spec.shape and spec.shape[0] == -1 for spec in self.inputs)
            ):
                self._graphs = CudaGraphs(
                    self._call, self._device, self._most_rows(), copies_to_host=not self.keep_on_device
                )

    def run(self, arrays: list[Any]) -> Sequence[Any]:
        """Run the model on host or device arrays; see hami.engine."""
        if threading.get_ident() != self._thread:
            use_intra_op_threads(self.intra_op_threads)
            self._thread = threading.get_ident()
        tensors = [as_tensor(array) for array in arrays]
        try:
            with self._running():
                replayed = None if self._graphs is None else self._graphs.run(tensors)
                if replayed is None:
                    outputs = self._call([one.to(self._device, non_blocking=True) for one in tensors])
                    replayed = [(one.detach().resolve_conj().resolve_neg(), None) for one in outputs]
                results = [self._take(output) if copy is None else copy for output, copy in replayed]
            if self.keep_on_device:
                return results
            arrays = [as_array(result) for result in results]
            # The recording's own copies are what the next run overwrites.
            return [
                array if copy is None else copied(array)
                for array, (_, copy) in zip(arrays, replayed, strict=True)
            ]
        except (MemoryError, Error):
            raise
        except Exception as error:
            raise self._explained(error) from error

    def join(self, parts: list[Any], num_rows: int) -> torch.Tensor:
        """Return device arrays joined along axis 0, the last row repeated up to `num_rows`.

        The copy may still be on its way: `run` follows in the same stream.
        """
        with self._running(is_waited_for=False):
            tensors = [as_tensor(part) for part in parts]
            missing = num_rows - sum(one.shape[0] for one in tensors)
            if missing > 0:
                tensors.append(tensors[-1][-1:].expand(missing, *tensors[-1].shape[1:]))
            return torch.cat(tensors)

    def stack(self, rows: list[Any], num_rows: int) -> torch.Tensor:
        """Return device arrays as the rows of one, the last repeated up to `num_rows`; see `join`."""
        with self._running(is_waited_for=False):
            tensors = [as_tensor(row) for row in rows]
            tensors += [tensors[-1]] * (num_rows - len(tensors))
            room = None
            if self._graphs is not None and len(self.inputs) == 1:
                room = self._graphs.room_for(tensors[0], num_rows)
            if room is None:
                return torch.stack(tensors)
            torch.stack(tensors, out=room)
            return room

    def staging(self, size_bytes: int) -> torch.Tensor:
        """Return pinned memory."""
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)

    def problem(self) -> str:
        """Say what keeps the GPU from working."""
        return self._broken

    # --- loading -------------------------------------------------------------------------------------

    def _load(self) -> Program:
        key = (self.model, self.module, self.weights, str(self._device), self.precision, self.channels_last)
        with _lock:
            known = _programs.setdefault(self.storage, {})
            if key in known:
                return known[key]
        # Without the lock: what is loaded may be code of the user, which may make pipelines of its own.
        loaded = load_program(self.model, self.module, self.weights, self._device)
        program = converted(loaded, self.precision, self.channels_last)
        if program.module is None:
            return program  # compiled: it runs one batch at a time
        with _lock:
            return known.setdefault(key, program)

    def _describe_inputs(self) -> list[TensorSpec]:
        texts = self.inputs
        if texts is None and self._program.inputs is None:
            raise BuildError(
                f"the model `{self._program.name}` does not say what its inputs are",
                code="model-inputs",
                help='describe them: `inputs = ["x:float32[-1x3x224x224]"]`',
            )
        described = self._program.inputs if texts is None else [parse_port(text) for text in texts]
        has_rows = bool(self.has_batch_axis)
        return [
            TensorSpec(one.name, one.dtype, one.shape, has_rows and one.has_rows) for one in described or ()
        ]

    def _suit_rows(self) -> None:
        """Keep `min` and `max` within what the model was exported for."""
        least, most = self._program.least_rows, self._program.most_rows
        if most is not None and self.max is not None and self.max > most:
            raise BuildError(
                f"`max` is `{self.max}`, but the model `{self._program.name}` was exported "
                f"for up to `{most}` rows",
                code="model-batch",
                help=f"set `max` to {most}, or export the model for more",
            )
        if self.has_batch_axis and least > 1:
            self.min = max(self.min or 1, least)

    def _most_rows(self) -> int:
        return int(self.max or self.min or 1)

    # --- running -------------------------------------------------------------------------------------

    def _running(self, is_waited_for: bool = True) -> Running:
        devices = [self._device]
        streams = self._streams
        return Running(streams.complete_on(devices) if is_waited_for else streams.started_on(devices))

    def _call(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return self._pick(*flat(self._program.call(*tensors)))

    def _take(self, output: torch.Tensor) -> torch.Tensor:
        """Return an output in memory of its own, where it is wanted; the copy may still be on its way.

        Whether the model keeps what it gave cannot be seen: it may be a weight, a state, or an input.
        """
        if output.is_cuda and not self.keep_on_device:
            held = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)
            return held.copy_(output, non_blocking=True)
        return output.clone(memory_format=torch.contiguous_format)

    def _explained(self, error: Exception) -> Exception:
        text = str(error)
        if isinstance(error, torch.OutOfMemoryError):
            return error
        if self._device.type == "cuda" and "CUDA error" in text:
            self._broken = f"the GPU has failed: {text.splitlines()[0]}"
            return error
        return RequestError(
            f"the model does not run on this input: {telling_line(error)}",
            code="engine-run",
            help="check the values and the shape against what the model was made for",
        )


class Running:
    """The surroundings of a run: no gradients, and the instance's own stream."""

    def __init__(self, on_stream: OnStreams) -> None:
        self._inference = torch.inference_mode()
        self._on_stream = on_stream

    def __enter__(self) -> None:
        self._inference.__enter__()
        self._on_stream.__enter__()

    def __exit__(self, *exception: Any) -> None:
        try:
            self._on_stream.__exit__(*exception)
        finally:
            self._inference.__exit__(*exception)


def as_array(tensor: torch.Tensor) -> Any:
    """Return a tensor of the CPU as numpy's array where numpy has its type, else as it is."""
    return tensor if tensor.dtype == torch.bfloat16 else tensor.numpy()


def copied(array: Any) -> Any:
    """Return a copy of what `as_array` gave."""
    return array.clone() if isinstance(array, torch.Tensor) else array.copy()
