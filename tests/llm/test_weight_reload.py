"""Weights exchanged while requests run: nobody ends, and each token is of one model or of the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_engines import WAIT_S, Hooked, fake_llm, greedy_params
from llm_peers import SMALL, executor_of, peer, save, torch
from llm_samples import greedy

from hami.backends.llm.engine import Engine
from hami.backends.llm.executors.cpu_executor import CpuExecutor
from hami.backends.llm.executors.sizing import Limits
from hami.backends.llm.executors.torch_executor import TorchExecutor
from hami.backends.llm.llm import LLM
from hami.backends.llm.loading import make_scheduler, reload_weights
from hami.backends.llm.settings import EngineSettings
from hami.backends.llm.vocabulary import Vocabulary
from hami.backends.llm.weights import open_weights
from hami.errors import BuildError

PROMPTS = [[3 + (7 * i + j) % 300 for j in range(6 + i)] for i in range(6)]
LENGTH = 40
EXECUTORS = {"torch": TorchExecutor, "cpu_paged": CpuExecutor}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of two models of one size."""
    first, second = peer("llama"), peer("llama")
    torch.manual_seed(99)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    place = tmp_path_factory.mktemp("reload")
    return save(first, place / "first"), save(second, place / "second")


@pytest.fixture(scope="module")
def continued(folders: tuple[Path, Path]) -> Callable[[int, list[int], int], list[int]]:
    """Return a function that gives what model 0 or 1 continues some tokens with, by itself."""
    executors = [executor_of(folder) for folder in folders]
    return lambda model, tokens, count: greedy(executors[model], tokens, count)


def llm_of(folder: Path, executor: str = "torch", wrap: Any = lambda inner: inner, **keywords: Any) -> LLM:
    settings = EngineSettings.from_keywords("test", {"max_model_len": 64, "page_size": 4, **keywords})
    limits = Limits(
        page_size=4,
        num_pages=settings.num_pages or 200,
        max_model_len=64,
        max_batched_tokens=settings.max_batched_tokens,
        num_swap_pages=100 if settings.preempt == "swap" else 0,
    )
    config, weights, _ = open_weights(folder)
    made = wrap(EXECUTORS[executor](config, weights, limits, dtype="float32"))
    scheduler = make_scheduler(made, limits, settings)
    return LLM.of_engine(Engine(scheduler, made, Vocabulary(SMALL["vocab_size"], None, eos_ids=())))


@pytest.fixture(params=list(EXECUTORS))
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def tokens_of(llm: LLM, prompts: list[list[int]]) -> list[list[int]]:
    return [each.outputs[0].token_ids for each in llm.generate(prompts, greedy_params(LENGTH))]


@pytest.mark.parametrize("prefix_cache", ["none", "hash", "radix"])
def test_after_a_reload_every_answer_is_that_of_the_new_model(
    executor: str, prefix_cache: str, folders: tuple[Path, Path], continued: Any
) -> None:
    with llm_of(folders[0], executor, prefix_cache=prefix_cache) as llm:
        assert tokens_of(llm, PROMPTS) == [continued(0, prompt, LENGTH) for prompt in PROMPTS]
        llm.reload_weights(folders[1])
        assert llm.stats()["pages_cached"] == 0
        assert tokens_of(llm, PROMPTS) == [continued(1, prompt, LENGTH) for prompt in PROMPTS]
        llm.reload_weights(folders[0])
        assert tokens_of(llm, PROMPTS) == [continued(0, prompt, LENGTH) for prompt in PROMPTS]


class Pause:
    """A hook that holds one step until it is told to go on."""

    def __init__(self, at_step: int) -> None:
        self.num_steps, self.at_step = 0, at_step
        self.is_reached, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, plan: Any, logits: Any) -> Any:
        self.num_steps += 1
        if self.num_steps == self.at_step:
            self.is_reached.set()
            assert self.may_go_on.wait(WAIT_S), "nobody let the step go on"
        return logits


@pytest.mark.parametrize("at_step", [1, 2, 9, 30])
@pytest.mark.parametrize(
    "settings", [{}, {"preempt": "swap", "num_pages": 40}, {"max_batched_tokens": 8}], ids=str
)
def test_requests_under_way_keep_their_tokens_and_go_on_with_the_new_weights(
    executor: str, settings: dict[str, Any], at_step: int, folders: tuple[Path, Path], continued: Any
) -> None:
    pause = Pause(at_step)
    answers: list[list[int]] = []
    with llm_of(folders[0], executor, lambda inner: Hooked(inner, pause), **settings) as llm:
        engine = llm._engine
        asking = threading.Thread(target=lambda: answers.extend(tokens_of(llm, PROMPTS)))
        asking.start()
        assert pause.is_reached.wait(WAIT_S)
        reloading = threading.Thread(target=lambda: reload_weights(engine, folders[1]))
        reloading.start()
        deadline = time.monotonic() + WAIT_S
        while not engine._inbox and time.monotonic() < deadline:
            reloading.join(0.001)  # until it waits for the step's end
        pause.may_go_on.set()
        reloading.join(WAIT_S)
        asking.join(WAIT_S)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        old = continued(0, prompt, LENGTH)
        num_old = next(
            (i for i, pair in enumerate(zip(answer, old, strict=True)) if pair[0] != pair[1]), LENGTH
        )
        # The first tokens of the new model may happen to be those of the old one.
        assert any(
            answer[kept:] == continued(1, prompt + answer[:kept], LENGTH - kept)
            for kept in range(num_old + 1)
        )
        assert answer != old


def test_a_model_of_another_size_is_refused_and_nothing_changes(
    executor: str, folders: tuple[Path, Path], continued: Any, tmp_path: Path
) -> None:
    other = save(peer("llama-one-kv-head"), tmp_path / "other")
    with llm_of(folders[0], executor) as llm:
        with pytest.raises(
            BuildError, match="`kv_heads` of the new model is `1`, and of the running one `2`"
        ) as caught:
            llm.reload_weights(other)
        assert caught.value.code == "llm-reload"
        assert tokens_of(llm, PROMPTS[:1]) == [continued(0, PROMPTS[0], LENGTH)]


def test_a_damaged_model_is_refused_and_nothing_changes(
    executor: str, folders: tuple[Path, Path], continued: Any, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    damaged = save(peer("llama"), tmp_path / "damaged")
    tensors = load_file(damaged / "model.safetensors")
    del tensors["model.layers.2.mlp.down_proj.weight"]
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    with llm_of(folders[0], executor) as llm:
        with pytest.raises(BuildError, match="down_proj") as caught:
            llm.reload_weights(damaged)
        assert caught.value.code == "llm-weights"
        assert tokens_of(llm, PROMPTS[:1]) == [continued(0, PROMPTS[0], LENGTH)]


def test_a_missing_model_is_named_and_a_closed_engine_says_so(folders: tuple[Path, Path]) -> None:
    llm = llm_of(folders[0])
    with pytest.raises(BuildError, match="nowhere"):
        llm.reload_weights(folders[0] / "nowhere")
    llm.close()
    with pytest.raises(Exception, match="the engine is closed"):
        llm.reload_weights(folders[1])


def test_all_sequences_start_over_only_between_two_steps() -> None:
    with fake_llm() as llm:
        scheduler = llm._engine._scheduler
        scheduler.add([1, 2, 3])
        plan = scheduler.step()
        with pytest.raises(RuntimeError, match="a plan is in flight"):
            scheduler.recompute_all()
        scheduler.commit(plan, plan.sample_sequences, [4])
        scheduler.recompute_all()
        assert scheduler.step().num_tokens == 4
