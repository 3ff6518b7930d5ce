"""The parameters that the classes of this family share, and how they become settings of a build.

A loader (`Onnx2Tensorrt`, `LoadTensorrtEngine`) and the engine behind it read the same ones from their node.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hami.backend import Backend, param
from hami.errors import BuildError

from . import cuda
from .cache import default_folder, entry_key, fetch
from .package import INSTALL, PACKAGES, Package, find_package
from .plan import MAGIC, DamagedPlanError, EnginePlan, read_plan
from .settings import BuildSettings, Normalization, parse_capabilities, parse_numbers
from .shapes import parse_wishes

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "best")
ONNX_SUFFIXES = (".onnx",)
ENGINE_SUFFIXES = (".trt", ".engine", ".plan")
MAX_DOC = "most rows of one run, or the largest shapes: `8x3x224x224`; `;` between profiles"
MIN_DOC = "fewest rows of one run, or the smallest shapes; default: one row"
# Serialised engines begin with `ftrt`, those of TensorRT-RTX with `vtrt`.
PLAN_MAGIC = b"trt"


class EngineParams(Backend):
    """What decides how an engine is built and which one is loaded."""

    model = param(None, type="path", doc="path of the ONNX file, or of the engine file")
    max = param(None, type="any", doc=MAX_DOC)
    min = param(None, type="any", doc=MIN_DOC)
    opt = param(None, type="any", doc="rows or shapes that are to be fastest; default: `max`")
    precision = param("fp32", choices=PRECISIONS, doc="the type in which the engine computes")
    mean = param(None, type="any", doc="subtracted at the input: one number, or one for each channel")
    std = param(None, type="any", doc="divides what is left: one number, or one for each channel")
    compute_capability = param(
        None, type="any", doc="cards to build for, such as `8.6` or `8.6,8.9`; default: the one here, or all"
    )
    workspace_mb = param(0, unit="MiB", min=0, doc="most memory that a kernel may use; 0: no limit")
    cache_dir = param(
        None, type="path", doc="folder of built engines; default: `hami/tensorrt` in the user's cache"
    )
    timing_cache = param(None, type="path", doc="file of measured times, which later builds read")
    package = param(
        None, type="str", choices=PACKAGES, doc="which TensorRT; default: the first that is installed"
    )

    def plan_for(self, path: Path) -> EnginePlan:
        """Return the engine for a file of either kind. Raises BuildError."""
        suffix = path.suffix.lower()
        if suffix in ONNX_SUFFIXES:
            return self.built_plan(path)
        if suffix in ENGINE_SUFFIXES:
            return read_engine_file(path)
        raise BuildError(
            f"`{path}` is neither an ONNX file nor an engine file by its name",
            code="tensorrt-model",
            help=f"name it `*.onnx`, or `*{'`, `*'.join(ENGINE_SUFFIXES)}`",
        )

    def built_plan(self, path: Path) -> EnginePlan:
        """Return the engine of an ONNX file, from the cache where it is there."""
        settings = self.build_settings()
        if not path.is_file():
            raise BuildError(
                f"`{path}` does not exist" if not path.exists() else f"`{path}` is not a file",
                code="tensorrt-model",
                help="correct `model`",
            )
        package = find_package(self.package)
        if not package.can_build:
            raise BuildError(
                f"`{package.name}` runs engines and builds none",
                code="tensorrt-lean",
                help="install `tensorrt` or `tensorrt-rtx` to build, or give an engine file built elsewhere",
            )
        timing_cache = Path(self.timing_cache) if self.timing_cache else None
        builder, graph = _load_builder()
        files = [path, *graph.external_files(path)]
        try:
            key = entry_key(
                files,
                settings=settings.to_json(),
                package=package.name,
                version=package.version,
                card=_target(package, settings),
            )
        except OSError as error:
            raise BuildError(
                f"weights of `{path}` cannot be read: {error}",
                code="tensorrt-model",
                help="copy the files of its weights to where the model is",
            ) from error

        def build() -> EnginePlan:
            plan: EnginePlan = builder.build_engine(package, path, settings, timing_cache)
            return plan

        return fetch(self.cache_folder(), path, key, build)

    def cache_folder(self) -> Path:
        """Return the folder of built engines."""
        return Path(self.cache_dir) if self.cache_dir else default_folder()

    def build_settings(self) -> BuildSettings:
        """Return the parameters as settings. Raises BuildError for texts that mean nothing."""
        return BuildSettings(
            parse_wishes(self.min, "min"),
            parse_wishes(self.opt, "opt"),
            parse_wishes(self.max, "max"),
            self.precision,
            Normalization(parse_numbers(self.mean, "mean"), parse_numbers(self.std, "std")),
            parse_capabilities(self.compute_capability),
            self.workspace_mb,
        )


def _target(package: Package, settings: BuildSettings) -> str:
    """Return what the engine is for: the given capabilities, all cards (TensorRT-RTX), or the card here."""
    if settings.compute_capabilities:
        return ",".join(settings.compute_capabilities)
    return "any" if package.name == "tensorrt_rtx" else " ".join(cuda.card())


def _load_builder() -> tuple[Any, Any]:
    """Import what only builds need: the package `onnx` is large. Raises BuildError naming what to install."""
    try:
        from . import builder, graph
    except ImportError as error:
        raise BuildError(
            f"ONNX models cannot be read: {error}", code="tensorrt-missing", help=INSTALL
        ) from error
    return builder, graph


def read_engine_file(path: Path) -> EnginePlan:
    """Return the engine in a file of ours or of another tool. Raises BuildError naming the file."""
    try:
        content = path.read_bytes()
        if content.startswith(MAGIC):
            return read_plan(path, content)
    except OSError as error:
        raise _refuse_file(path, f"cannot be read: {error.strerror or error}", "correct `model`") from error
    except DamagedPlanError as error:
        raise _refuse_file(path, f"is damaged: {error}", "build it again from the ONNX file") from error
    if content[1:4] != PLAN_MAGIC:
        kind = "is empty" if not content else "does not begin like an engine of TensorRT"
        raise _refuse_file(path, kind, "give a file that TensorRT or hami has written, or the ONNX file")
    return EnginePlan(path, content)


def _refuse_file(path: Path, problem: str, help: str) -> BuildError:
    return BuildError(f"`{path}` {problem}", code="tensorrt-engine-file", help=help)
