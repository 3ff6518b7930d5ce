"""The fixtures of running pipelines, shared with tests/flow."""

from __future__ import annotations

from flow.conftest import clean_registry, eventually, in_threads, open_pipe, probe

__all__ = ["clean_registry", "eventually", "in_threads", "open_pipe", "probe"]
