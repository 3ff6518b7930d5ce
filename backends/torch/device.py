"""Names of devices and element types in parameters, and the check that a device is there.

Every backend of the family reads its `device` and `dtype` here, while the pipeline is made.
"""

from __future__ import annotations

from typing import Any

import torch

from hami.errors import BuildError, ConfigError

# torch's element types by numpy's names, as far as arrays have them.
ELEMENT_TYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("float16", "float32", "float64", "bfloat16", "bool", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
}


def find_device(value: Any) -> torch.device:
    """Return the device that `value` names: `cpu`, `cuda` (the first GPU), `cuda:1`, or the number of a GPU.

    Raises ConfigError `device-name` for other text, BuildError `device-missing` where there is no such GPU.
    """
    text = str(value).strip()
    name, _, number = ("cuda", ":", text) if text.isdecimal() else text.partition(":")
    is_known = (name == "cuda" and (text == "cuda" or _is_number(number))) or text == "cpu"
    if isinstance(value, bool) or not is_known:
        raise ConfigError(
            f"`{value}` is no device",
            code="device-name",
            help="write `cpu`, `cuda`, or `cuda:1` for the second GPU",
        )
    if text == "cpu":
        return torch.device("cpu")
    index = int(number or 0)
    check_gpu(index)
    return torch.device("cuda", index)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 4


def check_gpu(index: int) -> None:
    """Raise BuildError `device-missing` unless torch can use the GPU of that number."""
    if torch.version.cuda is None and torch.version.hip is None:
        raise BuildError(
            f"there is no device `cuda:{index}`: torch {torch.__version__} is built for the CPU",
            code="device-missing",
            help="install a torch with CUDA, or choose `cpu`",
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise BuildError(
            f"there is no device `cuda:{index}`: torch sees {count} GPUs",
            code="device-missing",
            help="choose a lower number, or `cpu`"
            if count
            else "check the driver with `nvidia-smi`, or choose `cpu`",
        )
