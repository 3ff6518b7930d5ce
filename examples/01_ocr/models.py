"""Says how to get the models where one is missing; `pipeline.toml` imports it before anything else."""

from __future__ import annotations

from pathlib import Path

from hami.errors import ConfigError

FOLDER = Path(__file__).resolve().parent / "models"
NAMES = ["ch_PP-OCRv4_det_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"]
FETCHER = FOLDER.parent.parent / "fetch_models.py"

for name in NAMES:
    if not (FOLDER / name).is_file():
        raise ConfigError(
            f"the model `{FOLDER / name}` is missing", code="model-missing", help=f"run `python {FETCHER}`"
        )
