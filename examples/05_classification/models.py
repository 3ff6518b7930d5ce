"""Says how to get the models where one is missing; `pipeline.toml` imports it before anything else."""

from __future__ import annotations

import sys
from pathlib import Path

from hami.errors import ConfigError

HERE = Path(__file__).resolve().parent
FETCHER = HERE.parent / "fetch_models.py"

for name in ("imagenet1k_label_to_names.json", "efficientnet_lite0.pth", "efficientnet_lite0.onnx"):
    if not (HERE / "models" / name).is_file():
        raise ConfigError(
            f"the model `{HERE / 'models' / name}` is missing",
            code="model-missing",
            help=f"run `python {FETCHER}`",
        )

# where `TorchInfer(module="efficientnet_lite0:network")` finds the module
if str(HERE) not in sys.path:
    sys.path.append(str(HERE))
