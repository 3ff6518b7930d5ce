"""`Onnx2Tensorrt` and `LoadTensorrtEngine`: phase 1 of an `IoC`, which bring the engine that phase 2 runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hami.backend import register
from hami.errors import BuildError

from .params import EngineParams, read_engine_file

# The shared option under which a loader leaves its engine.
OPTION = "tensorrt_engine"


class Loader(EngineParams):
    """Leaves an EnginePlan in the options of the expression; items pass through."""

    is_reentrant = True
    group_by = "none"

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Build or read the engine."""
        if not self.model:
            raise BuildError(
                f"`{type(self).__name__}` has no `model`", code="tensorrt-model", help="set `model` to a path"
            )
        options[OPTION] = self.load(Path(self.model))

    def load(self, path: Path) -> Any:
        """Return the engine for a file."""
        raise NotImplementedError

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Hand `data` on."""
        for item in batch:
            item["result"] = item.get("data")


@register
class Onnx2Tensorrt(Loader):
    """Build the TensorRT engine of an ONNX file, or take it from the cache."""

    def load(self, path: Path) -> Any:
        """Return the engine of the ONNX file."""
        return self.built_plan(path)


@register
class LoadTensorrtEngine(Loader):
    """Read a TensorRT engine from a `.trt`, `.engine` or `.plan` file."""

    def load(self, path: Path) -> Any:
        """Return the engine in the file."""
        return read_engine_file(path)
