"""The order in which cases are measured, what is kept of each, and what ends it early."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from measured_cases import MADE_WITH, change, one_round

from hami.bench import campaign as campaign_module
from hami.bench.campaign import Campaign, in_turn
from hami.bench.load import Load
from hami.bench.other_load import OtherLoad
from hami.bench.report import LoadReport
from hami.bench.results import Case
from hami.config import Config, load
from hami.errors import BuildError, ConfigError

ONE, EIGHT = Load(num_callers=1, seed=5), Load(num_callers=8, seed=5)
SMALL, LARGE = (change("node.max", 4),), (change("node.max", 8),)


class FakePipeline:
    """Counts the batches that it is told to have run."""

    def __init__(self, rows: int, journal: list[str]) -> None:
        self.rows, self.journal = rows, journal
        self.num_runs = 0
        journal.append(f"open {rows}")

    def stats(self, *, buckets: bool = False) -> list[dict[str, Any]]:
        times = {"count": self.num_runs, "sum": 2.0 * self.num_runs}
        row = {"node": "node", "instances": 1, "items": self.num_runs * self.rows, "releases": {}}
        return [{**row, "batch_rows": {self.rows: self.num_runs}, "run_ms": times, "wait_ms": times}]

    def close(self) -> bool:
        self.journal.append(f"close {self.rows}")
        return True


class Bench:
    """A campaign whose pipelines and measurements are written into a journal."""

    def __init__(self, act: Callable[[int], None] = lambda number: None) -> None:
        self.journal: list[str] = []
        self.loads: list[Load] = []
        self.progress: list[tuple[str, float, int]] = []
        self.act, self.numbers = act, itertools.count()
        self.campaign = Campaign(load({"backend": "Identity", "max": 1}), self.open, self.measure, self.tell)

    def open(self, config: Config) -> FakePipeline:
        rows = config.nodes[0].settings["max"].value
        if rows > 16:
            self.journal.append(f"refuse {rows}")
            raise BuildError("too large", code="build-batch-range", where="node", help="lower it")
        return FakePipeline(rows, self.journal)

    def measure(self, pipe: FakePipeline, load: Load, on_share: Callable[[float], None]) -> LoadReport:
        number = next(self.numbers)
        self.act(number)
        on_share(0.5)
        self.journal.append(f"{pipe.rows} rows, {load.num_callers}")
        self.loads.append(load)
        pipe.num_runs += 10
        return LoadReport(load, (one_round(100 + number),), MADE_WITH)

    def tell(self, case: Case, num_done: float, num_planned: int) -> None:
        self.progress.append((case.arrivals, num_done, num_planned))


FOUR_CASES = [Case(changes, load) for changes in (SMALL, LARGE) for load in (ONE, EIGHT)]


# --- order --------------------------------------------------------------------------------------------------


def test_repeats_are_interleaved_and_every_second_one_goes_backwards() -> None:
    order = [(number, case) for number, case in in_turn(FOUR_CASES, 3)]

    a, b, c, d = FOUR_CASES
    assert [case for _, case in order] == [a, b, c, d, d, c, b, a, a, b, c, d]
    assert [number for number, _ in order] == [0] * 4 + [1] * 4 + [2] * 4


def test_a_machine_that_drifts_evenly_does_so_for_all_cases_alike() -> None:
    places: dict[Case, list[int]] = {}
    for place, (_, case) in enumerate(in_turn(FOUR_CASES, 4)):
        places.setdefault(case, []).append(place)

    assert len({sum(of_case) for of_case in places.values()}) == 1


def test_one_pipeline_is_open_at_a_time_and_is_kept_while_the_setting_stays() -> None:
    bench = Bench()

    bench.campaign.run(FOUR_CASES, 2)

    assert bench.journal == [
        *("open 4", "4 rows, 1", "4 rows, 8", "close 4"),
        *("open 8", "8 rows, 1", "8 rows, 8", "8 rows, 8", "8 rows, 1", "close 8"),
        *("open 4", "4 rows, 8", "4 rows, 1", "close 4"),
    ]


def test_every_repeat_draws_anew_and_again_the_same() -> None:
    bench = Bench()

    bench.campaign.run([Case((), ONE)], 3)

    assert [(load.repeats, load.seed) for load in bench.loads] == [(1, 5), (1, 6), (1, 7)]


# --- what is kept -------------------------------------------------------------------------------------------


def test_the_rounds_of_a_case_come_together_in_one_report() -> None:
    first, second = Bench().campaign.run([Case((), ONE), Case((), EIGHT)], 2).cases

    assert [each.throughput_per_s for each in first.report.rounds] == [100, 103]
    assert [each.throughput_per_s for each in second.report.rounds] == [101, 102]
    assert (first.report.load.repeats, first.report.load.num_callers) == (2, 1)
    assert first.report.made_with == MADE_WITH


def test_what_the_nodes_did_is_that_of_the_round_alone() -> None:
    (case,) = Bench().campaign.run([Case(SMALL, ONE)], 3).cases

    assert [one.rows for (one,) in case.nodes] == [{4: 10}] * 3
    assert case.figures["node"].num_runs == 30
    assert case.figures["node"].mean_run_ms == pytest.approx(2.0)


def test_the_cores_that_others_use_stand_beside_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = iter([0.5, None, 0.25])
    monkeypatch.setattr(
        campaign_module, "OtherLoad", lambda: type("Known", (), {"cores": lambda self: next(cores)})()
    )

    (case,) = Bench().campaign.run([Case((), ONE)], 3).cases

    assert case.other_cores == (0.5, 0.25)


def test_progress_counts_rounds_and_parts_of_them() -> None:
    bench = Bench()

    bench.campaign.run([Case((), ONE), Case((), EIGHT)], 1)

    assert bench.progress == [
        ("1 caller", 0, 2),
        ("1 caller", 0.5, 2),
        ("8 callers", 1, 2),
        ("8 callers", 1.5, 2),
    ]


def test_a_second_run_goes_on_counting() -> None:
    bench = Bench()
    bench.campaign.run([Case((), ONE)], 2)

    bench.campaign.run([Case((), ONE)], 1)

    assert bench.progress[-1] == ("1 caller", 2.5, 3)


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_a_setting_that_cannot_be_built_is_left_out_with_its_reason() -> None:
    bench = Bench()

    found = bench.campaign.run([Case((change("node.max", 99),), ONE), Case((), ONE)], 3)

    assert [case.changes for case in found.cases] == [()]
    assert found.unbuilt.keys() == {"node.max=99"}
    assert "build-batch-range" in found.unbuilt["node.max=99"]
    assert bench.journal.count("refuse 99") == 1
    assert found.is_complete


def test_whatever_the_making_of_a_setting_raises_leaves_it_out() -> None:
    def refuse(config: Config) -> FakePipeline:
        raise MemoryError("no room")

    bench = Bench()
    bench.campaign.open_pipe = refuse

    found = bench.campaign.run([Case(LARGE, ONE)], 2)

    assert (found.cases, found.unbuilt) == ((), {"node.max=8": "MemoryError: no room"})


def test_a_pipeline_that_cannot_be_built_as_it_is_is_an_error() -> None:
    bench = Bench()
    bench.campaign.config = load({"backend": "Identity", "max": 99})

    with pytest.raises(BuildError):
        bench.campaign.run([Case((), ONE), Case(SMALL, ONE)], 1)


def interrupt_at(number: int) -> Callable[[int], None]:
    def act(now: int) -> None:
        if now == number:
            raise KeyboardInterrupt

    return act


def test_an_interrupt_keeps_the_rounds_that_have_ended() -> None:
    bench = Bench(interrupt_at(5))

    found = bench.campaign.run(FOUR_CASES, 2)

    assert not found.is_complete
    assert [len(case.report.rounds) for case in found.cases] == [1, 1, 1, 2]
    assert bench.journal[-1] == "close 8"


def test_an_interrupt_before_the_first_round_leaves_nothing() -> None:
    found = Bench(interrupt_at(0)).campaign.run(FOUR_CASES, 2)

    assert (found.cases, found.is_complete) == ((), False)


def test_any_other_error_closes_the_pipeline_and_comes_out() -> None:
    def act(number: int) -> None:
        raise ConfigError("no", code="load-setting")

    bench = Bench(act)

    with pytest.raises(ConfigError):
        bench.campaign.run([Case((), ONE)], 1)
    assert bench.journal == ["open 1", "close 1"]


# --- the cores that others use ------------------------------------------------------------------------------


def test_the_cores_of_others_are_what_is_busy_less_what_is_ours() -> None:
    busy, own, clock = iter([100.0, 106.0]), iter([10.0, 13.0]), iter([0.0, 2.0])

    load = OtherLoad(lambda: next(busy), lambda: next(own), lambda: next(clock))

    assert load.cores() == pytest.approx(1.5)


def test_rounding_never_makes_them_negative() -> None:
    busy, own, clock = iter([100.0, 101.0]), iter([10.0, 11.01]), iter([0.0, 1.0])

    assert OtherLoad(lambda: next(busy), lambda: next(own), lambda: next(clock)).cores() == 0.0


def test_where_the_system_does_not_tell_they_are_unknown() -> None:
    assert OtherLoad(busy=lambda: None).cores() is None


def test_this_process_is_no_other() -> None:
    import time

    load, end = OtherLoad(), time.process_time() + 0.3
    own = load._start_own_s
    while time.process_time() < end:
        pass

    from hami.bench.other_load import own_seconds

    assert own_seconds() - own >= 0.25
