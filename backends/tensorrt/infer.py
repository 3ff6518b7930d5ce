"""`TensorrtInferTensor`: an engine of TensorRT as a backend, on batches of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hami.backend import param, register
from hami.engine import Engine
from hami.errors import BuildError

from . import cuda
from .execution import Execution, load_engine
from .loaders import OPTION
from .params import MAX_DOC, MIN_DOC, EngineParams
from .plan import Description, EnginePlan
from .shapes import parse_wishes, refuse

DLPACK_CUDA = 2


@register
class TensorrtInferTensor(Engine, EngineParams):
    """Run a TensorRT engine: the one that a loader before it brought, or that of its own `model`."""

    max = param(None, type="any", doc=MAX_DOC)
    min = param(None, type="any", doc=MIN_DOC)
    instance_num = param(1, min=1, doc="copies of the node, which share out the profiles")
    cuda_graph = param(True, doc="whether shapes that come again are recorded and replayed as one")

    stages_inputs = True
    execution: Execution | None = None

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Bring the engine to the card and make this instance's context on its profile."""
        plan = self.find_plan(options)
        loaded = load_engine(plan, self.package, self.cache_folder())
        index = self.take_profile(loaded.description, int(options.get("instance_index", 0)))
        self.execution = Execution(loaded, index, use_graphs=self.cuda_graph)
        self.array_device = (DLPACK_CUDA, cuda.call("cudaGetDevice"))

    def find_plan(self, options: dict[str, Any]) -> EnginePlan:
        """Return the plan of the loader before this instance, unless `model` names another file."""
        plan = options.get(OPTION)
        if isinstance(plan, EnginePlan) and (not self.model or plan.source == Path(self.model)):
            return plan
        if not self.model:
            raise BuildError(
                "`TensorrtInferTensor` has no `model`, and no loader stands before it",
                code="tensorrt-model",
                help="set `model`, or write `IoC[Onnx2Tensorrt, TensorrtInferTensor; ...]`",
            )
        return self.plan_for(Path(self.model))

    def take_profile(self, description: Description, instance_index: int) -> int:
        """Choose this instance's profile, publish ports and rows. Raises BuildError where they do not fit."""
        count = len(description.profiles)
        if count > self.instance_num:
            raise refuse(
                f"the engine has `{count}` profiles for `{self.instance_num}` instances",
                f"write `instance_num = {count}`, so that each profile has an instance",
            )
        index = instance_index % count
        profile = description.profiles[index]
        wanted = self._wanted_rows("max", index)
        if wanted is not None and wanted > profile.max_rows:
            is_fixed = description.fixed_rows is not None
            limit = "the model's fixed batch of" if is_fixed else "the engine's most,"
            raise refuse(
                f"`max` is `{wanted}`, above {limit} `{profile.max_rows}`",
                f"write `max = {profile.max_rows}`, or build an engine for more",
            )
        self.inputs, self.outputs = description.inputs, description.outputs
        self.fixed_rows = description.fixed_rows
        self.max = profile.max_rows if wanted is None else wanted
        low = self._wanted_rows("min", index)
        self.min = profile.min_rows if low is None else max(low, profile.min_rows)
        return index

    def _wanted_rows(self, name: str, index: int) -> int | None:
        """Return the rows that `min` or `max` gives for a profile as a plain number, if it does."""
        wishes = parse_wishes(getattr(self, name), name)
        wish = wishes[index % len(wishes)] if wishes else None
        return wish if isinstance(wish, int) else None

    def run(self, arrays: list[Any]) -> Sequence[Any]:
        """Run the engine on one array for each input."""
        assert self.execution is not None
        return self.execution.run(arrays)

    def join(self, parts: list[Any], num_rows: int) -> Any:
        """Return arrays of the card one after another, the last row repeated up to `num_rows`."""
        assert self.execution is not None
        return self.execution.join(parts, num_rows)

    def staging(self, size_bytes: int) -> Any:
        """Return pinned memory, from which the card reads by itself."""
        return cuda.PinnedMemory(size_bytes).array[:size_bytes]

    def close(self) -> None:
        """Give contexts, graphs and memory back; the engine goes with its last instance."""
        if self.execution is not None:
            self.execution.save_kernels()
            self.execution.close()
        self.execution = None
