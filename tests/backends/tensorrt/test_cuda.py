"""What the calls of CUDA say where there is no card; test_cuda_card.py has what they do on one."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from hami.backends.tensorrt import cuda
from hami.errors import BuildError

from .card import lacking_for_cuda

pytest.importorskip("cuda.bindings.runtime", reason="the package `cuda-bindings` is not installed")


def test_without_a_card_the_error_says_so_and_what_to_do() -> None:
    if not lacking_for_cuda():
        pytest.skip("lacking: a machine without a card")
    with pytest.raises(BuildError, match="no NVIDIA GPU") as caught:
        cuda.card()
    assert caught.value.code == "tensorrt-device"
    assert "driver" in caught.value.help


def test_a_call_that_fails_names_itself_and_the_reason() -> None:
    if not lacking_for_cuda():
        pytest.skip("lacking: a machine without a card")
    with pytest.raises(cuda.CudaError, match=r"cudaMalloc: .*\(cudaError"):
        cuda.DeviceMemory(16)
    gc.collect()  # what was never allocated is not freed


def test_without_the_bindings_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['cuda.bindings'] = None\n"
        "from hami.backends.tensorrt import cuda\n"
        "from hami.errors import BuildError\n"
        "try: cuda.card()\n"
        "except BuildError as error: print(error.code, error.help)\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.strip() == "tensorrt-missing pip install hami-core[tensorrt]"
