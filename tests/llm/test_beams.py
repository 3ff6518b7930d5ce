"""Beam search gives what a search written down plainly gives, and shares pages while it runs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from llm_engines import EOS, VOCAB, ByteTokenizer, fake_llm

import hami
from hami._core import FakeModel
from hami.backends.llm.jobs import Job
from hami.backends.llm.llm import _Answer
from hami.backends.llm.sampling import SamplingParams

PROMPT = [11, 12, 13, 14, 15]


def logprobs_after(ids: list[int]) -> torch.Tensor:
    """Return the model's log-probabilities of the next token, without pages."""
    logits = torch.frombuffer(FakeModel.reference_logits(ids, VOCAB), dtype=torch.float32)
    return logits.double().log_softmax(-1)


def plain_search(
    width: int, max_tokens: int, penalty: float, stops: set[int]
) -> list[tuple[list[int], float]]:
    """Return the hypotheses of a beam search, the best first, without anything clever."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int], float]] = []

    def end(logprob: float, ids: list[int]) -> None:
        ended.append((logprob / len(ids) ** penalty, ids, logprob))
        ended.sort(key=lambda each: -each[0])
        del ended[width:]

    for place in range(max_tokens):
        found = []
        for logprob, ids in live:
            values, tokens = logprobs_after(PROMPT + ids).topk(2 * width)
            found += [(logprob + v, [*ids, t]) for v, t in zip(values.tolist(), tokens.tolist(), strict=True)]
        found.sort(key=lambda each: -each[0])
        live = []
        for logprob, ids in found[: 2 * width]:
            if ids[-1] in stops:
                end(logprob, ids)
            elif len(live) < width:
                live.append((logprob, ids))
            if len(live) == width:
                break
        if place == max_tokens - 1:
            for logprob, ids in live:
                end(logprob, ids)
            break
        if not live:
            break
        best = max(logprob / len(ids) ** penalty for logprob, ids in live)
        if len(ended) == width and best <= ended[-1][0]:
            break
    return [(ids, logprob) for _, ids, logprob in ended]


@pytest.mark.parametrize(("width", "penalty"), [(1, 1.0), (2, 1.0), (4, 0.0), (4, 2.0)])
def test_a_search_finds_what_the_plain_one_finds(width: int, penalty: float) -> None:
    params = SamplingParams(
        beam_width=width, n=width, max_tokens=8, length_penalty=penalty, temperature=0.0, ignore_eos=True
    )
    expected = plain_search(width, 8, penalty, set())
    with fake_llm(page_size=4) as llm:
        (answer,) = llm.generate([PROMPT], params)
    assert [each.token_ids for each in answer.outputs] == [ids for ids, _ in expected]
    for completion, (_, logprob) in zip(answer.outputs, expected, strict=True):
        assert math.isclose(completion.cumulative_logprob, logprob, rel_tol=1e-5)
        assert completion.finish_reason == "length"


def test_hypotheses_that_end_compete_with_those_that_go_on() -> None:
    likely = {int(logprobs_after(PROMPT).argmax()), int(logprobs_after([*PROMPT, 1]).argmax())}
    stops = likely | {EOS}
    params = SamplingParams(
        beam_width=3, n=3, max_tokens=6, length_penalty=0.0, temperature=0.0, stop_token_ids=tuple(likely)
    )
    expected = plain_search(3, 6, 0.0, stops)
    with fake_llm(page_size=4) as llm:
        (answer,) = llm.generate([PROMPT], params)
    assert [each.token_ids for each in answer.outputs] == [ids for ids, _ in expected]
    assert any(each.finish_reason == "stop" for each in answer.outputs)


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
def test_a_search_under_pressure_finds_the_same(preempt: str) -> None:
    params = SamplingParams(beam_width=4, n=4, max_tokens=12, temperature=0.0, ignore_eos=True)
    crowd = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    with fake_llm(page_size=2) as llm:
        (alone,) = llm.generate([PROMPT], params)
    with fake_llm(page_size=2, num_pages=48, preempt=preempt) as llm:
        prompts: list[Any] = [[i + 20] * 8 for i in range(4)]
        pressed, *_ = llm.generate([PROMPT, *prompts], [params, *[crowd] * 4])
        stats = llm.stats()
    assert [each.token_ids for each in pressed.outputs] == [each.token_ids for each in alone.outputs]
    assert stats["num_preempted_" + preempt] > 0
    assert stats["pages_referenced"] == 0


def test_beams_that_do_not_fit_a_step_wait_for_each_other() -> None:
    params = SamplingParams(beam_width=4, n=4, max_tokens=9, temperature=0.0, ignore_eos=True)
    crowd = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    with fake_llm(page_size=2) as llm:
        (whole,) = llm.generate([PROMPT], params)
    with fake_llm(page_size=2, max_batched_tokens=6) as llm:
        *_, apart = llm.generate([[9, 9]] * 3 + [PROMPT], [crowd] * 3 + [params])
        assert llm.stats()["pages_referenced"] == 0
    assert [each.token_ids for each in apart.outputs] == [each.token_ids for each in whole.outputs]


def test_beams_that_can_never_be_in_one_step_are_refused() -> None:
    params = SamplingParams(beam_width=4, temperature=0.0)
    with fake_llm(max_batched_tokens=3) as llm, pytest.raises(hami.RequestError, match="same steps"):
        llm.generate([PROMPT], params)


def test_a_search_that_has_ended_is_not_ended_again() -> None:
    ends: list[object] = []

    class Counting(_Answer):
        def on_end(self, generation: object) -> None:
            ends.append(generation)
            super().on_end(generation)  # type: ignore[arg-type]

    params = SamplingParams(beam_width=2, max_tokens=4, temperature=0.0, ignore_eos=True)
    answer = Counting()
    with fake_llm() as llm:
        job = Job(PROMPT, params, answer)
        llm._engine.submit(job)
        answer.future.result(20)
        llm._engine.abort(job)
        llm.stats()  # comes after the abort
    assert len(ends) == 1


def test_beams_share_their_pages_until_they_write() -> None:
    with fake_llm(page_size=4) as llm:
        params = SamplingParams(beam_width=4, n=1, max_tokens=16, temperature=0.0, ignore_eos=True)
        llm.generate([[7] * 41], params)
        stats = llm.stats()
    assert stats["num_copies"] > 0
    assert stats["num_tokens"] == 41 + 15 * 4  # the prompt once, then a token for each beam


def test_the_text_of_a_hypothesis_leaves_out_its_end() -> None:
    with fake_llm(tokenizer=ByteTokenizer()) as llm:
        params = SamplingParams(beam_width=2, n=1, max_tokens=4, temperature=0.0, ignore_eos=True)
        (answer,) = llm.generate(["abcd"], params)
    assert answer.text == bytes(token for token in answer.token_ids if token != EOS).decode(errors="replace")
