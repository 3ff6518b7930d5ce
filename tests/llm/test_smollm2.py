"""A real model, SmolLM2-135M-Instruct out of a GGUF file, gives the reference's tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llm_samples import SMOLLM2, greedy, needs_smollm2

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")
pytest.importorskip("tokenizers", reason="needs tokenizers, which is not installed")

from hami.backends.llm.executors.sizing import Limits  # noqa: E402
from hami.backends.llm.executors.torch_executor import TorchExecutor  # noqa: E402
from hami.backends.llm.tokenizer import load_tokenizer  # noqa: E402
from hami.backends.llm.weights import open_weights  # noqa: E402

pytestmark = needs_smollm2
REFERENCE = json.loads((Path(__file__).parent / "smollm2_greedy.json").read_text())


@pytest.fixture(scope="module")
def model() -> Any:
    return open_weights(SMOLLM2)


@pytest.fixture(scope="module")
def executor(model: Any) -> Any:
    config, weights, _ = model
    return TorchExecutor(config, weights, Limits(num_pages=80, page_size=8))


@pytest.mark.parametrize("chunk", [1 << 30, 7])
@pytest.mark.parametrize("name", REFERENCE)
def test_greedy_tokens_are_the_references(executor: Any, name: str, chunk: int) -> None:
    wanted = REFERENCE[name]
    generated = greedy(executor, wanted["prompt_ids"], len(wanted["gen_ids"]), chunk=chunk)
    assert generated == wanted["gen_ids"]


@pytest.mark.parametrize("name", REFERENCE)
def test_prompt_and_text_are_the_references(model: Any, name: str) -> None:
    config, _, file = model
    tokenizer = load_tokenizer(config, file)
    kind, _, text = name.partition(":")
    ids = (
        tokenizer.encode(text)
        if kind == "raw"
        else tokenizer.encode_chat([{"role": "user", "content": text}])
    )
    assert ids == REFERENCE[name]["prompt_ids"]
    assert tokenizer.decode(REFERENCE[name]["gen_ids"], skip_special_tokens=False) == REFERENCE[name]["text"]
