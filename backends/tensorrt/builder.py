"""An ONNX file to a serialised engine: parse, profiles, precision, build.

Builds of one process run one after another, since TensorRT reports through one logger; the GIL is free
meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hami.errors import BuildError, quoted

from .graph import prepared, row_names
from .package import Collector, Package, log
from .plan import ELEMENT_TYPES, EnginePlan, describe, write_atomically
from .settings import BuildSettings
from .shapes import Port, Profile, make_profiles, show

_building = threading.Lock()


def build_engine(
    package: Package, model: Path, settings: BuildSettings, timing_cache: Path | None = None
) -> EnginePlan:
    """Build the engine of an ONNX file. Raises BuildError with the first complaint of TensorRT."""
    started = time.monotonic()
    with (
        _building,
        package.collect() as said,
        prepared(model, settings.precision, settings.normalization) as file,
    ):
        builder = _make_builder(package, said)
        network = _parse(package, builder, file, model, said)
        inputs = [_port(network.get_input(i), model) for i in range(network.num_inputs)]
        outputs = [_port(network.get_output(i), model) for i in range(network.num_outputs)]
        ports = [port for port, _ in inputs]
        profiles = make_profiles(ports, settings.low, settings.best, settings.high)
        config = _configure(package, builder, settings)
        _add_profiles(builder, config, ports, profiles, said)
        with _timing(package, config, timing_cache):
            blob = _build(package, builder, network, config, model, said)
    log.info("built `%s` in %.1f s: %d bytes", model, time.monotonic() - started, len(blob))
    description = describe(inputs, outputs, profiles, row_names(model))
    return EnginePlan(model, blob, package.name, package.version, description)


def _make_builder(package: Package, said: Collector) -> Any:
    try:
        return package.module.Builder(package.logger)
    except TypeError as error:  # how the bindings say that the library made none
        raise BuildError(
            f"`{package.name}` cannot build here: {said.reason}",
            code="tensorrt-device",
            help="build on a machine with an NVIDIA GPU, or with `tensorrt_rtx`, which needs none",
        ) from error


def _parse(package: Package, builder: Any, file: Path, model: Path, said: Collector) -> Any:
    trt = package.module
    flags = trt.NetworkDefinitionCreationFlag
    # the types of the graph are those of the engine; from TensorRT 11 on there is no other way
    is_typed = 1 << int(flags.STRONGLY_TYPED) if hasattr(flags, "STRONGLY_TYPED") else 0
    network = builder.create_network(is_typed)
    parser = trt.OnnxParser(network, package.logger)
    if not parser.parse_from_file(str(file)):
        raise BuildError(
            f"TensorRT cannot read `{model}`: {_first_parse_error(parser) or said.reason}",
            code="tensorrt-parse",
            help="export the model with operators and types that TensorRT has, or run it with `OnnxInfer`",
        )
    return network


def _first_parse_error(parser: Any) -> str:
    if not parser.num_errors:
        return ""
    error = parser.get_error(0)
    node = error.node_name() if hasattr(error, "node_name") else ""
    kind = error.node_operator() if hasattr(error, "node_operator") else ""
    place = f"node `{node or error.node()}`" + (f" ({kind}): " if kind else ": ")
    return " ".join(f"{place if node or kind else ''}{error.desc()}".split())


def _port(tensor: Any, model: Path) -> tuple[Port, str]:
    """Return an input or output of the network and its element type."""
    port = Port(tensor.name, tuple(tensor.shape))
    if tensor.is_shape_tensor and tensor.is_network_input:
        raise BuildError(
            f"input `{port.name}` of `{model}` holds a shape, not data",
            code="tensorrt-port",
            help="export the model with this input as a constant",
        )
    dtype = ELEMENT_TYPES.get(tensor.dtype.name)
    if dtype is None:
        raise BuildError(
            f"`{port.name}` of `{model}` has elements of `{tensor.dtype.name.lower()}`, which no array has",
            code="tensorrt-port",
            help=f"cast it inside the model to one of {quoted(ELEMENT_TYPES.values())}",
        )
    return port, dtype


def _configure(package: Package, builder: Any, settings: BuildSettings) -> Any:
    trt = package.module
    config = builder.create_builder_config()
    if settings.workspace_mb:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace_mb << 20)
    if settings.precision == "fp32":
        config.clear_flag(trt.BuilderFlag.TF32)  # it rounds to 10 bits
    if hasattr(trt, "IProgressMonitor"):
        config.progress_monitor = _make_monitor(trt)
    _choose_capabilities(package, config, settings.compute_capabilities)
    return config


def _choose_capabilities(package: Package, config: Any, wanted: tuple[str, ...]) -> None:
    """Set the compute capabilities that the engine is for; without any it is for the card here, or all."""
    if not wanted:
        return
    if not hasattr(config, "set_compute_capability"):
        raise BuildError(
            f"`{package.name}` builds only for the card in the machine, not for `{', '.join(wanted)}`",
            code="tensorrt-capability",
            help="remove `compute_capability`, or set `package = tensorrt_rtx`",
        )
    known = package.module.ComputeCapability
    config.num_compute_capabilities = len(wanted)  # without room the next call only answers False
    for index, text in enumerate(wanted):
        capability = getattr(known, f"SM{text.replace('.', '')}", None)
        if capability is None or not config.set_compute_capability(capability, index):
            names = [name[2:] for name in dir(known) if name.startswith("SM")]
            raise BuildError(
                f"`{package.name}` has no kernels for compute capability `{text}`",
                code="tensorrt-capability",
                help=f"use one of {quoted(f'{name[:-1]}.{name[-1]}' for name in names)}",
            )


def _add_profiles(
    builder: Any, config: Any, ports: list[Port], profiles: list[Profile], said: Collector
) -> None:
    if not any(-1 in port.shape for port in ports):
        return
    for profile in profiles:
        added = builder.create_optimization_profile()
        for name, (least, best, most) in profile.shapes.items():
            added.set_shape(name, least, best, most)
        if config.add_optimization_profile(added) < 0:
            shapes = ", ".join(f"`{name}` {show(three[2])}" for name, three in profile.shapes.items())
            raise BuildError(
                f"TensorRT refuses the profile up to {shapes}: {said.reason}",
                code="tensorrt-profile",
                help="write `min` and `max` within what the model computes",
            )


def _build(package: Package, builder: Any, network: Any, config: Any, model: Path, said: Collector) -> bytes:
    log.info("building `%s` with %s %s", model, package.name, package.version)
    memory = builder.build_serialized_network(network, config)
    if getattr(config, "progress_monitor", None) is not None and config.progress_monitor.is_interrupted:
        raise KeyboardInterrupt
    if memory is None:
        raise BuildError(
            f"TensorRT cannot build `{model}`: {said.reason}",
            code="tensorrt-build",
            help="the lines of the logger `hami.tensorrt` say more; another `precision` or `max` may pass",
        )
    return bytes(memory)


@contextlib.contextmanager
def _timing(package: Package, config: Any, path: Path | None) -> Iterator[None]:
    """Let a build use the measured times of earlier ones, and keep its own for later ones.

    TensorRT-RTX measures nothing when it builds, and would ask for a GPU if it were given such a cache.
    """
    if path is None or package.name == "tensorrt_rtx":
        yield
        return
    try:
        known = path.read_bytes()
    except OSError:
        known = b""
    cache = config.create_timing_cache(known)
    if not config.set_timing_cache(cache, ignore_mismatch=False):
        log.warning("the timing cache `%s` is of another TensorRT or card, and begins anew", path)
        cache = config.create_timing_cache(b"")
        config.set_timing_cache(cache, ignore_mismatch=False)
    yield
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, bytes(config.get_timing_cache().serialize()))
    except OSError as error:
        log.warning("the timing cache cannot be kept: %s", error)


def _make_monitor(trt: Any) -> Any:
    """Return an object that TensorRT tells how far it is: each tenth of an outer phase is logged."""
    base: Any = trt.IProgressMonitor

    class Monitor(base):  # type: ignore[misc]  # the base is known at run time only
        def __init__(self) -> None:
            base.__init__(self)
            self.num_steps: dict[str, int] = {}
            self.is_interrupted = False

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            if parent_phase is None:
                self.num_steps[phase_name] = num_steps
                log.info("%s: 0 of %d", phase_name, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            try:
                count = self.num_steps.get(phase_name, 0)
                if count and (step + 1) * 10 // count > step * 10 // count:
                    log.info("%s: %d of %d", phase_name, step + 1, count)
            except KeyboardInterrupt:  # an exception does not reach the caller from here
                self.is_interrupted = True
            return not self.is_interrupted

        def phase_finish(self, phase_name: str) -> None:
            if self.num_steps.pop(phase_name, None) is not None:
                log.info("%s: done", phase_name)

    return Monitor()
