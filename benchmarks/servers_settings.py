"""What every server of the comparison is told: how to batch, and where the model is."""

from __future__ import annotations

MAX_BATCH = 16
TIMEOUT_MS = 2
MODEL_VARIABLE = "SERVED_MODEL"
"""The environment variable with the path of the model."""
