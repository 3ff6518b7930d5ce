"""Laws of single requests: ends, refusals, aborts, faults, and who hears of what."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from llm_engines import EOS, WAIT_S, ByteTokenizer, Gate, Hooked, Script, fake_engine, fake_llm, greedy_params

import hami
from hami.backends.llm.jobs import Job
from hami.backends.llm.llm import LLM, _Answer
from hami.backends.llm.outputs import Update
from hami.backends.llm.sampling import SamplingParams

PROMPT = [5, 6, 7, 8]


def scripted(text: bytes, **keywords: Any) -> LLM:
    """Return an LLM that says `text` after any prompt of four tokens, and then ends."""
    return fake_llm(tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, text), **keywords)


# --- ends -----------------------------------------------------------------------------------------


def test_max_tokens_ends_with_length() -> None:
    with fake_llm() as llm:
        for count in (1, 7):
            (answer,) = llm.generate([PROMPT], greedy_params(count))
            assert (answer.finish_reason, len(answer.token_ids)) == ("length", count)
            assert answer.usage.completion_tokens == count


def test_the_models_end_token_stops_and_is_no_text() -> None:
    with scripted(b"hello") as llm:
        (answer,) = llm.generate(["abcd"], SamplingParams(temperature=0, max_tokens=50))
    assert (answer.text, answer.finish_reason, answer.outputs[0].stop_reason) == ("hello", "stop", None)
    assert answer.token_ids == [*b"hello", EOS]


def test_ignore_eos_goes_on() -> None:
    with scripted(b"hi\x00there") as llm:
        (answer,) = llm.generate(["abcd"], greedy_params(8))
    assert (answer.text, answer.finish_reason) == ("hithere", "length")


def test_a_stop_text_over_several_tokens_is_cut_off() -> None:
    with scripted(b"one STOP two") as llm:
        (answer,) = llm.generate(["abcd"], SamplingParams(temperature=0, max_tokens=50, stop=["STOP", "tw"]))
        assert (answer.text, answer.finish_reason, answer.outputs[0].stop_reason) == ("one ", "stop", "STOP")
        params = SamplingParams(temperature=0, max_tokens=50, stop=["STOP"], include_stop_str_in_output=True)
        assert llm.generate(["abcd"], params)[0].text == "one STOP"


def test_what_looked_like_a_stop_text_comes_out_at_the_end() -> None:
    with scripted(b"one STO") as llm:
        (answer,) = llm.generate(["abcd"], SamplingParams(temperature=0, max_tokens=50, stop=["STOP"]))
    assert answer.text == "one STO"


def test_a_stop_token_of_the_caller_is_named() -> None:
    with scripted(b"abcXdef") as llm:
        params = SamplingParams(temperature=0, max_tokens=50, stop_token_ids=[ord("X")])
        (answer,) = llm.generate(["abcd"], params)
    assert (answer.text, answer.outputs[0].stop_reason) == ("abc", ord("X"))


def test_min_tokens_keeps_it_from_ending() -> None:
    with scripted(b"ab") as llm:
        params = SamplingParams(temperature=0, max_tokens=50, min_tokens=6)
        (answer,) = llm.generate(["abcd"], params)
    assert len(answer.token_ids) > 6 and EOS not in answer.token_ids[:6]


def test_an_answer_is_clipped_to_the_models_length() -> None:
    with fake_llm(max_model_len=20) as llm:
        (answer,) = llm.generate([PROMPT], greedy_params(100))
    assert (answer.finish_reason, len(answer.token_ids)) == ("length", 16)


def test_characters_of_several_tokens_stream_whole() -> None:
    pieces: list[str] = []

    class Listener(_Answer):
        def on_update(self, update: Update, is_last: bool) -> None:
            pieces.append(update.text)

    text = "größer 🙂 – end"
    with scripted(text.encode()) as llm:
        listener = Listener()
        params = SamplingParams(temperature=0, max_tokens=80)
        llm._engine.submit(Job([1, 2, 3, 4], params, listener, is_streamed=True))
        assert listener.future.result(WAIT_S).text == text
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
def test_a_stream_that_is_preempted_gives_every_token_once(preempt: str) -> None:
    prompts = [[i + 1, i + 2, i + 3, i + 4] for i in range(8)]
    with fake_llm() as llm:
        expected = [each.token_ids for each in llm.generate(prompts, greedy_params(60))]
    streamed: list[list[int]] = [[] for _ in prompts]

    class Listener(_Answer):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

        def on_update(self, update: Update, is_last: bool) -> None:
            streamed[self.index] += update.token_ids

    with fake_llm(num_pages=20, page_size=4, preempt=preempt, max_model_len=70) as llm:
        listeners = [Listener(index) for index in range(len(prompts))]
        for prompt, listener in zip(prompts, listeners, strict=True):
            llm._engine.submit(Job(prompt, greedy_params(60), listener, is_streamed=True))
        ended = [listener.future.result(WAIT_S).token_ids for listener in listeners]
        stats = llm.stats()
    assert streamed == ended == expected
    assert stats["num_preempted_swap" if preempt == "swap" else "num_preempted_recompute"] > 0


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "needle"),
    [
        ([], "empty"),
        ([1] * 600, "512"),
        ([1, 256], "256"),
        ([1, -1], "-1"),
        ([1, "a"], "'a'"),
        ([True], "True"),
        (3.5, "float"),
        ("a text", "tokenizer"),
    ],
)
def test_bad_prompts_are_refused_by_name_and_others_go_on(prompt: Any, needle: str) -> None:
    with fake_llm() as llm:
        with pytest.raises(hami.RequestError, match=needle) as caught:
            llm.generate([prompt], greedy_params(2))
        assert caught.value.help
        assert len(llm.generate([PROMPT], greedy_params(2))[0].token_ids) == 2


def test_what_fits_the_limit_but_not_the_pool_is_refused_and_those_behind_go_on() -> None:
    with fake_llm(page_size=4, num_pages=10) as llm:
        with pytest.raises(hami.RequestError, match="pages"):
            llm.generate([[1] * 100], greedy_params(2))
        assert llm.generate([PROMPT], greedy_params(3))[0].finish_reason == "length"


def test_a_lone_request_that_cannot_grow_ends_with_length() -> None:
    with fake_llm(page_size=4, num_pages=6) as llm:
        (answer,) = llm.generate([PROMPT], greedy_params(100))
        assert answer.finish_reason == "length"
        assert len(answer.token_ids) == 5 * 4 - 4 + 1
        assert llm.stats()["pages_referenced"] == 0


def test_params_must_be_one_or_as_many_as_prompts() -> None:
    with fake_llm() as llm, pytest.raises(hami.RequestError, match="2 prompts and 1"):
        llm.generate([PROMPT, PROMPT], [greedy_params()])


def test_settings_are_checked_by_name() -> None:
    for keywords, needle in (
        ({"page_sise": 4}, "page_size"),
        ({"dtype": "int3"}, "float32"),
        ({"num_pages": 1}, "at least 2"),
        ({"max_running": "many"}, "int"),
        ({"policy": "chaos"}, "chaos"),
    ):
        with pytest.raises(hami.Error, match=needle):
            fake_engine(**keywords)


# --- aborts and lives -----------------------------------------------------------------------------


def test_a_cancelled_future_frees_its_pages() -> None:
    gate = Gate()
    engine = fake_engine(wrap=lambda inner: Hooked(inner, gate))
    answers = [_Answer() for _ in range(3)]
    for answer in answers:
        engine.submit(Job(PROMPT, greedy_params(400), answer))
    assert gate.is_reached.wait(WAIT_S)
    for answer in answers:
        answer.future.cancel()
    gate.is_open.set()
    while (stats := engine.stats())["running"] or stats["waiting"]:
        pass
    assert stats["pages_referenced"] == 0
    engine.close()


def test_abort_in_every_state_and_twice() -> None:
    gate = Gate()
    engine = fake_engine(wrap=lambda inner: Hooked(inner, gate), max_running=1)
    running, waiting = _Answer(), _Answer()
    jobs = [Job(PROMPT, greedy_params(300), running), Job(PROMPT, greedy_params(300), waiting)]
    engine.submit(jobs[0])
    assert gate.is_reached.wait(WAIT_S)
    engine.submit(jobs[1])
    for job in (*jobs, *jobs):
        engine.abort(job)
    gate.is_open.set()
    for answer in (running, waiting):
        assert answer.future.result(WAIT_S).finish_reason == "abort"
    engine.abort(jobs[0])
    assert engine.stats()["pages_referenced"] == 0
    engine.close()


def test_close_ends_what_is_inside_and_refuses_what_comes() -> None:
    gate = Gate()
    engine = fake_engine(wrap=lambda inner: Hooked(inner, gate))
    inside = _Answer()
    engine.submit(Job(PROMPT, greedy_params(300), inside))
    assert gate.is_reached.wait(WAIT_S)
    closer = threading.Thread(target=engine.close)
    closer.start()
    gate.is_open.set()
    with pytest.raises(hami.Closed):
        inside.future.result(WAIT_S)
    closer.join(WAIT_S)
    with pytest.raises(hami.Closed):
        engine.submit(Job(PROMPT, greedy_params(3), _Answer()))
    engine.close()


def test_a_listener_that_raises_ends_no_engine() -> None:
    class Rude(_Answer):
        def on_error(self, error: BaseException) -> None:
            raise KeyError("rude")

    with fake_llm() as llm:
        llm._engine.submit(Job([1] * 600, greedy_params(2), Rude()))
        assert len(llm.generate([PROMPT], greedy_params(3))[0].token_ids) == 3


def test_two_engines_live_side_by_side() -> None:
    with fake_llm() as one, fake_llm(page_size=4) as other:
        assert one.generate([PROMPT], greedy_params())[0].token_ids == (
            other.generate([PROMPT], greedy_params())[0].token_ids
        )


# --- faults ---------------------------------------------------------------------------------------


def test_logits_that_are_no_numbers_fail_their_request_only_and_are_not_shared() -> None:
    bad = [9] * 20

    def poison(plan: Any, logits: torch.Tensor) -> torch.Tensor:
        for place, token in enumerate(plan.logit_tokens):
            if plan.token_ids[token] == 9:
                logits[place] = float("nan")
        return logits

    with fake_llm(wrap=lambda inner: Hooked(inner, poison), page_size=4) as llm:
        with pytest.raises(hami.RequestError, match="not finite"):
            llm.generate([bad, PROMPT], greedy_params(4))
        assert llm.stats()["pages_referenced"] == 0
        (healthy,) = llm.generate([PROMPT], greedy_params(4))
        assert healthy.finish_reason == "length"
        with pytest.raises(hami.RequestError):
            llm.generate([bad], greedy_params(4))
        assert llm.stats()["prefix_hit_tokens"] == 0


def test_a_failing_step_fails_those_in_it_and_the_engine_goes_on() -> None:
    failures = iter([RuntimeError("out of memory")])

    def fail_once(plan: Any, logits: torch.Tensor) -> torch.Tensor:
        if (error := next(failures, None)) is not None:
            raise error
        return logits

    with fake_llm(wrap=lambda inner: Hooked(inner, fail_once)) as llm:
        with pytest.raises(RuntimeError, match="out of memory"):
            llm.generate([PROMPT], greedy_params(4))
        assert len(llm.generate([PROMPT], greedy_params(4))[0].token_ids) == 4
        assert llm._engine.problem() == ""


def test_a_model_that_keeps_failing_ends_the_engine_and_everybody_hears_of_it() -> None:
    def fail(plan: Any, logits: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("the device is gone")

    engine = fake_engine(wrap=lambda inner: Hooked(inner, fail), max_running=1)
    answers = [_Answer() for _ in range(8)]
    for answer in answers:
        try:
            engine.submit(Job(PROMPT, greedy_params(4), answer))
        except hami.Closed as error:
            answer.on_error(error)
    errors = [answer.future.exception(WAIT_S) for answer in answers]
    assert all(isinstance(error, (RuntimeError, hami.Closed)) for error in errors)
    engine._thread.join(WAIT_S)
    assert "device is gone" in engine.problem()
    with pytest.raises(hami.Closed, match="device is gone"):
        engine.submit(Job(PROMPT, greedy_params(4), _Answer()))
    engine.close()
