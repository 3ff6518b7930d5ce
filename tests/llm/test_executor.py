"""The torch executor: page copies, swapping, forks, sizes from memory, and what it refuses."""

from __future__ import annotations

import dataclasses
import logging
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llm_peers import executor_of, peer, peer_logits, save, torch
from llm_samples import Line, Planner, view

from hami.backends.llm.config import config_of_folder
from hami.backends.llm.executors import sizing
from hami.backends.llm.executors.cpu_executor import CpuExecutor
from hami.backends.llm.executors.sizing import Limits, num_pages_for, worst_plan
from hami.backends.llm.executors.torch_executor import TorchExecutor, choose_dtype
from hami.backends.llm.kv_pool import KvPool
from hami.backends.llm.weights import open_weights
from hami.errors import BuildError

close = torch.testing.assert_close
TOKENS = [random.Random(number).randrange(320) for number in range(40)]


@pytest.fixture(scope="module")
def model() -> Any:
    return peer("qwen2")


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(model, tmp_path_factory.mktemp("executor"))


def run_rest(executor: Any, planner: Planner, line: Line, **copies: Any) -> Any:
    return executor.run(planner.plan([(line, len(line.tokens) - line.computed)], **copies))[-1]


@pytest.mark.parametrize("layout", ["token", "head"])
def test_a_fork_shares_full_pages_and_copies_the_last(model: Any, folder: Path, layout: str) -> None:
    executor = executor_of(folder, layout=layout)
    planner = Planner(64, 4)
    first = planner.add(TOKENS[:10])
    run_rest(executor, planner, first)
    second = planner.add([*TOKENS[:10], 7, 8])
    copied = planner.free.pop()
    second.pages, second.computed = [*first.pages[:2], copied], 10
    first.tokens += [300, 301]
    copies = [(first.pages[2], copied)]
    found = executor.run(planner.plan([(first, 2), (second, 2)], copies=copies))
    for row, line in enumerate((first, second)):
        close(found[row], peer_logits(model, line.tokens)[-1], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("layout", ["token", "head"])
def test_a_sequence_that_was_swapped_goes_on_where_it_was(model: Any, folder: Path, layout: str) -> None:
    executor = executor_of(folder, layout=layout, num_swap_pages=8)
    planner = Planner(64, 4)
    line, other = planner.add(TOKENS[:10]), planner.add(TOKENS[10:30])
    run_rest(executor, planner, line)
    old, line.pages = line.pages, []
    planner.free += old[::-1]  # the other sequence gets them next, while they are swapped out
    out = [(page, place + 2) for place, page in enumerate(old)]
    run_rest(executor, planner, other, swap_out=out)
    assert set(old) <= set(other.pages)
    line.pages = [planner.free.pop() for _ in old]
    back = [(place + 2, page) for place, page in enumerate(line.pages)]
    line.tokens += TOKENS[30:33]
    close(
        run_rest(executor, planner, line, swap_in=back),
        peer_logits(model, line.tokens)[-1],
        rtol=1e-4,
        atol=2e-5,
    )
    other.tokens += [1]
    close(run_rest(executor, planner, other), peer_logits(model, other.tokens)[-1], rtol=1e-4, atol=2e-5)


def test_copies_of_one_step_go_out_then_in_then_across() -> None:
    pool = KvPool(
        2, 5, 2, 1, 4, dtype=torch.float32, device=torch.device("cpu"), layout="token", num_swap_pages=3
    )

    def fill(page: int, value: float) -> None:
        for layer in range(2):
            for part in pool.paged(layer):
                part[page] = value

    for page in range(5):
        fill(page, page)
    pairs = [torch.tensor(pair) for pair in ([[1, 0]], [[0, 2]], [[2, 3], [4, 1]])]
    pool.copy_pages(*pairs)
    for layer in range(2):
        for part in pool.paged(layer):
            assert part[:, 0, 0, 0].tolist() == [0, 4, 1, 1, 4]


@pytest.mark.parametrize("layout", ["token", "head"])
def test_rows_of_slots_are_those_of_the_layout(layout: str) -> None:
    pool = KvPool(1, 6, 4, 3, 2, dtype=torch.float32, device=torch.device("cpu"), layout=layout)
    rows = pool.rows(torch.arange(24))
    assert sorted(rows.flatten().tolist()) == list(range(72))
    pool.keys(0)[:, 0] = torch.arange(72.0)
    keys, _ = pool.paged(0)
    assert keys.shape == ((6, 4, 3, 2) if layout == "token" else (6, 3, 4, 2))
    for slot in range(24):
        for head in range(3):
            place = (slot // 4, slot % 4, head) if layout == "token" else (slot // 4, head, slot % 4)
            assert keys[place][0] == rows[slot, head]


def test_an_empty_plan_does_its_copies_and_gives_no_logits(folder: Path) -> None:
    executor = executor_of(folder)
    executor._pool.keys(0)[:] = 5
    plan = Planner(64, 4).plan([], copies=[(3, 4)])
    executor._pool.paged(0)[0][3] = 7
    assert executor.run(plan).shape == (0, 320)
    assert (executor._pool.paged(0)[0][4] == 7).all()


def test_a_row_whose_logits_nobody_wants_is_computed_all_the_same(model: Any, folder: Path) -> None:
    executor = executor_of(folder)
    planner = Planner(64, 4)
    line = planner.add(TOKENS[:9])
    plan = planner.plan([(line, 6)])
    plan.logit_tokens = view([])
    assert executor.run(plan).shape == (0, 320)
    close(run_rest(executor, planner, line), peer_logits(model, TOKENS[:9])[-1], rtol=1e-4, atol=2e-5)


def test_a_plans_memory_may_change_once_it_has_run(model: Any, folder: Path) -> None:
    executor = executor_of(folder)
    planner = Planner(64, 4)
    line = planner.add(TOKENS[:9])
    found = run_rest(executor, planner, line)
    planner.table[:] = 0
    close(found, peer_logits(model, TOKENS[:9])[-1], rtol=1e-4, atol=2e-5)


def test_logits_may_be_wanted_of_any_tokens(model: Any, folder: Path) -> None:
    planner = Planner(64, 4)
    plan = planner.plan([(planner.add(TOKENS[:20]), 20)])
    plan.logit_tokens = view([3, 4, 19])
    found = executor_of(folder).run(plan)
    close(found, peer_logits(model, TOKENS[:20])[[3, 4, 19]], rtol=1e-4, atol=2e-5)


def test_a_closed_executor_has_let_go_of_its_memory(folder: Path) -> None:
    executor = executor_of(folder)
    executor.close()
    executor.close()
    assert not hasattr(executor, "_model") and not hasattr(executor, "_pool")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"dtype": "float8"}, "llm-dtype", "`float8`"),
        ({"dtype": ""}, "llm-dtype", "``"),
        ({"attention": "flash"}, "llm-attention", "`flash`"),
    ],
)
def test_unknown_names_are_refused_with_those_that_are_known(
    folder: Path, options: dict[str, str], code: str, said: str
) -> None:
    config, weights, _ = open_weights(folder)
    with pytest.raises(BuildError) as caught:
        TorchExecutor(config, weights, Limits(num_pages=4), **options)
    assert caught.value.code == code and said in caught.value.message and "`" in caught.value.help


