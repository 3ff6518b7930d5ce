"""Says how to get the models where one is missing; `pipeline.toml` imports it before anything else."""

from __future__ import annotations

from pathlib import Path

from hami.errors import ConfigError

HERE = Path(__file__).resolve().parent
CLASSIFIER = HERE.parent / "05_classification" / "models"
FETCHER = HERE.parent / "fetch_models.py"

for path in (
    HERE / "models" / "layout_cdla.onnx",
    CLASSIFIER / "efficientnet_lite0.onnx",
    CLASSIFIER / "imagenet1k_label_to_names.json",
):
    if not path.is_file():
        raise ConfigError(
            f"the model `{path}` is missing", code="model-missing", help=f"run `python {FETCHER}`"
        )
