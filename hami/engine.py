"""`Engine`: the base of Python classes that run a model on whole batches.

An engine loads, describes and runs. `init` loads the model and sets `inputs` and `outputs`; the core then
checks every request against that description, puts the rows of a batch into one array per input, calls `run`
once, and gives each request its rows of the outputs. So the rules about names, types, ranks and rows are the
same for every engine, and none of them repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .backend import Backend, param

MAX_ROWS = "the most rows of one run; default: the model's own fixed batch, else 1"
MIN_ROWS = "the fewest rows of one run; fewer wait for company"

_ANY_ROWS = 2**63 - 1  # how the core says that there is no bound


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    `dtype` is numpy's name of the element type, or `bfloat16`; `shape` has -1 where the model takes any
    extent. `has_rows`: axis 0 counts the rows of the batch; else the array belongs to a whole run, and
    requests run alone.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    has_rows: bool = True


@dataclass(frozen=True)
class NodePorts:
    """What a node takes as `data` and gives as `result`, as far as an engine at that end of it says.

    None: anything. `max_rows` is the most rows of one run, None for any number.
    """

    inputs: tuple[TensorSpec, ...] | None
    outputs: tuple[TensorSpec, ...] | None
    max_rows: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> NodePorts:
        """Make it from what the core says of a node."""
        inputs, outputs = (
            None if tuples is None else tuple(TensorSpec(*one) for one in tuples)
            for tuples in (row["inputs"], row["outputs"])
        )
        return cls(inputs, outputs, row["max_rows"] if row["max_rows"] < _ANY_ROWS else None)


class Engine(Backend):
    """Base class of Python engines: `init` sets `inputs`, `outputs` and `fixed_rows`, `run` computes a batch.

    `fixed_rows` is the batch of a model that takes no other (None: any number up to `max`). The core fills
    such a batch up with copies of its last row, which nobody sees again. With `finds_rows` the core sets
    `has_rows` and `fixed_rows` itself, from the shapes: axis 0 counts rows where it is -1, or equal for all
    inputs.

    Arrays come contiguous and of the described type, as numpy arrays, as torch tensors on a device, or as
    what the caller gave. An array may be memory that the next run overwrites: what `run` returns must not
    share it.

    `array_device`: where arrays may lie beside the memory of the CPU, as a pair of DLPack's device type and
    index (2 is CUDA). `stages_inputs`: inputs from the CPU are always gathered in memory that `staging`
    gives.
    """

    is_engine: ClassVar[bool] = True
    array_device: tuple[int, int] | None = None
    stages_inputs: bool = False
    finds_rows: bool = False

    max = param(None, type="int", min=1, doc=MAX_ROWS)
    min = param(None, type="int", min=1, doc=MIN_ROWS)

    inputs: Sequence[TensorSpec] = ()
    outputs: Sequence[TensorSpec] = ()
    fixed_rows: int | None = None

    def run(self, arrays: list[Any]) -> Sequence[Any]:
        """Run the model: one array for each of `inputs`, in their order; return one for each of `outputs`.

        The results are complete when it returns: no stream has to be waited for. Raise RequestError for
        values that the model refuses.
        """
        raise NotImplementedError(f"`{type(self).__name__}` has no `run`")

    def join(self, parts: list[Any], num_rows: int) -> Any:
        """Return device arrays one after another along axis 0, the last row repeated up to `num_rows`.

        Called for requests whose arrays lie on `array_device`; each part has the axis of rows. `run` gets
        what it returns, on the same thread, so the work need not be complete.
        """
        raise NotImplementedError(f"`{type(self).__name__}` takes no arrays on a device")

    def stack(self, rows: list[Any], num_rows: int) -> Any:
        """Do what `join` does for arrays that are one row each, without the axis of rows."""
        return self.join([row[None] for row in rows], num_rows)

    def staging(self, size_bytes: int) -> Any:
        """Return a one-dimensional uint8 array of host memory, in which the core gathers an input.

        For pinned memory, from which a device copies faster. It is kept, and asked for again when an input
        needs more. Called only with `stages_inputs`.
        """
        raise NotImplementedError(f"`{type(self).__name__}` has no `staging`")
