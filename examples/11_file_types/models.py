"""Says how to get the model where it is missing; `pipeline.toml` imports it before anything else."""

from __future__ import annotations

from pathlib import Path

from hami.errors import ConfigError

FOLDER = Path(__file__).resolve().parent / "models"
FETCHER = FOLDER.parent.parent / "fetch_models.py"

for model in (FOLDER / "magika_standard_v3_3.onnx", FOLDER / "magika_standard_v3_3.json"):
    if not model.is_file():
        raise ConfigError(
            f"the model `{model}` is missing", code="model-missing", help=f"run `python {FETCHER}`"
        )
