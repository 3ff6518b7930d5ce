"""The fixtures of running pipelines, shared with tests/flow."""

from __future__ import annotations

from flow.conftest import eventually, in_threads, open_pipe, probe
from registries import clean_registry

__all__ = ["clean_registry", "eventually", "in_threads", "open_pipe", "probe"]
