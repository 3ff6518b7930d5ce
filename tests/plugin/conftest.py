"""The fixtures of running pipelines, shared with tests/flow."""

from __future__ import annotations

from flow.conftest import open_pipe
from registries import clean_registry

__all__ = ["clean_registry", "open_pipe"]
