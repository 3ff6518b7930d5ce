"""EfficientNet-Lite0 as an nn.Module: the class of a PyPI package, imported out of the wheel fetched for it.

`TorchInfer(module="efficientnet_lite0:network", weights=...)` calls `network`, `export.py` does too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import nn

MODELS = Path(__file__).resolve().parent / "models"
WHEEL = MODELS / "efficientnet_lite_pytorch.whl"
SIDE_PX = 224


def network() -> nn.Module:
    """Return the network, without its trained weights."""
    if str(WHEEL) not in sys.path:
        sys.path.append(str(WHEEL))
    from efficientnet_lite_pytorch import EfficientNet

    made: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    return made.eval()
