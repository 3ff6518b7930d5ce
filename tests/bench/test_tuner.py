"""The tuner on a simulated node whose best settings are known."""

from __future__ import annotations

from typing import Any

import pytest
from measured_cases import SimulatedNode, change, one_round, result

from hami.bench.load import Load
from hami.bench.reasons import explain, toml_lines
from hami.bench.results import CaseResult
from hami.bench.sweep import changes_text
from hami.bench.tuner import Goal, Proposal, TunedNode, Tuner, best

AS_IT_IS = TunedNode("model", max=1, instances=1, timeout_ms=None)


def goal(latency_ms: float, percentile: str = "p99", **load: Any) -> Goal:
    return Goal(latency_ms, percentile, Load(**(load or {"num_callers": 16})))


def tuned(node: SimulatedNode, wanted: Goal, written: TunedNode = AS_IT_IS, repeats: int = 3) -> Proposal:
    proposal = Tuner(node, wanted, [written], node.cores, repeats).run()
    assert proposal is not None
    return proposal


def chosen(proposal: Proposal) -> dict[str, Any]:
    return {one.key: one.value for one in proposal.changes}


def sentences(proposal: Proposal) -> str:
    return "\n".join(explain(proposal, 2))


def best_by_hand(node: SimulatedNode, wanted: Goal) -> tuple[float, dict[str, int]]:
    """Return the most requests a second within the latency, over all sizes that there are."""
    found = []
    for rows in (1, 2, 4, 8, 16, 32, 64):
        for instances in range(1, node.cores + 1):
            sizes = {"max": rows, "instance_num": instances}
            latency, per_s, _ = node.latency_and_rate(sizes, wanted.load)
            if rows <= node.largest_max and 1.2 * latency * 1.01 <= wanted.latency_ms:
                found.append((per_s, sizes))
    return max(found, key=lambda pair: pair[0])


# --- callers in a loop: the most requests a second ----------------------------------------------------------


@pytest.mark.parametrize(
    ("fixed_ms", "row_ms", "callers", "target_ms"),
    [
        (8.0, 0.5, 16, 60.0),
        (1.0, 2.0, 16, 50.0),
        (20.0, 0.1, 40, 100.0),
        (0.5, 0.05, 8, 10.0),
        (5.0, 5.0, 4, 45.0),
    ],
)
def test_it_finds_as_many_requests_as_the_best_of_all_sizes(
    fixed_ms: float, row_ms: float, callers: int, target_ms: float
) -> None:
    node, wanted = SimulatedNode(fixed_ms, row_ms), goal(target_ms, num_callers=callers)
    most, _ = best_by_hand(node, wanted)

    proposal = tuned(node, wanted)

    assert proposal.is_met
    assert proposal.chosen.report.throughput_per_s.mean >= 0.97 * most


def test_where_a_run_has_a_price_of_its_own_it_proposes_batches() -> None:
    proposal = tuned(SimulatedNode(20.0, 0.1), goal(60.0))

    assert chosen(proposal)["max"] >= 8
    assert proposal.chosen.report.throughput_per_s.mean > 5 * proposal.baseline.report.throughput_per_s.mean


def test_where_rows_cost_the_same_in_any_batch_it_proposes_instances_alone() -> None:
    proposal = tuned(SimulatedNode(0.0, 3.0), goal(200.0))

    assert chosen(proposal) == {"instance_num": 2}


def test_no_more_instances_than_cores_are_proposed() -> None:
    assert chosen(tuned(SimulatedNode(0.0, 3.0, cores=1), goal(200.0))) == {}


def test_what_the_model_expects_in_vain_is_not_proposed() -> None:
    node = SimulatedNode(0.0, 3.0, cores=1)  # instances that wait for each other, whatever the cores

    proposal = Tuner(node, goal(200.0), [AS_IT_IS], cores=8, repeats=3).run()

    assert proposal is not None and proposal.changes == ()
    assert any("instance_num" in changes_text(case.changes) for case in proposal.steps[0].tried)


def test_what_is_best_already_is_left_alone() -> None:
    node = SimulatedNode(20.0, 0.1, written={"max": 16, "instance_num": 2})

    proposal = tuned(node, goal(100.0), TunedNode("model", 16, 2))

    assert proposal.changes == ()
    assert "leave the file as it is" in sentences(proposal)


def test_a_gain_within_the_noise_is_not_proposed() -> None:
    node = SimulatedNode(0.02, 3.0, cores=1, jitter=(0.7, 1.0, 1.4))

    assert tuned(node, goal(1000.0)).changes == ()


