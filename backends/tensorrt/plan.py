"""`EnginePlan`: a serialised engine with its description, and the file format in which the cache keeps it.

A file holds a magic, a checksum of all that follows, a header in JSON, which says what the engine takes and
gives, and the plan: what is read is known to be whole before TensorRT sees a byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hami.engine import TensorSpec

from .shapes import Port, Profile, fixed_rows, has_rows

MAGIC = b"hami-tensorrt\n"
_LENGTH = struct.Struct("<Q")


# TensorRT's name of an element type -> that of numpy; others cannot cross the border of an engine.
ELEMENT_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "BOOL": "bool",
}


class DamagedPlanError(Exception):
    """A file that begins like one of ours is cut off or changed; the message says how."""


@dataclass(frozen=True)
class Description:
    """What an engine takes and gives."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    profiles: tuple[Profile, ...]
    fixed_rows: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "inputs": [vars(spec) for spec in self.inputs],
            "outputs": [vars(spec) for spec in self.outputs],
            "profiles": [profile.to_json() for profile in self.profiles],
            "fixed_rows": self.fixed_rows,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Description:
        """Return the description of plain data. Raises KeyError or TypeError for other data."""

        def specs(rows: Sequence[dict[str, Any]]) -> tuple[TensorSpec, ...]:
            return tuple(TensorSpec(**{**row, "shape": tuple(row["shape"])}) for row in rows)

        profiles = tuple(Profile.from_json(one) for one in data["profiles"])
        return cls(specs(data["inputs"]), specs(data["outputs"]), profiles, data["fixed_rows"])


@dataclass(frozen=True)
class EnginePlan:
    """A serialised engine: `source` is the file it came from, `package` and `version` those that built it.

    `description` is None for a plan of other tools: then the engine itself says it, where there is a GPU.
    """

    source: Path
    blob: bytes = field(repr=False)
    package: str = ""
    version: str = ""
    description: Description | None = None

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the plan."""
        return hashlib.sha256(self.blob).hexdigest()


def describe(
    inputs: Sequence[tuple[Port, str]],
    outputs: Sequence[tuple[Port, str]],
    profiles: Sequence[Profile],
    row_names: dict[str, str] | None = None,
) -> Description:
    """Return the description of (port, element type) pairs.

    Rows of an output: its axis 0 is dynamic, or equal to the fixed batch. `row_names` are the model's names
    of axis 0: an output that calls it otherwise than the inputs has as many as the values say, no rows.
    """
    names = row_names or {}
    fixed = fixed_rows([port for port, _ in inputs])
    input_specs = tuple(
        TensorSpec(port.name, dtype, port.shape, has_rows(port, fixed)) for port, dtype in inputs
    )
    is_counted = any(spec.has_rows for spec in input_specs)
    called = {names[spec.name] for spec in input_specs if spec.has_rows and spec.name in names}

    def counts(port: Port) -> bool:
        if not port.shape or not is_counted:
            return False
        if fixed is not None:
            return port.shape[0] == fixed
        return port.shape[0] < 0 and (not called or names.get(port.name, next(iter(called))) in called)

    output_specs = tuple(TensorSpec(port.name, dtype, port.shape, counts(port)) for port, dtype in outputs)
    return Description(input_specs, output_specs, tuple(profiles), fixed)


def write_plan(path: Path, plan: EnginePlan) -> None:
    """Write a plan so that readers see all of it or nothing."""
    assert plan.description is not None
    fields = {"package": plan.package, "version": plan.version, "description": plan.description.to_json()}
    header = json.dumps(fields).encode()
    content = b"".join((_LENGTH.pack(len(header)), header, plan.blob))
    write_atomically(path, MAGIC + hashlib.sha256(content).digest() + content)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside `path` and move it there; on any failure nothing stays behind."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def read_plan(path: Path, content: bytes | None = None) -> EnginePlan:
    """Return the plan in a file of ours. Raises DamagedPlanError if it is not whole, or OSError."""
    content = path.read_bytes() if content is None else content
    start = len(MAGIC) + hashlib.sha256().digest_size
    if not content.startswith(MAGIC):
        raise DamagedPlanError("it does not begin like an engine file of hami")
    if hashlib.sha256(memoryview(content)[start:]).digest() != content[len(MAGIC) : start]:
        raise DamagedPlanError("its checksum is wrong, it was cut off or changed")
    try:
        (length,) = _LENGTH.unpack_from(content, start)
        begin = start + _LENGTH.size
        header = json.loads(content[begin : begin + length])
        description = Description.from_json(header["description"])
        return EnginePlan(path, content[begin + length :], header["package"], header["version"], description)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise DamagedPlanError(f"it is of another version of hami: {error}") from error
