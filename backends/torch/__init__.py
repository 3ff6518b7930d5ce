"""torch: models (`TorchInfer`) and operations on tensors, on the CPU and on GPUs.

Importing this package registers the backends; README.md says what they take and give.
"""

from .decode import DecodeTensor
from .geometry import CropTensor, ResizeTensor
from .infer import TorchInfer
from .move import CpuTensor, GpuTensor, SyncTensor
from .operations import ArgMaxTensor, IndexSelectTensor, SoftmaxTensor
from .stream import StreamPool

__all__ = [
    "ArgMaxTensor",
    "CpuTensor",
    "CropTensor",
    "DecodeTensor",
    "GpuTensor",
    "IndexSelectTensor",
    "ResizeTensor",
    "SoftmaxTensor",
    "StreamPool",
    "SyncTensor",
    "TorchInfer",
]
