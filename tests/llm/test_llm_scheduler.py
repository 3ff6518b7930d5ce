"""The scheduler of a language model through its Python objects: arrays, errors, life times."""

from __future__ import annotations

import gc
import weakref
from array import array
from typing import Any

import pytest

from hami._core import LlmScheduler, StepPlan
from hami.errors import BuildError, RequestError


def make(**settings: Any) -> LlmScheduler:
    return LlmScheduler(
        **{"num_pages": 33, "page_size": 4, "max_running": 8, "max_model_len": 64, **settings}
    )


def commit(scheduler: LlmScheduler, plan: StepPlan, token: int = 9) -> list[tuple[int, str]]:
    return scheduler.commit(plan, plan.sample_sequences, [token] * len(plan.sample_sequences))


def test_a_request_runs_from_its_prompt_to_its_length() -> None:
    scheduler = make()
    sequence = scheduler.add([1, 2, 3, 4, 5], max_tokens=2)
    plan = scheduler.step()
    assert (plan.num_rows, plan.num_decode_rows, plan.num_tokens) == (1, 0, 5)
    assert plan.sequences.tolist() == [sequence]
    assert plan.token_ids.tolist() == [1, 2, 3, 4, 5]
    assert plan.positions.tolist() == [0, 1, 2, 3, 4]
    pages = plan.page_table.tolist()[plan.table_rows[0]]
    assert plan.slots.tolist() == [pages[i // 4] * 4 + i % 4 for i in range(5)]
    assert 0 not in pages[:2] and set(pages[2:]) == {0}
    assert plan.dirty_rows.tolist() == [plan.table_rows[0]]
    assert (plan.query_starts.tolist(), plan.context_lens.tolist()) == ([0, 5], [5])
    assert (plan.logit_tokens.tolist(), plan.sample_logits.tolist()) == ([4], [0])
    assert commit(scheduler, plan) == [(sequence, "")]
    plan = scheduler.step()
    assert (plan.num_decode_rows, plan.token_ids.tolist(), plan.positions.tolist()) == (1, [9], [5])
    assert commit(scheduler, plan) == [(sequence, "length")]
    assert not scheduler.has_work()
    assert scheduler.stats()["pages_cached"] == 1


def test_the_arrays_are_views_of_int32_and_int64_that_can_be_written() -> None:
    scheduler = make()
    scheduler.add([1, 2, 3])
    plan = scheduler.step()
    for name in ("sequences", "sample_sequences"):
        assert (getattr(plan, name).itemsize, getattr(plan, name).readonly) == (8, False)
    for name in ("token_ids", "slots", "page_table", "copies", "swap_in", "swap_out", "dirty_rows"):
        assert (getattr(plan, name).itemsize, getattr(plan, name).readonly) == (4, False)
    assert plan.copies.shape == (0, 2)
    assert plan.page_table.shape == (8, 16)
    plan.token_ids[0] = 77
    assert plan.token_ids.tolist() == [77, 2, 3]


def test_views_outlive_plan_and_scheduler() -> None:
    scheduler = make()
    scheduler.add([1, 2, 3])
    views = [scheduler.step().token_ids for _ in range(1)]
    del scheduler
    gc.collect()
    assert views[0].tolist() == [1, 2, 3]


def test_a_plan_of_the_past_says_so() -> None:
    scheduler = make()
    scheduler.add([1, 2, 3])
    plan = scheduler.step()
    commit(scheduler, plan)
    with pytest.raises(ValueError, match="committed already"):
        commit(scheduler, plan)
    scheduler.step()
    with pytest.raises(RuntimeError, match="step 2 has overwritten it"):
        _ = plan.num_rows


def test_a_step_before_the_commit_is_refused() -> None:
    scheduler = make()
    scheduler.add([1, 2, 3])
    plan = scheduler.step()
    with pytest.raises(RuntimeError, match="not committed"):
        scheduler.step()
    assert commit(scheduler, plan) == [(0, "")]


def test_a_plan_of_another_scheduler_is_refused() -> None:
    first, second = make(), make()
    first.add([1])
    second.add([1])
    plan = first.step()
    second.step()
    with pytest.raises(ValueError, match="of another scheduler"):
        second.commit(plan, [0], [1])


@pytest.mark.parametrize(
    ("parents", "tokens", "error", "text"),
    [
        ([0], [], ValueError, "1 parents for 0 tokens"),
        ([5], [1], ValueError, "parent 5 is none of"),
        ([-1], [1], ValueError, "parent -1"),
        ([0], [-1], ValueError, "token -1 of sequence 0"),
        ([0], [2**31], ValueError, "no token id"),
        ([0], [2**70], OverflowError, "too big"),
        ([0, 0], [1, 2], ValueError, "beyond the `width`"),
        (["a"], [1], TypeError, "`parents` has an item that is no int but `str`"),
        ([0], 1, TypeError, "`tokens` must be a sequence of ints"),
        ([0], array("d", [1.0]), TypeError, "`tokens` must be"),
        (None, None, TypeError, "`parents` must be"),
    ],
)
def test_a_commit_that_does_not_fit_changes_nothing(
    parents: Any, tokens: Any, error: type[Exception], text: str
) -> None:
    scheduler = make()
    scheduler.add([1, 2, 3])
    plan = scheduler.step()
    with pytest.raises(error, match=text):
        scheduler.commit(plan, parents, tokens)
    assert scheduler.commit(plan, array("q", [0]), array("B", [200])) == [(0, "")]


def test_anything_but_a_plan_is_refused() -> None:
    scheduler = make()
    with pytest.raises(TypeError):
        scheduler.commit(None, [], [])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        StepPlan()
    with pytest.raises(TypeError, match="never made"):
        LlmScheduler.__new__(LlmScheduler).step()


@pytest.mark.parametrize(
    ("request_", "code", "numbers"),
    [
        ({"prompt_ids": []}, "llm-prompt-empty", []),
        ({"prompt_ids": [1] * 64}, "llm-prompt-too-long", ["`64`"]),
        ({"prompt_ids": [1] * 37}, "llm-prompt-pool", ["`10`", "`9`"]),
        ({"prompt_ids": [1, -2]}, "llm-token-id", ["`-2`"]),
        ({"prompt_ids": [2**31]}, "llm-token-id", ["`2147483648`"]),
        ({"prompt_ids": [1], "max_tokens": 0}, "llm-max-tokens", ["`0`"]),
        ({"prompt_ids": [1], "min_tokens": -1}, "llm-min-tokens", ["`-1`"]),
        ({"prompt_ids": [1], "width": 9}, "llm-width", ["`9`", "`8`"]),
        ({"prompt_ids": [1], "width": 0}, "llm-width", ["`0`"]),
    ],
)
def test_a_request_that_cannot_run_is_refused_with_its_numbers(
    request_: dict[str, Any], code: str, numbers: list[str]
) -> None:
    scheduler = make(num_pages=10)
    with pytest.raises(RequestError) as caught:
        scheduler.add(**request_)
    assert caught.value.code == code
    assert all(number in caught.value.message for number in numbers)
    assert caught.value.help
    assert not scheduler.has_work()


@pytest.mark.parametrize("what", [3, "ab", [1.5], [None], object(), array("f", [1])])
def test_a_prompt_that_is_no_ids_is_a_type_error(what: Any) -> None:
    with pytest.raises(TypeError, match="prompt_ids"):
        make().add(what)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"num_pages": 1}, "`num_pages` is `1`"),
        ({"page_size": 0}, "`page_size` is `0`"),
        ({"max_model_len": 1}, "`max_model_len` is `1`"),
        ({"preempt": "swap"}, "`num_swap_pages` is `0`"),
        ({"policy": "best"}, "`policy` cannot be `best`"),
        ({"prefix_cache": "tree"}, "`prefix_cache` cannot be `tree`"),
        ({"preempt": "kill"}, "`preempt` cannot be `kill`"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(BuildError, match=text) as caught:
        make(**settings)
    assert caught.value.code == "llm-setting"
    assert caught.value.help


def test_a_policy_of_the_users_is_called_once_for_a_request_and_the_lower_key_runs_first() -> None:
    facts: list[dict[str, Any]] = []

    def policy(request: dict[str, Any]) -> float:
        facts.append(request)
        return -len(facts)

    scheduler = make(policy=policy, max_running=1)
    scheduler.add([1, 2], max_tokens=1, user="ann")
    last = scheduler.add([3], max_tokens=1, expected_tokens=7, priority=2)
    assert [fact["num_prompt_tokens"] for fact in facts] == [2, 1]
    assert (facts[0]["user"], facts[1]["expected_tokens"], facts[1]["priority"]) == ("ann", 7, 2)
    assert scheduler.step().sequences.tolist() == [last]


@pytest.mark.parametrize("policy", [lambda _: "first", lambda _: float("nan"), lambda _: 1 / 0])
def test_a_policy_that_fails_fails_its_request_only(policy: Any) -> None:
    scheduler = make(policy=policy)
    with pytest.raises((TypeError, ValueError, ZeroDivisionError)):
        scheduler.add([1])
    assert not scheduler.has_work()


def test_a_policy_may_use_the_scheduler() -> None:
    def policy(request: dict[str, Any]) -> float:
        if request["num_prompt_tokens"] > 1:
            scheduler.add([1])
        return 0.0

    scheduler = make(policy=policy)
    assert scheduler.add([1, 2]) == 1


def test_a_policy_that_holds_its_scheduler_is_collected_with_it() -> None:
    class Owner:
        def __init__(self) -> None:
            self.scheduler = make(policy=self.key)

        def key(self, request: dict[str, Any]) -> float:
            return 0.0

    owner = Owner()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_a_fork_takes_a_new_id_and_a_dropped_one_its_pages() -> None:
    scheduler = make()
    parent = scheduler.add([1, 2, 3, 4, 5], max_tokens=8, width=3)
    plan = scheduler.step()
    ids = [id for id, _ in scheduler.commit(plan, [parent] * 3, [7, 8, 9])]
    assert ids[0] == parent and len(set(ids)) == 3
    plan = scheduler.step()
    assert sorted(zip(plan.sequences, plan.token_ids, strict=True)) == sorted(
        zip(ids, [7, 8, 9], strict=True)
    )
    assert len(plan.copies) == 2
    assert scheduler.commit(plan, [ids[1], ids[1]], [1, 2]) == [(ids[1], ""), (3, "")]
    assert scheduler.step().sequences.tolist() == [ids[1], 3]


def test_ends_between_step_and_commit_are_gone_at_the_commit() -> None:
    scheduler = make()
    ids = [scheduler.add([i] * 5) for i in range(4)]
    plan = scheduler.step()
    scheduler.abort(ids[0])
    scheduler.finish(ids[1])
    scheduler.fail(ids[2])
    scheduler.abort(99)
    assert scheduler.stats()["pages_referenced"] == 8
    assert commit(scheduler, plan) == [(0, "gone"), (1, "gone"), (2, "gone"), (3, "")]
    stats = scheduler.stats()
    assert (stats["pages_referenced"], stats["pages_cached"]) == (2, 2)
    scheduler.abort(ids[0])
    assert scheduler.stats()["num_aborted"] == 1
    assert stats["pages_total"] == 32


def test_a_discarded_step_is_planned_again() -> None:
    scheduler = make()
    sequence = scheduler.add([1, 2, 3, 4, 5], max_tokens=8)
    plan = scheduler.step()
    slots = plan.slots.tolist()
    scheduler.discard(plan)
    with pytest.raises(ValueError, match="discarded"):
        scheduler.discard(plan)
    plan = scheduler.step()
    assert plan.slots.tolist() == slots
    assert plan.dirty_rows.tolist() == [plan.table_rows[0]]
    assert commit(scheduler, plan) == [(sequence, "")]
