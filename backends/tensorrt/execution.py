"""Running an engine: one `Execution` is what one instance has, its own stream, contexts, memory and graphs.

Shapes that come again are recorded as a CUDA graph, each on a context of its own, because a recorded context
must not change; the contexts of an instance share their working memory, since its runs follow one another on
one stream. An Execution is used by one thread at a time, a LoadedEngine by any number.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from hami.errors import BuildError, RequestError

from . import cuda
from .device_array import DeviceArray, view
from .kernels import KernelCache
from .package import Package, find_package, log
from .plan import ELEMENT_TYPES, Description, EnginePlan, describe
from .shapes import Port, Profile, Shape, show

GRAPHS_KEPT = 32
SHAPES_REMEMBERED = 1024

_loading = threading.Lock()
_loaded: WeakValueDictionary[tuple[str, str], LoadedEngine] = WeakValueDictionary()


@dataclass(eq=False)
class LoadedEngine:
    """A deserialised engine with its weights on the card, shared by all instances in the process."""

    package: Package
    runtime: Any = field(repr=False)
    engine: Any = field(repr=False)
    description: Description
    kernels: KernelCache | None = None
    # TensorRT-RTX compiles while it runs, and contexts of one engine must not do so at once; full TensorRT
    # needs no turns. Only the launch is a turn, not the work on the card. Reentrant, since the garbage
    # collector may close an instance inside the turn of another.
    turn: contextlib.AbstractContextManager[Any] = field(default_factory=contextlib.nullcontext, repr=False)


def load_engine(
    plan: EnginePlan, wanted_package: str | None = None, folder: Path | None = None
) -> LoadedEngine:
    """Put an engine on the card, once for each plan. Raises BuildError.

    `folder` keeps the kernels that are compiled for it, where this TensorRT does so.
    """
    with _loading:
        package = find_package(wanted_package or plan.package)
        refuse_foreign(plan, package)
        known = _loaded.get((package.name, plan.digest))
        if known is None:
            known = _loaded[package.name, plan.digest] = _deserialize(plan, package, folder)
        return known


def refuse_foreign(plan: EnginePlan, package: Package) -> None:
    """Refuse a plan of another TensorRT than the one here, where the plan says which it is of."""
    is_lean = package.name == "tensorrt_lean" and plan.package == "tensorrt"
    if not plan.package or is_lean or (plan.package, plan.version) == (package.name, package.version):
        return
    raise BuildError(
        f"`{plan.source}` was built by `{plan.package}` `{plan.version}`, here is `{package.name}` "
        f"`{package.version}`",
        code="tensorrt-engine-version",
        help="build it again from the ONNX file, or install that version",
    )


def _deserialize(plan: EnginePlan, package: Package, folder: Path | None) -> LoadedEngine:
    name, capability = cuda.card()
    trt = package.module
    with package.collect() as said:
        try:
            runtime = trt.Runtime(package.logger)
        except TypeError as error:  # how the bindings say that the library made none
            raise BuildError(
                f"`{package.name}` cannot run on `{name}`: {said.reason}",
                code="tensorrt-device",
                help="use a TensorRT and a driver that fit the card",
            ) from error
        engine = runtime.deserialize_cuda_engine(plan.blob)
        if engine is None:
            raise BuildError(
                f"`{plan.source}` cannot be loaded on `{name}` (`{capability}`): {said.reason}",
                code="tensorrt-engine-file",
                help="build it again with this TensorRT for this card",
            )
    log.info("loaded `%s` on `%s`", plan.source, name)
    kernels = None
    if folder is not None and hasattr(trt, "IRuntimeCache"):
        kernels = KernelCache(engine.create_runtime_config(), folder / f"{plan.digest[:32]}.kernels")
    description = plan.description or _describe_engine(trt, engine, plan)
    turn = threading.RLock() if hasattr(trt, "IRuntimeCache") else contextlib.nullcontext()
    return LoadedEngine(package, runtime, engine, description, kernels, turn)


def _describe_engine(trt: Any, engine: Any, plan: EnginePlan) -> Description:
    """Return what an engine that came without a description says about itself."""
    inputs: list[tuple[Port, str]] = []
    outputs: list[tuple[Port, str]] = []
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        dtype = ELEMENT_TYPES.get(engine.get_tensor_dtype(name).name)
        if dtype is None or engine.is_shape_inference_io(name):
            raise BuildError(
                f"`{name}` of `{plan.source}` is no array of data",
                code="tensorrt-port",
                help="export the model with arrays of plain numbers as inputs and outputs",
            )
        port = Port(name, tuple(engine.get_tensor_shape(name)))
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        (inputs if is_input else outputs).append((port, dtype))
    profiles = []
    for index in range(engine.num_optimization_profiles):
        shapes = {
            port.name: tuple(tuple(shape) for shape in engine.get_tensor_profile_shape(port.name, index))
            for port, _ in inputs
        }
        profiles.append(_profile_of(shapes, describe(inputs, outputs, ())))
    return describe(inputs, outputs, profiles)


def _profile_of(shapes: dict[str, Any], description: Description) -> Profile:
    counted = [spec.name for spec in description.inputs if spec.has_rows]
    if description.fixed_rows is not None or not counted:
        return Profile(shapes, 1, description.fixed_rows or 1)
    return Profile(shapes, shapes[counted[0]][0][0], shapes[counted[0]][2][0])


@dataclass
class _Recording:
    """One shape's context and graph."""

    context: Any
    graph: cuda.Graph
    output_shapes: list[Shape]