def test_auto_is_float32_on_the_cpu(folder: Path) -> None:
    config = config_of_folder(folder)
    for stored in ("float32", "bfloat16", "float16"):
        assert (
            choose_dtype("auto", dataclasses.replace(config, dtype=stored), torch.device("cpu"))
            == torch.float32
        )
    assert choose_dtype("bfloat16", config, torch.device("cpu")) == torch.bfloat16


def pages(folder: Path, monkeypatch: pytest.MonkeyPatch, memory: float, peak: float, **limits: Any) -> int:
    """Return the number of pages for so much memory, in bytes."""
    monkeypatch.setattr(sizing, "available_memory", lambda device, share: memory)
    config = config_of_folder(folder)
    return num_pages_for(config, Limits(**limits), 4, torch.device("cpu"), lambda: peak)


PAGE = 2 * 3 * 2 * 16 * 4 * 16  # bytes of a page: K and V, layers, heads, their size, float32, tokens


def test_pages_fill_the_memory_beside_a_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"max_model_len": 64, "max_running": 100}
    assert pages(folder, monkeypatch, 50.5 * PAGE, 20 * PAGE, **limits) == 30
    assert pages(folder, monkeypatch, 1000 * PAGE, 0, **limits) == 401  # more would never be used


def test_a_memory_too_small_for_one_sequence_is_refused_with_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"max_model_len": 64, "max_running": 100}
    assert pages(folder, monkeypatch, 5 * PAGE, 0, **limits) == 5
    for memory in (4.9 * PAGE, 0, -1e9):
        with pytest.raises(BuildError, match="64 tokens") as caught:
            pages(folder, monkeypatch, memory, 0, **limits)
        assert caught.value.code == "llm-memory" and "max_model_len" in caught.value.help


