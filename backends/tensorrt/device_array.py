"""Arrays that lie in the memory of the card already: where, how large, and whether in one piece.

They come and go as objects with `__dlpack__`. The structures of DLPack are read and made here with ctypes, so
that no framework is needed to look at the array of another one.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hami.errors import RequestError

_CPU_TYPES = (1, 3)  # plain and pinned memory of the CPU
_CUDA_TYPES = (2, 13)  # plain and managed memory of the card
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_CAPSULE = b"dltensor"


class _DLDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("rank", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


# What others hold of arrays of ours: by the address of the structure, all that must stay alive.
_exported: dict[int, tuple[Any, ...]] = {}


def _forget(address: int) -> None:
    """Give up what others hold no longer."""
    _exported.pop(address, None)


def _forget_untaken(capsule: int) -> None:
    """Give up what is in a capsule that nobody took: one that was taken has another name."""
    if _is_valid(capsule, _CAPSULE):
        _exported.pop(_pointer_in(capsule, _CAPSULE), None)


_delete, _drop_capsule = _Deleter(_forget), _Destructor(_forget_untaken)

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)


@dataclass(frozen=True)
class DeviceArray:
    """An array by address; `owner` keeps its memory alive, `strides` count elements, None: in one piece."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    is_on_card: bool
    strides: tuple[int, ...] | None = None
    card: int = 0
    owner: Any = field(default=None, repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """The bytes of all elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one behind the other, the last axis innermost."""
        if self.strides is None or 0 in self.shape:
            return True
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA_TYPES if self.is_on_card else _CPU_TYPES)[0], self.card

    def __dlpack__(self, stream: Any = None, **kwargs: Any) -> Any:
        """Return a capsule for other frameworks; what made the array is complete, whatever the stream."""
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        strides = (ctypes.c_int64 * rank)(*self.strides) if self.strides is not None else None
        code = next(code for code, name in _CODES.items() if self.dtype.rstrip("0123456789") == name)
        managed = _DLManagedTensor(
            _DLTensor(
                self.address,
                _DLDevice(*self.__dlpack_device__()),
                rank,
                _DLDataType(code, self.itemsize * 8, 1),
                shape,
                strides,
                0,
            ),
            None,
            _delete,
        )
        address = ctypes.addressof(managed)
        _exported[address] = (managed, shape, strides, self)
        return _new_capsule(address, _CAPSULE, _drop_capsule)


def view(array: Any, stream: int = 0) -> DeviceArray:
    """Return where an array lies. Work that its owner still does is waited for on `stream`.

    Raises RequestError for what is no array or not in one piece.
    """
    found = array if isinstance(array, DeviceArray) else _look(array, stream)
    if not found.is_contiguous:
        raise RequestError(
            f"an array of the card with strides `{found.strides}` is not in one piece",
            code="tensorrt-array",
            help="make it contiguous first, for example with `ContiguousTensor`",
        )
    return found


def _look(array: Any, stream: int) -> DeviceArray:
    if hasattr(array, "__dlpack__"):
        device_type = int(array.__dlpack_device__()[0])
        is_on_card = device_type in _CUDA_TYPES
        if is_on_card or device_type in _CPU_TYPES:
            # 1 is CUDA's own default stream in the array interface protocol
            return _from_capsule(array.__dlpack__(stream=stream or 1) if is_on_card else array.__dlpack__())
    raise RequestError(
        f"`{type(array).__name__}` is no array of the CPU or of an NVIDIA card",
        code="tensorrt-array",
        help="give a numpy array, or one with `__dlpack__` on the card",
    )


def _from_capsule(capsule: Any) -> DeviceArray:
    """Read a capsule; it stays unused, so that dropping it gives the memory back to its owner."""
    tensor = _DLTensor.from_address(_pointer_of(capsule, _CAPSULE))
    code = _CODES.get(tensor.dtype.code, "opaque")
    bits = tensor.dtype.bits
    return DeviceArray(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=tuple(tensor.shape[: tensor.rank]),
        dtype=code if code == "bool" else f"{code}{bits}",
        itemsize=bits // 8,
        is_on_card=tensor.device.type in _CUDA_TYPES,
        strides=tuple(tensor.strides[: tensor.rank]) if tensor.strides else None,
        card=tensor.device.index,
        owner=capsule,
    )
