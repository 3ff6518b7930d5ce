"""OpenAI's API for the language models of a pipeline: models, completions and chat completions.

`router(service)` is all that the server needs; docs/openai.md says what clients may ask for.
"""

from __future__ import annotations

from .routes import router

__all__ = ["router"]
