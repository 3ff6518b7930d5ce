"""Laws of `reinterpret`: the memory of an array under another type; how bfloat16 gets in and out."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import hami
from hami import TensorSpec, _core


def bits_of(*values: float) -> np.ndarray[Any, Any]:
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def name_of(dtype: Any) -> str:
    """Return the name of a type of hami, or of torch, whose tensors it makes where that is loaded."""
    return str(dtype).removeprefix("torch.")


def test_there_and_back_is_the_same_memory() -> None:
    bits = bits_of(1.5, -2.0)
    tensor = _core.reinterpret(bits, "bfloat16")
    assert (tensor.shape, name_of(tensor.dtype)) == ((2,), "bfloat16")
    back = _core.reinterpret(tensor, "uint16")
    assert back.tolist() == bits.tolist()
    assert np.shares_memory(back, bits)


def test_the_memory_lives_as_long_as_the_view() -> None:
    tensor = _core.reinterpret(np.arange(1000, dtype=np.uint16), "bfloat16")
    gc.collect()
    assert _core.reinterpret(tensor, "uint16").tolist() == list(range(1000))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1, 1, 4)])
def test_shapes_stay(shape: tuple[int, ...]) -> None:
    assert _core.reinterpret(np.zeros(shape, np.uint16), "bfloat16").shape == shape


def test_strides_stay() -> None:
    bits = np.arange(12, dtype=np.uint16).reshape(3, 4).T[::2]
    assert _core.reinterpret(_core.reinterpret(bits, "bfloat16"), "uint16").tolist() == bits.tolist()


def test_memory_that_may_only_be_read_stays_so() -> None:
    bits = np.frombuffer(bytes(8), np.int32)
    assert not _core.reinterpret(bits, "float32").flags.writeable
    assert _core.reinterpret(bits.copy(), "float32").flags.writeable


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.zeros(2, np.uint16), "float32"),
        (np.zeros(2, np.float64), "bfloat16"),
        (np.zeros(2, np.uint16), "float17"),
        (np.zeros(2, np.uint16), ""),
        (np.array(["text"]), "uint16"),
        (object(), "uint16"),
        (None, "uint16"),
        ([1, 2], "uint16"),
    ],
)
def test_what_does_not_fit_is_refused(array: Any, dtype: str) -> None:
    with pytest.raises(TypeError, match="same width"):
        _core.reinterpret(array, dtype)


def test_an_engine_takes_it(open_pipe: Any) -> None:
    seen: list[Any] = []

    @hami.register
    class Echo(hami.Engine):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inputs = self.outputs = [TensorSpec("x", "bfloat16", (-1, 2))]

        def run(self, arrays: list[Any]) -> list[Any]:
            seen.append(name_of(arrays[0].dtype))
            return list(arrays)

    pipe = open_pipe({"backend": "Echo", "max": 4})
    bits = bits_of(1, 2, 3, 4).reshape(2, 2)
    result = pipe({"data": _core.reinterpret(bits, "bfloat16"), "request_size": 2})["result"]
    assert _core.reinterpret(result, "uint16").tolist() == bits.tolist()
    assert seen == ["bfloat16"]


WITHOUT_TORCH = """
import sys
import numpy as np
from hami import _core

bits = np.array([0x3FC0, 0xC000], np.uint16)
tensor = _core.reinterpret(bits, "bfloat16")
assert type(tensor) is _core.Tensor, type(tensor)
assert (tensor.shape, tensor.dtype) == ((2,), "bfloat16")
assert np.shares_memory(_core.reinterpret(tensor, "uint16"), bits)
assert "torch" not in sys.modules
"""


def test_it_needs_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_torch_gets_and_gives_it() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    assert _core.reinterpret(tensor, "uint16").tolist() == bits_of(1.5, -2.0).tolist()
    back = _core.reinterpret(bits_of(1.5, -2.0), "bfloat16")
    assert torch.equal(back, tensor)
