"""Makes `LLM` nodes of this process run a fake model; a pipeline imports it where they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # a replica does not know the tests

from llm_engines import ByteTokenizer, Script, fake_engine

from hami.backends.llm import nodes

TEXT = b"a line of text, byte by byte"


def _load(*arguments: Any) -> Any:
    return fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, TEXT))


nodes.load_engine = _load
