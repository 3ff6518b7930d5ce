"""Name what photographs show, with every engine that this machine has, from one file of weights.

Run: python examples/05_classification/run.py [PICTURE ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import hami

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from photos import EXPECTED, photo_bytes  # examples/photos.py

HERE = Path(__file__).resolve().parent
INPUT = "inputs=image:float32[-1x3x224x224], outputs=scores"

# what stands in the line `engine` of pipeline.toml
ENGINES = {
    "ONNX Runtime": "OnnxInfer(model=models/efficientnet_lite0.onnx)",
    "torch.export": "TorchInfer(model=models/efficientnet_lite0.pt2)",
    "TorchScript": f"TorchInfer(model=models/efficientnet_lite0.pt, {INPUT})",
    "nn.Module": f"""
        TorchInfer(module=efficientnet_lite0:network, weights=models/efficientnet_lite0.pth, {INPUT})""",
    "AOTInductor": f"TorchInfer(model=models/efficientnet_lite0.cpu.pt2, {INPUT})",
    "TensorRT": """
        IoC[ModelLoader(model=models/efficientnet_lite0.onnx)[(.onnx)Onnx2Tensorrt, (.trt)LoadTensorrtEngine],
            TensorrtInferTensor;
            CatSplit[S[FixTensor, CatTensor], S[ContiguousTensor, TensorrtInferTensor], SplitTensor]]""",
}
Labels = list[dict[str, float]]


def reason_against(engine: str) -> str:
    """Return why this machine cannot run an engine; nothing if it can."""
    if engine not in ("ONNX Runtime", "TensorRT") and importlib.util.find_spec("torch") is None:
        return "no torch: pip install hami-core[torch]"
    if engine == "AOTInductor" and not (HERE / "models" / "efficientnet_lite0.cpu.pt2").is_file():
        return f"no package yet: python {HERE / 'export.py'} --package"
    if engine == "TensorRT":
        packages = ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings")
        if not any(importlib.util.find_spec(name) for name in packages):
            return "no TensorRT: pip install hami-core[tensorrt]"
        return "" if Path("/dev/nvidia0").exists() else "TensorRT is installed, but there is no NVIDIA GPU"
    return ""


def classify(engine: str, pictures: dict[str, bytes]) -> dict[str, Labels]:
    """Return the likeliest labels of every picture, all sent in one call."""
    os.environ["ENGINE"] = ENGINES[engine]
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        answers = pipe([{"data": data} for data in pictures.values()])
    return {name: answer["result"] for name, answer in zip(pictures, answers, strict=True)}


def main() -> None:
    """Print a line for each engine and picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pictures", nargs="*", type=Path, help="pictures instead of the two photographs")
    options = parser.parse_args()
    for path in options.pictures:
        if not path.is_file():
            parser.error(f"`{path}` is no file")
    pictures = {path.name: path.read_bytes() for path in options.pictures}
    pictures = pictures or {name: photo_bytes(name) for name in EXPECTED}
    console = Console()
    table = Table("engine", "picture", "label", "probability")
    seen: dict[str, set[str]] = {name: set() for name in pictures}
    for engine in ENGINES:
        if reason := reason_against(engine):
            console.print(f"without {engine}: {reason}", markup=False, highlight=False)
            continue
        for name, labels in classify(engine, pictures).items():
            seen[name].add(str(labels[0]["label"]))
            table.add_row(engine, name, str(labels[0]["label"]), f"{labels[0]['probability']:.4f}")
    console.print(table)
    is_same = all(len(labels) == 1 for labels in seen.values())
    console.print("all engines give the same labels" if is_same else f"the engines differ: {seen}")


if __name__ == "__main__":
    main()