def test_what_was_measured_late_is_not_proposed_however_fast_it_is() -> None:
    node, wanted = SimulatedNode(10.0, 4.0), goal(75.0, num_callers=8)

    proposal = tuned(node, wanted)

    assert proposal.is_met
    assert wanted.latency_of(proposal.chosen) <= 75.0
    assert any(wanted.latency_of(case) > 75.0 for step in proposal.steps for case in step.tried)


def test_the_largest_max_that_the_backend_takes_is_found_by_building() -> None:
    node = SimulatedNode(20.0, 0.1, largest_max=4)

    assert chosen(tuned(node, goal(400.0)))["max"] == 4


def test_a_node_that_takes_one_row_gets_instances() -> None:
    assert chosen(tuned(SimulatedNode(20.0, 0.1, largest_max=1), goal(400.0))) == {"instance_num": 2}


def test_few_sizes_are_measured_under_the_load() -> None:
    node, wanted = SimulatedNode(8.0, 0.5, cores=8), goal(60.0, num_callers=40)

    tuned(node, wanted)

    under_load = {case.setting for case in node.asked if case.load == wanted.load}
    assert len(under_load) <= 7  # of 28: the file, five sizes, and the largest batches of the probe


# --- requests at a rate: the shortest latency ---------------------------------------------------------------


def test_at_a_rate_it_proposes_what_keeps_up() -> None:
    node, wanted = SimulatedNode(8.0, 0.5), goal(100.0, rate_per_s=400.0)

    proposal = tuned(node, wanted)

    assert not wanted.is_met(proposal.baseline)
    assert proposal.is_met
    assert "; p99 divided by " in sentences(proposal)
    assert proposal.chosen.report.throughput_per_s.mean >= 0.97 * 400


def test_of_those_that_keep_up_the_one_with_the_shortest_latency() -> None:
    proposal = tuned(SimulatedNode(2.0, 2.0), goal(500.0, rate_per_s=300.0))
    tried = [case for step in proposal.steps for case in step.tried if proposal.goal.is_met(case)]

    shortest = min(proposal.goal.latency_of(case) for case in tried)
    assert proposal.goal.latency_of(proposal.chosen) <= 1.05 * shortest


# --- the timeout --------------------------------------------------------------------------------------------


def test_where_batches_wait_for_the_timeout_shorter_ones_are_tried() -> None:
    node = SimulatedNode(20.0, 0.1, timeout_share=0.8, timeout_costs_ms=1.0)

    proposal = tuned(node, goal(200.0))

    assert chosen(proposal)["batching_timeout"] == 0.0
    assert "80% by the timeout" in sentences(proposal)


def test_where_no_batch_waits_the_timeout_is_left_alone() -> None:
    node = SimulatedNode(20.0, 0.1, timeout_share=0.0, timeout_costs_ms=1.0)

    proposal = tuned(node, goal(200.0))

    assert "batching_timeout" not in chosen(proposal)
    assert "none of the batches waited for the timeout" in sentences(proposal)


# --- where nothing meets the target -------------------------------------------------------------------------


def test_where_one_caller_waits_too_long_no_setting_can_help() -> None:
    proposal = tuned(SimulatedNode(50.0, 1.0), goal(20.0))

    assert not proposal.is_met
    assert "a single caller already waits" in sentences(proposal)
    assert "only a faster model or machine" in sentences(proposal)


def test_where_the_callers_are_too_many_it_says_so_and_names_the_nearest() -> None:
    wanted = goal(40.0, num_callers=64)

    proposal = tuned(SimulatedNode(2.0, 4.0), wanted)

    assert not proposal.is_met
    tried = [case for step in proposal.steps for case in step.tried]
    assert wanted.latency_of(proposal.chosen) <= min(map(wanted.latency_of, tried)) * 1.001
    assert "Little's law" in sentences(proposal) and "nearest: " in sentences(proposal)


def test_where_a_rate_is_above_what_the_machine_can_do_requests_queue() -> None:
    proposal = tuned(SimulatedNode(10.0, 10.0), goal(100.0, rate_per_s=1000.0))

    assert not proposal.is_met
    assert "1,000 requests/s come and " in sentences(proposal)


# --- reasons ------------------------------------------------------------------------------------------------


def test_the_reasons_give_the_measured_cost_of_a_run() -> None:
    text = sentences(tuned(SimulatedNode(20.0, 0.5), goal(400.0)))

    assert "model: a run of n rows takes 20 + 0.5 n ms, measured up to 16.0 rows" in text
    assert "a row costs 20.5 ms alone and 1.75 ms in a batch of 16" in text


