"""Says how to get the model where it is missing; `pipeline.toml` imports it before anything else."""

from __future__ import annotations

from pathlib import Path

from hami.errors import ConfigError

MODEL = Path(__file__).resolve().parent / "models" / "silero_vad_16k_op15.onnx"
FETCHER = MODEL.parent.parent.parent / "fetch_models.py"

if not MODEL.is_file():
    raise ConfigError(f"the model `{MODEL}` is missing", code="model-missing", help=f"run `python {FETCHER}`")
