"""Laws of `pipe.stats()` and `pipe.problems()`: figures that add up, and health that tells the truth."""

from __future__ import annotations

from typing import Any

import pytest

import hami


def test_percentiles_are_ordered_and_count_everything(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Identities", "max": 4})
    for _ in range(5):
        pipeline([{"data": i} for i in range(8)])
    (row,) = pipeline.stats()
    assert row["wait_ms"]["count"] == row["items"] == 40
    assert row["run_ms"]["count"] == sum(row["batch_rows"].values()) == 10
    for figures in (row["wait_ms"], row["run_ms"]):
        assert 0 < figures["p50"] <= figures["p90"] <= figures["p99"] <= figures["max"] < 60_000


def test_runs_in_place_are_sampled(open_pipe: Any) -> None:
    pipeline = open_pipe("Identity")
    for i in range(160):
        pipeline({"data": i})
    (row,) = pipeline.stats()
    assert row["items"] == 160 and row["releases"] == {"in_place": 160}
    assert row["run_ms"]["count"] == 10
    assert row["wait_ms"]["count"] == 0


def test_a_node_that_did_nothing_has_zeros(open_pipe: Any) -> None:
    (row,) = open_pipe({"backend": "Identities", "instance_num": 3}).stats()
    nothing = {"count": 0, "p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 0.0}
    assert row == {
        "node": "node",
        "waiting": 0,
        "items": 0,
        "errors": 0,
        "dropped": 0,
        "instances": 3,
        "busy": 0,
        "hung": 0,
        "batch_rows": {},
        "releases": {},
        "wait_ms": nothing,
        "run_ms": nothing,
        "profiles": [],
        "backend": {},
    }


def test_busy_counts_instances_inside_a_backend(open_pipe: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "instance_num": 2})
    plug = seen.plug(pipeline)
    assert pipeline.stats()[0]["busy"] == 1
    seen.open()
    plug.result(10)
    eventually(lambda: pipeline.stats()[0]["busy"] == 0)


def test_wait_and_run_are_told_apart(open_pipe: Any, probe: Any, eventually: Any, waiting: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    behind = pipeline.submit({"data": 1})
    with pytest.raises(hami.DeadlineExceeded):  # lets 30 ms pass
        pipeline({"data": 2, "deadline_ms": 30})
    seen.open()
    plug.result(10), behind.result(10)
    (row,) = pipeline.stats()
    assert row["wait_ms"]["max"] >= 30  # of the one behind
    assert row["run_ms"]["max"] >= 30  # of the plug
    assert row["wait_ms"]["p50"] < row["wait_ms"]["max"]


def test_parts_inside_profile_are_measured_apart(open_pipe: Any, probe: Any) -> None:
    probe(work=lambda item: 1 // item["data"], batch_range=(1, 4), is_idempotent=False)
    pipeline = open_pipe({"backend": "S[Profile[Identity], Profile[Probe]]", "max": 4, "instance_num": 2})
    pipeline([{"data": i} for i in (1, 2, 3, 4)])
    with pytest.raises(ZeroDivisionError):
        pipeline({"data": 0})
    rows = pipeline.stats()[0]["profiles"]
    assert [(row["backend"], row["instance"]) for row in rows] == [
        ("Identity", 0),
        ("Probe", 0),
        ("Identity", 1),
        ("Probe", 1),
    ]
    for name, raised in (("Identity", 0), ("Probe", 1)):
        mine = [row for row in rows if row["backend"] == name]
        assert sum(row["items"] for row in mine) == sum(row["rows"] for row in mine) == 5
        assert sum(row["raised"] for row in mine) == raised
        assert sum(row["run_ms"]["count"] for row in mine) == 2
        assert all(row["run_ms"]["p50"] <= row["run_ms"]["max"] for row in mine)


def test_a_healthy_pipeline_has_no_problems(open_pipe: Any) -> None:
    pipeline = open_pipe("S[Identity, Pow]")
    assert pipeline.problems() == []
    pipeline({"data": 1})
    assert pipeline.problems() == []


def test_a_closed_pipeline_is_not_healthy(open_pipe: Any) -> None:
    pipeline = open_pipe("Identity")
    pipeline.close()
    assert pipeline.problems() == ["the pipeline is closed"]


def test_a_hung_instance_fails_its_calls_and_turns_health_bad(
    open_pipe: Any, probe: Any, eventually: Any
) -> None:
    seen = probe(batch_range=(1, 4))
    pipeline = open_pipe({"backend": "Probe", "instance_num": 2, "hung_after_ms": 30, "max": 2})
    plug = seen.plug(pipeline)
    with pytest.raises(hami.DeadlineExceeded) as caught:
        plug.result(10)
    assert caught.value.code == "instance-hung"
    assert "instance 0 of node `node` has not come back from its backend for `30` ms" in str(caught.value)
    assert pipeline.problems() == ["instance 0 of node `node` does not come back from its backend"]
    assert pipeline.stats()[0]["hung"] == 1
    seen.open()
    assert pipeline({"data": 1})["result"] == 1  # by the other instance, or the one that came back
    eventually(lambda: pipeline.problems() == [])
    assert pipeline.stats()[0]["hung"] == 0


def test_runs_in_time_are_not_hung(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Identities", "hung_after_ms": 60_000})
    for i in range(100):
        assert pipeline({"data": i})["result"] == i
    assert pipeline.problems() == []


@pytest.mark.parametrize("value", [0, -1, "soon"])
def test_a_wrong_time_to_hang_is_refused(value: Any) -> None:
    with pytest.raises(hami.ConfigError, match="hung_after_ms"):
        hami.pipe({"backend": "Identity", "hung_after_ms": value})


def test_a_backend_reports_its_own_problem(open_pipe: Any) -> None:
    sick = {"text": ""}

    @hami.register
    class Sick(hami.Backend):
        def problem(self) -> str:
            return sick["text"]

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

    pipeline = open_pipe("S[Identity, Sick]")
    assert pipeline.problems() == []
    sick["text"] = "no licence"
    assert pipeline.problems() == ["instance 0 of node `node`: no licence"]


def test_buckets_hold_every_value_and_their_sum(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Identities", "max": 4})
    pipeline([{"data": i} for i in range(50)])
    (plain,) = pipeline.stats()
    (row,) = pipeline.stats(buckets=True)
    for times in ("wait_ms", "run_ms"):
        assert "buckets" not in plain[times]
        figures = row[times]
        bounds = list(figures["buckets"])
        assert bounds == sorted(bounds) and sum(figures["buckets"].values()) == figures["count"]
        assert bounds[0] / 2 <= figures["p50"] and bounds[-1] > figures["max"] * (1 - 1e-9)
        assert 0 < figures["sum"] <= figures["max"] * figures["count"] * 17 / 16


def test_without_values_there_are_no_buckets(open_pipe: Any) -> None:
    (row,) = open_pipe("Identity").stats(buckets=True)
    assert row["wait_ms"]["buckets"] == {} and row["wait_ms"]["sum"] == 0


class Told(hami.Backend):
    """Counts its items, and tells."""

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.count = 0

    def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
        self.count += len(batch)
        return [item["data"] for item in batch]

    def stats(self) -> dict[str, Any]:
        return {"items": self.count, "share": 0.25, "name": "no number", 3: 4}


def test_a_backend_tells_figures_of_its_own(open_pipe: Any) -> None:
    hami.register("Told", Told)
    pipeline = open_pipe("Told")
    pipeline([{"data": i} for i in range(7)])
    assert pipeline.stats()[0]["backend"] == {"items": 7, "share": 0.25}


def test_figures_of_instances_and_of_stages_are_added_up(open_pipe: Any) -> None:
    hami.register("Told", Told)
    pipeline = open_pipe({"backend": "S[Told, Told]", "instance_num": 3, "max": 2})
    pipeline([{"data": i} for i in range(30)])
    assert pipeline.stats()[0]["backend"] == {"items": 60, "share": 0.25 * 6}


def test_a_backend_that_answers_later_tells_figures_too(open_pipe: Any) -> None:
    @hami.register
    class Later(hami.Backend):
        def start(self, item: dict[str, Any], reply: Any) -> None:
            item["result"] = item["data"]
            reply.finish()

        def stats(self) -> dict[str, float]:
            return {"depth": 2.5}

    assert open_pipe("Later").stats()[0]["backend"] == {"depth": 2.5}


@pytest.mark.parametrize("told", [None, 3, [("a", 1)], "figures"])
def test_what_is_no_dict_of_figures_means_nothing(open_pipe: Any, told: Any) -> None:
    @hami.register
    class Odd(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

        def stats(self) -> Any:
            return told

    assert open_pipe("Odd").stats()[0]["backend"] == {}


def test_an_attribute_of_that_name_is_the_backends_own_affair(open_pipe: Any, caplog: Any) -> None:
    @hami.register
    class Counts(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.stats = {"items": 3}

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

    assert open_pipe("Counts").stats()[0]["backend"] == {}
    assert caplog.records == []


def test_figures_that_cannot_be_told_are_logged_and_harm_nobody(open_pipe: Any, caplog: Any) -> None:
    @hami.register
    class Raises(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

        def stats(self) -> dict[str, int]:
            raise RuntimeError("no figures today")

    pipeline = open_pipe({"mine": {"backend": "Raises"}})
    (row,) = pipeline.stats()
    assert row["backend"] == {} and row["instances"] == 1
    assert [record.name for record in caplog.records] == ["hami.node.mine"]
    assert "no figures today" in caplog.text
