"""OnnxInfer keeps the laws of all engines."""

from backends.conformance import EngineConformance


class TestOnnxInfer(EngineConformance):
    backend = "OnnxInfer"
