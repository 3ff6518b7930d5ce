"""The torch models give the logits of transformers, however a sequence is cut, paged and mixed."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from llm_peers import KINDS, executor_of, peer, peer_logits, save, torch
from llm_samples import Planner, greedy

from hami.backends.llm.attention import sdpa

close = torch.testing.assert_close


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that gives a kind's peer and folder, each made once."""
    made: dict[str, tuple[Any, Path]] = {}

    def pair(kind: str) -> tuple[Any, Path]:
        if kind not in made:
            model = peer(kind)
            made[kind] = (model, save(model, tmp_path_factory.mktemp(kind)))
        return made[kind]

    return pair


def tokens_of(count: int, seed: int = 0) -> list[int]:
    return [random.Random(seed + place).randrange(320) for place in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_transformers(pairs: Any, kind: str) -> None:
    model, folder = pairs(kind)
    executor = executor_of(folder)
    tokens = tokens_of(70)
    planner = Planner(64, 4)
    line = planner.add(tokens)
    found = executor.run(planner.plan([(line, 70)], all_logits=True))
    close(found, peer_logits(model, tokens), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("layout", ["token", "head"])
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_chunks_pages_and_layouts_change_nothing(pairs: Any, kind: str, layout: str, page_size: int) -> None:
    model, folder = pairs(kind)
    executor = executor_of(folder, layout=layout, page_size=page_size, num_pages=64)
    tokens = tokens_of(45, seed=page_size)
    planner = Planner(64, page_size, seed=page_size)
    line = planner.add(tokens)
    parts = [
        executor.run(planner.plan([(line, count)], all_logits=True)) for count in (1, 7, 1, 16, 1, 1, 18)
    ]
    close(torch.cat(parts), peer_logits(model, tokens), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("seed", range(4))
def test_a_mixed_batch_gives_each_row_what_it_gets_alone(pairs: Any, kind: str, seed: int) -> None:
    model, folder = pairs(kind)
    executor = executor_of(folder, num_pages=200)
    chance = random.Random(seed)
    planner = Planner(200, 4, seed=seed)
    lines = [planner.add(tokens_of(chance.randrange(5, 60), seed=number)) for number in range(6)]
    wanted = [peer_logits(model, line.tokens) for line in lines]
    while any(line.computed < len(line.tokens) for line in lines):
        waiting = [line for line in lines if line.computed < len(line.tokens)]
        chosen = chance.sample(waiting, chance.randint(1, len(waiting)))
        work = [(line, chance.choice([1, min(9, len(line.tokens) - line.computed)])) for line in chosen]
        found = executor.run(planner.plan(work))
        for row, (line, _) in enumerate(sorted(work, key=lambda pair: pair[1] > 1)):
            close(found[row], wanted[lines.index(line)][line.computed - 1], rtol=1e-4, atol=2e-5)


def test_many_rows_are_attended_in_parts(pairs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, folder = pairs("llama")
    executor = executor_of(folder, num_pages=100)
    monkeypatch.setattr(sdpa, "MAX_GATHERED_TOKENS", 30)
    planner = Planner(100, 4)
    lines = [planner.add(tokens_of(count, seed=count)) for count in (3, 9, 14, 2, 40, 5, 5)]
    executor.run(planner.plan([(line, len(line.tokens) - 1) for line in lines if len(line.tokens) > 2]))
    executor.run(planner.plan([(lines[3], 1)]))
    found = executor.run(planner.plan([(line, 1) for line in lines]))
    assert found.shape[0] == len(lines)
    for row, line in enumerate(lines):
        close(found[row], peer_logits(model, line.tokens)[-1], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_greedy_tokens_are_those_of_transformers(pairs: Any, kind: str) -> None:
    model, folder = pairs(kind)
    prompt = tokens_of(20)
    wanted = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, 20, dtype=torch.int64),
        max_new_tokens=25,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert greedy(executor_of(folder), prompt, 25, chunk=6) == wanted[0, 20:].tolist()


@pytest.mark.parametrize("layout", ["token", "head"])
def test_what_others_left_on_a_page_is_not_seen(pairs: Any, layout: str) -> None:
    """Not even a NaN, which would pass through a mask."""
    model, folder = pairs("llama")
    executor = executor_of(folder, layout=layout)
    for number in range(3):
        executor._pool.keys(number).fill_(torch.nan)
        executor._pool.values(number).fill_(torch.nan)
    planner = Planner(64, 4)
    lines = [planner.add(tokens_of(count, seed=count)) for count in (5, 11)]
    executor.run(planner.plan([(line, len(line.tokens) - 2) for line in lines]))
    for step in range(2):
        found = executor.run(planner.plan([(line, 1) for line in lines]))
        for row, line in enumerate(lines):
            close(found[row], peer_logits(model, line.tokens)[step - 2], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_stay_near(pairs: Any, dtype: str) -> None:
    model, folder = pairs("qwen3")
    tokens = tokens_of(30)
    planner = Planner(64, 4)
    executor = executor_of(folder, dtype=dtype)
    found = executor.run(planner.plan([(planner.add(tokens), 30)], all_logits=True))
    assert found.dtype == torch.float32
    wanted = peer_logits(model, tokens)
    top = wanted.topk(5).indices.tolist()
    assert all(int(found[row].argmax()) in top[row] for row in range(30))
    assert (found - wanted).abs().max() < 0.15 * wanted.abs().max()


def test_a_sharded_folder_is_the_same_model(pairs: Any, tmp_path: Path) -> None:
    model, _ = pairs("llama")
    folder = save(model, tmp_path, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    planner = Planner(64, 4)
    tokens = tokens_of(12)
    found = executor_of(folder).run(planner.plan([(planner.add(tokens), 12)], all_logits=True))
    close(found, peer_logits(model, tokens), rtol=1e-4, atol=2e-5)


def test_a_bfloat16_folder_is_read_in_the_type_that_is_wanted(pairs: Any, tmp_path: Path) -> None:
    model = peer("llama")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    stored = copy.deepcopy(model).bfloat16()
    executor = executor_of(save(stored, tmp_path))
    planner = Planner(64, 4)
    tokens = tokens_of(12)
    found = executor.run(planner.plan([(planner.add(tokens), 12)], all_logits=True))
    assert (executor.config.dtype, executor.dtype) == ("bfloat16", torch.float32)
    close(found, peer_logits(model, tokens), rtol=1e-4, atol=2e-5)
