"""TensorRT: build engines from ONNX files, keep them, and run them.

Importing this package registers the backends; TensorRT itself is imported when the first model is loaded.
What has been executed and what has not is in README.md.
"""

from .infer import TensorrtInferTensor
from .loaders import LoadTensorrtEngine, Onnx2Tensorrt

__all__ = ["LoadTensorrtEngine", "Onnx2Tensorrt", "TensorrtInferTensor"]
