"""Reads GGUF files, versions 2 and 3: metadata, and tensors out of the mapped file.

Used by the weights, the configuration and the tokenizer. Nothing in a file is believed: every length is held
against the bytes that are left before anything is allocated, so that a damaged or hostile file ends in an
error that names the offset. `quantised.py` turns the blocks of a tensor into numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hami.errors import BuildError

from .quantised import TYPES, TensorType, dequantised

MAGIC = b"GGUF"
MAX_DIMENSIONS = 4
MAX_ARRAY_DEPTH = 4
MAX_NAME_BYTES = 1 << 16

# The types of metadata, by number: numpy's name of the scalar, or what it is.
SCALARS = {
    **{0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1"},
    **{10: "<u8", 11: "<i8", 12: "<f8"},
}
BOOL, STRING, ARRAY = 7, 8, 9


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of the file: its name, shape (slowest first), type, and where its bytes are."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    start: int
    num_bytes: int


class GgufFile:
    """An open GGUF file: `metadata` and `tensors` are read at once, what is in a tensor when asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._bytes = np.memmap(self.path, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:
            raise BuildError(
                f"the model `{self.path}` cannot be read: {error}",
                code="model-file",
                help="name a GGUF file that exists and is not empty",
            ) from error
        reader = _Reader(memoryview(self._bytes), self.path)
        num_tensors, num_entries = reader.header()
        self.metadata: dict[str, Any] = dict(reader.metadata(num_entries))
        self.tensors: dict[str, TensorEntry] = {
            entry.name: entry
            for entry in reader.tensors(num_tensors, self.metadata.get("general.alignment", 32))
        }

    def raw(self, name: str) -> np.ndarray[Any, Any]:
        """Return the bytes of a tensor as stored, [rows, bytes of a row], read-only."""
        entry = self.tensors[name]
        data = np.asarray(self._bytes[entry.start : entry.start + entry.num_bytes])
        return data.reshape(entry.num_bytes // entry.type.row_bytes(entry.shape[-1]), -1)

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """Return a tensor as float32, in its shape."""
        entry = self.tensors[name]
        return dequantised(self.raw(name), entry.type).reshape(entry.shape)


class _Reader:
    """Walks through the head of a file; `offset` is where it stands."""

    def __init__(self, data: memoryview, path: Path) -> None:
        self.data = data
        self.path = path
        self.offset = 0

    def error(self, message: str, offset: int | None = None) -> BuildError:
        place = self.offset if offset is None else offset
        return BuildError(
            f"the GGUF file `{self.path}` is damaged at byte {place}: {message}",
            code="llm-gguf",
            help="fetch the file again and compare its checksum",
        )

    @property
    def left(self) -> int:
        return len(self.data) - self.offset

    def take(self, num_bytes: int, what: str) -> memoryview:
        if num_bytes > self.left:
            raise self.error(f"{what} takes {num_bytes} bytes, and {self.left} are left")
        self.offset += num_bytes
        return self.data[self.offset - num_bytes : self.offset]

    def number(self, form: str, what: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))[0]

    def text(self, what: str, limit: int | None = None) -> str:
        start = self.offset
        length = self.number("Q", f"the length of {what}")
        if limit is not None and length > limit:
            raise self.error(f"{what} has {length} bytes, and {limit} are the most", start)
        raw = self.take(length, what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"{what} is not UTF-8", start) from error

    def header(self) -> tuple[int, int]:
        if bytes(self.take(4, "the magic number")) != MAGIC:
            raise self.error("it does not begin with `GGUF`", 0)
        version = self.number("I", "the version")
        if version not in {2, 3}:
            big = int.from_bytes(version.to_bytes(4, "little"), "big") in {2, 3}
            what = "it is big-endian" if big else f"its version is `{version}`"
            raise self.error(f"{what}; versions 2 and 3, little-endian, are read", 4)
        return self.number("Q", "the number of tensors"), self.number("Q", "the number of entries")

    def metadata(self, num_entries: int) -> Iterator[tuple[str, Any]]:
        if num_entries * 12 > self.left:  # a key's length and a type at least
            raise self.error(f"{num_entries} entries do not fit into {self.left} bytes")
        seen: set[str] = set()
        for _ in range(num_entries):
            start = self.offset
            key = self.text("a key", MAX_NAME_BYTES)
            if key in seen:
                raise self.error(f"the key `{key}` stands there twice", start)
            seen.add(key)
            yield key, self.value(self.number("I", f"the type of `{key}`"), key)

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        if kind == STRING:
            return self.text(f"`{key}`")
        if kind == ARRAY:
            return self.array(key, depth)
        if kind not in SCALARS:
            raise self.error(f"`{key}` has the unknown type {kind}")
        scalar = np.dtype(SCALARS[kind])
        value = np.frombuffer(self.take(scalar.itemsize, f"`{key}`"), dtype=scalar)[0]
        return bool(value) if kind == BOOL else value.item()

    def array(self, key: str, depth: int) -> Any:
        if depth >= MAX_ARRAY_DEPTH:
            raise self.error(f"`{key}` nests arrays deeper than {MAX_ARRAY_DEPTH}")
        start = self.offset
        kind = self.number("I", f"the type of `{key}`")
        count = self.number("Q", f"the length of `{key}`")
        least = np.dtype(SCALARS[kind]).itemsize if kind in SCALARS else {STRING: 8, ARRAY: 12}.get(kind)
        if least is None:
            raise self.error(f"`{key}` has entries of the unknown type {kind}", start)
        if count * least > self.left:
            raise self.error(f"`{key}` has {count} entries, and {self.left} bytes are left", start)
        if kind in SCALARS:
            items = np.frombuffer(self.take(count * least, f"`{key}`"), dtype=SCALARS[kind]).copy()
            return items.astype(bool) if kind == BOOL else items
        return [self.value(kind, key, depth + 1) for _ in range(count)]

    def tensors(self, num_tensors: int, alignment: Any) -> Iterator[TensorEntry]:
        if num_tensors * 24 > self.left:  # a name's length, the dimensions, a type and an offset at least
            raise self.error(f"{num_tensors} tensors do not fit into {self.left} bytes")
        if isinstance(alignment, bool) or not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            raise self.error(f"`general.alignment` is `{alignment}`")
        entries = [self.tensor() for _ in range(num_tensors)]
        base = math.ceil(self.offset / alignment) * alignment
        seen: set[str] = set()
        for name, shape, type_, at, place in entries:
            if name in seen:
                raise self.error(f"the tensor `{name}` stands there twice", place)
            seen.add(name)
            num_bytes = math.prod(shape[:-1]) * type_.row_bytes(shape[-1])
            if at % alignment or base + at + num_bytes > len(self.data):
                raise self.error(
                    f"the tensor `{name}` takes {num_bytes} bytes from byte {base + at} on, "
                    f"and the file has {len(self.data)}",
                    place,
                )
            yield TensorEntry(name, shape, type_, base + at, num_bytes)

    def tensor(self) -> tuple[str, tuple[int, ...], TensorType, int, int]:
        place = self.offset
        name = self.text("a tensor's name", MAX_NAME_BYTES)
        num_dimensions = self.number("I", f"the dimensions of `{name}`")
        if not 0 < num_dimensions <= MAX_DIMENSIONS:
            raise self.error(f"`{name}` has {num_dimensions} dimensions", place)
        shape = tuple(reversed([self.number("Q", f"the shape of `{name}`") for _ in range(num_dimensions)]))
        number = self.number("I", f"the type of `{name}`")
        at = self.number("Q", f"the offset of `{name}`")
        if number not in TYPES:
            known = ", ".join(f"`{known.name}`" for known in TYPES.values())
            raise BuildError(
                f"the tensor `{name}` in `{self.path}` is quantised as type {number}, which is not supported",
                code="llm-quantisation",
                help=f"use a file whose tensors are {known}",
            )
        type_ = TYPES[number]
        if 0 in shape or shape[-1] % type_.block:
            raise self.error(f"`{name}` has the shape {list(shape)} in blocks of {type_.block}", place)
        return name, shape, type_, at, place
