"""Check the benchmark of language models: its workloads, its figures on a known clock, and its tables."""

from __future__ import annotations

import argparse
import math
from typing import Any

import pytest
from benchmark_files import load

llm, cases, workloads = load("llm"), load("llm_cases"), load("llm_workloads")


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


class Peer:
    """An engine that takes a fixed time for each token of a prompt and for each step of all requests."""

    def __init__(self, clock: Clock, *, prompt_s: float = 0.001, step_s: float = 0.01) -> None:
        self.clock, self.prompt_s, self.step_s = clock, prompt_s, step_s
        self.num_calls = 0

    def __call__(self, work: Any) -> list[Any]:
        self.num_calls += 1
        self.clock.now_s += self.prompt_s * work.num_prompt_tokens + self.step_s * (max(work.max_tokens) - 1)
        return [workloads.Answer([7] * count, 0.5) for count in work.max_tokens]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(cases.time, "perf_counter", made.perf_counter)
    return made


# --- workloads ------------------------------------------------------------------------------------


def test_the_crowd_has_the_lengths_that_others_were_measured_with() -> None:
    work = workloads.crowd()

    assert len(work.prompts) == len(work.max_tokens) == 32
    assert (work.num_prompt_tokens, work.num_output_tokens) == (2348, 2537)
    assert all(16 <= len(prompt) <= 128 for prompt in work.prompts)


def test_requests_that_share_a_prefix_differ_behind_it() -> None:
    work = workloads.shared(3)

    assert len({tuple(prompt[:512]) for prompt in work.prompts}) == 1
    assert len({tuple(prompt[512:]) for prompt in work.prompts}) == 16
    assert [len(prompt) for prompt in work.prompts] == [528] * 16
    assert workloads.shared(4).prompts[0][:512] != work.prompts[0][:512]


def test_every_engine_gets_the_same_workload() -> None:
    assert workloads.crowd() == workloads.crowd()
    assert workloads.alone(64, 8) == workloads.alone(64, 8)


# --- figures --------------------------------------------------------------------------------------


def test_a_step_is_what_a_further_token_adds(clock: Clock) -> None:
    assert cases.step_ms(Peer(clock, prompt_s=0.002, step_s=0.01), 8) == pytest.approx(10)


def test_the_rate_of_a_prompt_is_that_of_a_run_with_one_token(clock: Clock) -> None:
    assert cases.prompt_rate(Peer(clock, prompt_s=0.002), 64) == pytest.approx(500)


def test_the_crowd_is_told_in_output_tokens_a_second_and_the_median_wait(clock: Clock) -> None:
    figures = cases.crowd_figures(Peer(clock, prompt_s=0.001, step_s=0.001))

    assert figures["crowd_tokens_per_s"] == pytest.approx(
        2537 / (2.348 + 0.001 * (max(workloads.crowd().max_tokens) - 1))
    )
    assert figures["crowd_first_token_ms"] == 500


def test_a_slow_peer_gets_no_further_try(clock: Clock) -> None:
    slow, fast = Peer(clock, prompt_s=1), Peer(clock, prompt_s=0.001)

    cases.prompt_rate(slow, 64)
    cases.prompt_rate(fast, 64)

    assert (slow.num_calls, fast.num_calls) == (1, cases.TRIES)


def test_an_engine_that_gives_fewer_tokens_than_asked_for_ends_the_benchmark(clock: Clock) -> None:
    with pytest.raises(AssertionError, match="tokens instead of"):
        cases.timed(lambda work: [workloads.Answer([7], 0.0)], workloads.alone(4, 2))


# --- tables ---------------------------------------------------------------------------------------


def row(case: str, number: int = 1, **figures: float) -> dict[str, Any]:
    return {"case": case, "round": number, "tokens": [1, 2, 3, 4], **figures}


def test_above_one_is_better_whether_a_figure_should_be_low_or_high() -> None:
    rows = [
        row("hami", step_1_ms=5.0, crowd_tokens_per_s=900.0),
        row("vllm", step_1_ms=10.0, crowd_tokens_per_s=600.0),
        row("hami-q4", step_1_ms=2.0, crowd_tokens_per_s=800.0),
    ]

    text = llm.ratio_table(rows, ["hami", "vllm", "hami-q4"])

    (line,) = [line for line in text.splitlines() if line.startswith("| beside")]
    assert line.startswith("| beside vllm |") and "| 2.00x |" in line and "| 1.50x |" in line


def test_ratios_are_those_within_a_round() -> None:
    rows = [
        *(row("hami", i, step_1_ms=ms) for i, ms in ((1, 5.0), (2, 50.0), (3, 5.0))),
        *(row("vllm", i, step_1_ms=ms) for i, ms in ((1, 10.0), (2, 100.0), (3, 15.0))),
    ]

    assert "| 2.00x |" in llm.ratio_table(rows, ["hami", "vllm"])


def test_what_a_peer_does_not_tell_is_left_blank() -> None:
    rows = [row("hami", crowd_first_token_ms=5.0), row("transformers", crowd_first_token_ms=math.nan)]

    lines = llm.result_table(rows, ["hami", "transformers"]).splitlines()

    assert "5 (5 to 5)" in lines[-2] and "nan" not in lines[-1]


def test_the_tokens_of_the_engines_are_compared() -> None:
    rows = [row("hami"), {**row("vllm"), "tokens": [1, 2, 9, 4]}]

    assert llm.output_line(rows).endswith("hami 4 of 4, vllm 2 of 4")


def test_engines_without_an_interpreter_are_left_out_and_unknown_ones_named() -> None:
    options = argparse.Namespace(engines=None, vllm="/vllm/python", llama_cpp=None)
    assert list(llm.engines_of(options)) == ["hami", "hami-q8", "hami-q4", "transformers", "vllm"]
    options.engines = "hami,tensorflow"
    with pytest.raises(SystemExit, match="there is no engine `tensorflow`"):
        llm.engines_of(options)