class Execution:
    """One instance of an engine on one of its optimization profiles."""

    def __init__(self, loaded: LoadedEngine, profile_index: int, *, use_graphs: bool = True) -> None:
        self.loaded = loaded
        self.profile_index = profile_index
        self.profile = loaded.description.profiles[profile_index]
        self.use_graphs = use_graphs
        self.num_seen: OrderedDict[tuple[Shape, ...], int] = OrderedDict()
        self.recordings: OrderedDict[tuple[Shape, ...], _Recording | None] = OrderedDict()
        self.stream = cuda.Stream()
        size_bytes = loaded.engine.get_device_memory_size_for_profile_v2(profile_index)
        self.working_memory = cuda.DeviceMemory(size_bytes)
        self.inputs = [spec.name for spec in loaded.description.inputs]
        self.outputs = [spec.name for spec in loaded.description.outputs]
        with loaded.turn:
            self.config = self._make_config(for_recording=False)
            self.recording_config = self._make_config(for_recording=True)
            self.context = self._make_context(self.config)
            self.memory = self._allocate()
            self.results = {name: cuda.PinnedMemory(self.memory[name].size_bytes) for name in self.outputs}
            self._bind(self.context)
            self._warm_up()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Drop the contexts before what they use: TensorRT does not count references."""
        with self.loaded.turn:
            for name in ("recordings", "context", "recording_config", "config"):
                self.__dict__.pop(name, None)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Run the engine on one array for each input; return one of the CPU for each output."""
        views = [self._view(array) for array in arrays]
        shapes = tuple(found.shape for found in views)
        with self.loaded.turn:
            recording = self._recording_for(shapes)
            # before anything is copied: only shapes within the profile fit into the memory
            output_shapes = recording.output_shapes if recording else self._set_shapes(self.context, shapes)
            for name, found in zip(self.inputs, views, strict=True):
                cuda.copy(self.memory[name].address, found.address, found.size_bytes, self.stream)
            if recording is None:
                self._enqueue(self.context)
            else:
                recording.graph.launch(self.stream)
        return self._fetch(output_shapes)

    def join(self, parts: Sequence[Any], num_rows: int) -> DeviceArray:
        """Return device arrays one after another along axis 0, the last row repeated up to `num_rows`."""
        views = [view(part, self.stream.address) for part in parts]
        row_bytes = views[0].size_bytes // max(views[0].shape[0], 1)
        memory = cuda.DeviceMemory(row_bytes * num_rows)
        at = 0
        for found in views:
            cuda.copy(memory.address + at, found.address, found.size_bytes, self.stream)
            at += found.size_bytes
        last = views[-1].address + views[-1].size_bytes - row_bytes
        while at < row_bytes * num_rows:
            cuda.copy(memory.address + at, last, row_bytes, self.stream)
            at += row_bytes
        self.stream.wait()  # the parts are given back to their owners now
        first = views[0]
        shape = (num_rows, *first.shape[1:])
        return DeviceArray(memory.address, shape, first.dtype, first.itemsize, True, owner=memory)

    def _view(self, array: Any) -> DeviceArray:
        if not isinstance(array, np.ndarray):
            return view(array, self.stream.address)
        dtype, size = array.dtype.name, array.dtype.itemsize
        return DeviceArray(array.ctypes.data, array.shape, dtype, size, False, owner=array)

    def _make_config(self, *, for_recording: bool) -> Any:
        """Return how contexts are made. It must live longer than they: TensorRT keeps no reference to it."""
        trt = self.loaded.package.module
        config = self.loaded.engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
        if self.loaded.kernels is not None:
            config.set_runtime_cache(self.loaded.kernels.cache)
        if for_recording and hasattr(trt, "DynamicShapesKernelSpecializationStrategy"):
            # a graph keeps the kernels it was recorded with: the ones for this shape must be there by then
            eager = trt.DynamicShapesKernelSpecializationStrategy.EAGER
            config.dynamic_shapes_kernel_specialization_strategy = eager
        return config

    def _make_context(self, config: Any) -> Any:
        """Return a context on the instance's profile and working memory."""
        with self.loaded.package.collect() as said:
            context = self.loaded.engine.create_execution_context(config)
            if context is None:
                raise BuildError(
                    f"TensorRT cannot make a context: {said.reason}",
                    code="tensorrt-device",
                    help="free memory of the card: fewer instances, or a smaller `max`",
                )
            context.set_device_memory(self.working_memory.address, self.working_memory.size_bytes)
            if not context.set_optimization_profile_async(self.profile_index, self.stream.address):
                raise BuildError(
                    f"TensorRT refuses profile `{self.profile_index}`: {said.reason}",
                    code="tensorrt-profile",
                    help="build the engine again",
                )
            self.stream.wait()
        return context

    def _allocate(self) -> dict[str, cuda.DeviceMemory]:
        """Return memory for each input and output at the profile's largest shapes."""
        largest = [self.profile.shapes[name][2] for name in self.inputs]
        self._set_shapes(self.context, largest)
        sizes = {}
        specs = {spec.name: spec for spec in self.loaded.description.inputs}
        for name, shape in zip(self.inputs, largest, strict=True):
            sizes[name] = int(np.prod(shape, dtype=np.int64)) * _storage(specs[name].dtype).itemsize
        for name in self.outputs:
            sizes[name] = self.context.get_max_output_size(name)
        return {name: cuda.DeviceMemory(size) for name, size in sizes.items()}

    def _bind(self, context: Any) -> None:
        for name, memory in self.memory.items():
            context.set_tensor_address(name, memory.address)

    def _warm_up(self) -> None:
        """Run once on zeros, so that what a first run prepares does not fall on the first request."""
        for name in self.inputs:
            cuda.fill_with_zeros(self.memory[name], self.stream)
        self._set_shapes(self.context, [self.profile.shapes[name][2] for name in self.inputs])
        self._enqueue(self.context)
        self.stream.wait()
        self.save_kernels()

    def save_kernels(self) -> None:
        """Keep the kernels that were compiled so far for the next start."""
        if self.loaded.kernels is not None:
            self.loaded.kernels.save()

    def _set_shapes(self, context: Any, shapes: Sequence[Shape]) -> list[Shape]:
        """Tell a context the shapes of the inputs; return those of the outputs."""
        for name, shape in zip(self.inputs, shapes, strict=True):
            least, _, most = self.profile.shapes[name]
            is_inside = len(shape) == len(most) and all(
                low <= extent <= high for low, extent, high in zip(least, shape, most, strict=True)
            )
            if not is_inside or not context.set_input_shape(name, shape):
                raise RequestError(
                    f"input `{name}` is `{show(shape)}`, the engine takes `{show(least)}` to `{show(most)}`",
                    code="tensorrt-shape",
                    help="send arrays within the engine's `min` and `max`, or build it with wider ones",
                )
        output_shapes = [tuple(context.get_tensor_shape(name)) for name in self.outputs]
        for name, shape in zip(self.outputs, output_shapes, strict=True):
            if any(extent < 0 for extent in shape):
                raise BuildError(
                    f"the shape of output `{name}` depends on the values of the inputs",
                    code="tensorrt-port",
                    help="pad it to a fixed length inside the model, or run the model with `OnnxInfer`",
                )
        return output_shapes

    def _enqueue(self, context: Any) -> None:
        with self.loaded.package.collect() as said:
            if not context.execute_async_v3(self.stream.address):
                raise cuda.CudaError(f"TensorRT did not run: {said.reason}")

    def _fetch(self, shapes: Sequence[Shape]) -> list[Any]:
        """Wait for the outputs and return copies of them."""
        found = []
        for spec, shape in zip(self.loaded.description.outputs, shapes, strict=True):
            pinned = self.results[spec.name]
            dtype = _storage(spec.dtype)
            size_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            cuda.copy(pinned.address, self.memory[spec.name].address, size_bytes, self.stream)
            found.append(pinned.array[:size_bytes].view(dtype).reshape(shape))
        self.stream.wait()
        copies = [array.copy() for array in found]
        return [
            copy if spec.dtype != "bfloat16" else _as_bfloat16(copy)
            for spec, copy in zip(self.loaded.description.outputs, copies, strict=True)
        ]

    def _recording_for(self, shapes: tuple[Shape, ...]) -> _Recording | None:
        """Return the graph of these shapes, recorded when they come for the third time."""
        if not self.use_graphs:
            return None
        if shapes in self.recordings:
            self.recordings.move_to_end(shapes)
            return self.recordings[shapes]
        count = self.num_seen[shapes] = self.num_seen.pop(shapes, 0) + 1
        if len(self.num_seen) > SHAPES_REMEMBERED:
            self.num_seen.popitem(last=False)
        if count < 3:
            return None
        del self.num_seen[shapes]
        recording = self.recordings[shapes] = self._record(shapes)
        if len(self.recordings) > GRAPHS_KEPT:
            self.recordings.popitem(last=False)
        return recording

    def _record(self, shapes: tuple[Shape, ...]) -> _Recording | None:
        """Record a run, or return None where TensorRT does something that no graph holds."""
        try:
            context = self._make_context(self.recording_config)
            self._bind(context)
            output_shapes = self._set_shapes(context, shapes)
            self._enqueue(context)  # what a context prepares at its first run is not to be part of the graph
            self.stream.wait()
            if hasattr(context, "is_stream_capturable") and not context.is_stream_capturable(
                self.stream.address
            ):
                return None
            with self.stream.capture() as graph:
                self._enqueue(context)
            return _Recording(context, graph(), output_shapes)
        except (cuda.CudaError, BuildError) as error:
            log.info("runs of %s are not recorded: %s", ", ".join(map(show, shapes)), error)
            return None


def _storage(dtype: str) -> np.dtype[Any]:
    """Return the type of numpy in whose arrays elements lie: bfloat16, which it lacks, as 16 bits."""
    return np.dtype(np.uint16 if dtype == "bfloat16" else dtype)


def _as_bfloat16(array: np.ndarray[Any, Any]) -> DeviceArray:
    """Return an array of 16 bits as one of bfloat16, which others read through DLPack."""
    return DeviceArray(array.ctypes.data, array.shape, "bfloat16", 2, False, owner=array)
