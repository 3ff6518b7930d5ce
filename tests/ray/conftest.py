"""What the tests of hami.ray share; the cluster is in test_cluster.py, since only one runs at a time."""

from __future__ import annotations

import os

import pytest
from registries import clean_registry

# Read when ray is imported: nothing is reported to anybody, and no token is left in the home of the user.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"
# A thread of Ray Serve that outlives the cluster must not start another one.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"

# `ray` alone would be found as this very folder.
pytest.importorskip("ray.serve", reason="the extra `ray` is not installed")

__all__ = ["clean_registry"]