def test_a_number_of_pages_is_taken_as_it_is_with_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hami.llm"):
        assert pages(folder, monkeypatch, 0, 0, max_model_len=64, num_pages=5) == 5
        assert not caplog.records
        assert pages(folder, monkeypatch, 0, 0, max_model_len=64, num_pages=4) == 4
    assert "a sequence of 64 tokens does not fit" in caplog.text


def test_pages_to_swap_to_take_from_the_same_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"max_model_len": 64, "max_running": 100, "num_swap_pages": 10}
    assert pages(folder, monkeypatch, 50 * PAGE, 20 * PAGE, **limits) == 20


@pytest.mark.parametrize("executor_type", [TorchExecutor, CpuExecutor])
def test_pages_are_counted_from_the_machines_memory(folder: Path, executor_type: Any) -> None:
    limits = Limits(max_model_len=100, max_running=3, max_batched_tokens=512, page_size=16)
    config, weights, _ = open_weights(folder)
    executor = executor_type(config, weights, limits)
    assert executor.num_pages == 3 * 7 + 1
    planner = Planner(22, 16)
    executor.run(planner.plan([(planner.add(TOKENS), 40)]))


@pytest.mark.parametrize("tokens", [1, 5, 64, 100, 200])
def test_the_worst_plan_is_a_plan_of_full_sequences(folder: Path, tokens: int) -> None:
    limits = Limits(max_model_len=64, page_size=16, num_pages=2, max_running=3)
    plan = worst_plan(limits, tokens)
    assert len(plan.token_ids) == len(plan.slots) == len(plan.positions) == tokens
    assert plan.query_starts[-1] == tokens and set(plan.context_lens) == {64}
    assert executor_of(folder, num_pages=2, page_size=16).run(plan).shape == (min(tokens, 3), 320)


PEAK = """
import numpy as np, torch
from hami.backends.llm.executors import sizing

size, held, cpu = 64 << 20, [], torch.device("cpu")
limits = sizing.Limits(max_batched_tokens=256)
peak = sizing.measured_peak(limits, cpu, lambda plan: held.append(np.ones(size, np.uint8).sum()))
assert len(held) == 2, "once before it is measured"
print(peak > 0.9 * size, sizing.measured_peak(limits, cpu, lambda plan: None) < 0.5 * size)
"""


def test_the_peak_of_a_step_is_seen() -> None:
    # In a process of its own: memory that other tests left free would serve the step unseen.
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_free_memory_is_a_share_less_what_is_in_use() -> None:
    device = torch.device("cpu")
    whole, half = sizing.available_memory(device, 1.0), sizing.available_memory(device, 0.5)
    assert whole > 0 and half < whole