def test_the_reasons_say_how_busy_the_instances_were_and_what_bounds_it() -> None:
    text = sentences(tuned(SimulatedNode(20.0, 0.5), goal(400.0)))

    assert "its instance was busy 100% of the time" in text
    assert "what bounds it now: 2.00 of 2 cores are in use" in text


def test_the_gain_comes_with_its_interval() -> None:
    text = sentences(tuned(SimulatedNode(0.0, 3.0), goal(200.0)))

    assert "requests/s times 2.00 (1.9" in text


def test_the_lines_to_change_are_toml() -> None:
    changes = (change("a.max", 4), change("b.instance_num", 2), change("a.batching_timeout", 2.0))

    assert toml_lines(changes) == "[a]\nmax = 4\nbatching_timeout = 2\n\n[b]\ninstance_num = 2"


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_where_every_request_fails_nothing_is_proposed() -> None:
    proposal = tuned(SimulatedNode(1.0, 1.0, fails=True), goal(10.0))

    assert (proposal.changes, proposal.is_met, proposal.steps) == ((), False, [])


def test_an_interrupt_before_the_first_result_gives_no_proposal() -> None:
    node = SimulatedNode(1.0, 1.0, interrupt_after=0)

    assert Tuner(node, goal(10.0), [AS_IT_IS], 2, 3).run() is None


def test_where_no_sizes_can_be_chosen_it_says_so() -> None:
    proposal = Tuner(SimulatedNode(1.0, 1.0), goal(100.0), [], 2, 3).run()

    assert proposal is not None and proposal.changes == ()
    assert "there is no node whose sizes can be chosen" in sentences(proposal)


def test_a_node_that_hardly_computes_is_left_alone() -> None:
    node = SimulatedNode(20.0, 0.1)

    proposal = Tuner(node, goal(400.0), [TunedNode("idle"), AS_IT_IS], 2, 3).run()

    assert proposal is not None
    assert [step.node for step in proposal.steps] == ["model"]


def test_an_interrupt_shows_the_cases_that_had_been_measured() -> None:
    whole = SimulatedNode(20.0, 0.1)
    tuned(whole, goal(400.0))
    under_load = [place for place, case in enumerate(whole.asked) if case.load == goal(400.0).load]

    proposal = tuned(SimulatedNode(20.0, 0.1, interrupt_after=under_load[4]), goal(400.0))

    assert not proposal.is_complete
    assert proposal.steps and proposal.steps[0].tried and proposal.steps[0].kept is None


@pytest.mark.parametrize("number", [1, 3, 8, 12])
def test_an_interrupt_later_keeps_what_was_chosen_until_then(number: int) -> None:
    proposal = tuned(SimulatedNode(20.0, 0.1, interrupt_after=number), goal(400.0))

    assert not proposal.is_complete
    assert sentences(proposal)


def test_the_same_setting_is_measured_once_in_a_turn() -> None:
    node, wanted = SimulatedNode(20.0, 0.1), goal(400.0)

    proposal = tuned(node, wanted)

    for step in proposal.steps:
        names = [changes_text(case.changes) for case in step.tried]
        assert len(names) == len(set(names))


# --- the choice ---------------------------------------------------------------------------------------------


def case_with(per_s: list[float], p99: float = 10.0, **changes: Any) -> CaseResult:
    made = tuple(change(f"a.{key}", value) for key, value in changes.items())
    return result([one_round(rate, p99 / 2, p99) for rate in per_s], made, num_callers=16)


NOW = case_with([100, 101, 99])


def test_the_most_requests_win_among_those_in_time() -> None:
    fast_and_late, fast = case_with([300, 301, 299], p99=30.0, max=8), case_with([200, 201, 199], max=4)

    assert best([NOW, fast_and_late, fast], goal(20.0)) is fast


def test_what_there_is_stays_unless_a_difference_is_shown() -> None:
    assert best([NOW, case_with([90, 140, 105], max=4)], goal(20.0)) is NOW


def test_of_those_that_are_as_good_the_smaller_batch_wins() -> None:
    large, small = case_with([200, 204, 196], max=64), case_with([199, 203, 195], max=16)

    assert best([NOW, large, small], goal(20.0)) is small


def test_a_case_with_errors_does_not_meet_the_goal() -> None:
    wrong = result([one_round(500, 1, 2, num_errors=1)] * 3, (change("a.max", 4),), num_callers=16)

    assert best([NOW, wrong], goal(20.0)) is NOW


def test_where_none_is_in_time_the_nearest_wins() -> None:
    near, far = case_with([50, 51, 49], p99=25.0, max=2), case_with([500, 501, 499], p99=90.0, max=8)

    assert best([far, near], goal(20.0)) is near
