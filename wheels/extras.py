"""Use something of each extra where none is installed: the error names the extra, and nothing else happens.

    python extras.py        in an environment with hami-core and what that needs

What an extra serves outside of the package (`bench`, `ocr`, `dev`) is not asked here, nor what needs another
extra first (`torchvision`, `grammar`). Ends with 1 and what came instead.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable

import hami
from hami.cli import app


def pipe(source: object) -> Callable[[], object]:
    return lambda: hami.pipe(source)


def command(*arguments: str) -> Callable[[], object]:
    """Return a use of the command line, whose error is what it printed."""

    def run() -> None:
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            status = app(list(arguments), standalone_mode=False)
        if status:
            raise RuntimeError(printed.getvalue())

    return run


USES: dict[str, dict[str, Callable[[], object]]] = {
    "onnx": {"OnnxInfer": pipe({"backend": "OnnxInfer", "model": __file__})},
    "image": {"DecodeImage": pipe("DecodeImage"), "in an expression": pipe("S[Identity, ResizeImage(8, 8)]")},
    "torch": {"TorchInfer": pipe("TorchInfer(model.pt)"), "CpuTensor": pipe("CpuTensor")},
    "tensorrt": {
        "TensorrtInferTensor": pipe("TensorrtInferTensor"),
        "TensorrtTensor": pipe("TensorrtTensor(model.onnx)"),
    },
    "llm": {
        "LLM": pipe("LLM(model.gguf)"),
        "hami.LLM": lambda: hami.LLM,
        "hami.AsyncLLM": lambda: hami.AsyncLLM,
    },
    "serve": {"hami serve": command("serve", "Identity", "--port", "0")},
    "ray": {
        "hami.ray": lambda: importlib.import_module("hami.ray"),
        "hami deploy": command("deploy", "Identity", "--ray"),
    },
}


def outcome(use: Callable[[], object]) -> str:
    """Return the error of a use as text."""
    try:
        use()
    except Exception as error:
        return f"{error} {getattr(error, 'help', '')}"
    return "it worked"


def faults() -> list[str]:
    """Return a line for each use whose error does not name its extra."""
    found = []
    for extra, uses in USES.items():
        for name, use in uses.items():
            text = outcome(use)
            if f"pip install hami-core[{extra}]" not in text:
                found.append(f"{extra}: {name}: {text}")
    return found


def main() -> None:
    if found := faults():
        sys.exit("\n".join(found))
    print(f"each of these names its extra: {', '.join(USES)}")


if __name__ == "__main__":
    main()
