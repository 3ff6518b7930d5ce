"""A real model, SmolLM2-135M-Instruct out of a GGUF file, gives the tokens of two references.

`smollm2_greedy.json` has texts, ids and greedy tokens; `smollm2_more.json` was written by `make_reference.py`
with transformers. In both no two best logits are nearer than 1e-4, so that in float32 every token must agree.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from llm_samples import SMOLLM2, Planner, greedy, needs_smollm2

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")
pytest.importorskip("tokenizers", reason="needs tokenizers, which is not installed")

from hami.backends.llm.executors.sizing import Limits  # noqa: E402
from hami.backends.llm.executors.torch_executor import TorchExecutor  # noqa: E402
from hami.backends.llm.sampler import sample  # noqa: E402
from hami.backends.llm.sampling import SamplingParams  # noqa: E402
from hami.backends.llm.sampling_state import SamplingState  # noqa: E402
from hami.backends.llm.tokenizer import load_tokenizer  # noqa: E402
from hami.backends.llm.weights import open_weights  # noqa: E402

pytestmark = needs_smollm2
HERE = Path(__file__).parent
REFERENCE = json.loads((HERE / "smollm2_greedy.json").read_text())
MORE = json.loads((HERE / "smollm2_more.json").read_text())


@pytest.fixture(scope="module")
def model() -> Any:
    return open_weights(SMOLLM2)


@pytest.fixture(scope="module")
def executor(model: Any) -> Any:
    config, weights, _ = model
    return TorchExecutor(config, weights, Limits(num_pages=600, page_size=4, max_model_len=256))


def test_the_file_is_read_as_what_it_is(model: Any) -> None:
    config, _, file = model
    assert (config.architecture, config.layers, config.hidden, config.vocab) == ("llama", 30, 576, 49152)
    assert (config.heads, config.kv_heads, config.head_dim, config.rope_theta) == (9, 3, 64, 100000.0)
    assert config.tie_embeddings and config.eos_ids == (2,) and not config.qkv_bias
    tokenizer = load_tokenizer(config, file)
    assert not tokenizer.adds_bos and tokenizer.has_chat_template
    assert tokenizer.special_ids == frozenset(range(17))


@pytest.mark.parametrize("name", REFERENCE)
def test_prompts_and_texts_are_the_references(model: Any, name: str) -> None:
    config, _, file = model
    tokenizer = load_tokenizer(config, file)
    kind, _, text = name.partition(":")
    chat = [{"role": "user", "content": text}]
    ids = tokenizer.encode(text) if kind == "raw" else tokenizer.encode_chat(chat)
    assert ids == REFERENCE[name]["prompt_ids"]
    generated = REFERENCE[name]["gen_ids"]
    assert tokenizer.decode(generated, skip_special_tokens=False) == REFERENCE[name]["text"]


def test_prompts_are_encoded_as_by_transformers(model: Any) -> None:
    config, _, file = model
    tokenizer = load_tokenizer(config, file)
    for name, wanted in MORE.items():
        assert tokenizer.encode(wanted["prompt"]) == wanted["prompt_ids"], name
        if name.startswith("chat:"):
            assert tokenizer.apply_chat([{"role": "user", "content": name[5:]}]) == wanted["prompt"]


@pytest.mark.parametrize("chunk", [1 << 30, 7])
@pytest.mark.parametrize("name", REFERENCE)
def test_greedy_tokens_are_the_references(executor: Any, name: str, chunk: int) -> None:
    wanted = REFERENCE[name]
    generated = greedy(executor, wanted["prompt_ids"], len(wanted["gen_ids"]), chunk=chunk)
    assert generated == wanted["gen_ids"]


def test_all_prompts_at_once_in_chunks_give_the_tokens_of_transformers(executor: Any) -> None:
    """Prompts of any progress and tokens share each batch; the sampler chooses greedily."""
    assert min(min(wanted["gaps"]) for wanted in MORE.values()) > 1e-4
    chance = random.Random(0)
    planner = Planner(executor.num_pages, executor.page_size, max_running=len(MORE))
    lines = [planner.add(wanted["prompt_ids"]) for wanted in MORE.values()]
    targets = [len(wanted["prompt_ids"]) + len(wanted["gen_ids"]) for wanted in MORE.values()]
    params = SamplingParams(temperature=0, max_tokens=64)
    states = [SamplingState(params, line.tokens) for line in lines]
    while running := [line for line, length in zip(lines, targets, strict=True) if len(line.tokens) < length]:
        chosen = [line for line in running if chance.random() < 0.9] or running
        work = [(line, min(len(line.tokens) - line.computed, chance.choice([1, 5, 30]))) for line in chosen]
        plan = planner.plan(work)
        logits = executor.run(plan)
        order = [line for line, _ in sorted(work, key=lambda pair: pair[1] > 1)]
        rows = [row for row, line in enumerate(order) if line.computed == len(line.tokens)]
        tokens = sample(logits, [states[order[row].row] for row in rows], rows=rows).tokens
        for row, token in zip(rows, tokens, strict=True):
            order[row].tokens.append(token)
            states[order[row].row].append(token)
    for line, (name, wanted) in zip(lines, MORE.items(), strict=True):
        assert line.tokens[len(wanted["prompt_ids"]) :] == wanted["gen_ids"], name


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_half_the_precision_stays_among_the_likeliest(model: Any, executor: Any, dtype: str) -> None:
    """At the first token that differs, each side's is among the other's five likeliest."""
    config, weights, _ = model
    half = TorchExecutor(config, weights, Limits(num_pages=40, page_size=16), dtype=dtype)
    for wanted in list(MORE.values())[:1]:
        tokens = wanted["prompt_ids"] + wanted["gen_ids"]
        logits = []
        for runner in (executor, half):
            planner = Planner(runner.num_pages, runner.page_size)
            logits.append(runner.run(planner.plan([(planner.add(tokens), len(tokens))], all_logits=True)))
        exact, rough = logits
        differing = (exact.argmax(-1) != rough.argmax(-1)).nonzero()[:, 0].tolist()
        for place in differing[:1]:
            assert int(exact[place].argmax()) in rough[place].topk(5).indices
            assert int(rough[place].argmax()) in exact[place].topk(5).indices
