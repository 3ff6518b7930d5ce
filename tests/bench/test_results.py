"""Measurements as files: what is written can be read, and what cannot is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from measured_cases import change, one_round, result, results

from hami.bench.load import Load
from hami.bench.node_figures import NodeFigures
from hami.bench.results import Results, arrivals_text
from hami.errors import ConfigError

FIGURES = NodeFigures("model", 1.0, 1, 100, 0.5, 0.1, {4: 25}, {"full": 25})

CLOSED = result(
    [one_round(100, 5.0, 9.0, cpu_cores=1.5), one_round(110, 4.0, 8.0, cpu_cores=1.7)],
    (change("model.max", 4), change("batching_timeout", 2.5)),
    nodes=[FIGURES],
    other_cores=[0.1, 0.4],
    num_callers=8,
)
OPEN = result([one_round(0, num_errors=3)], rate_per_s=200.0)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_what_is_written_as_json_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    written = results(CLOSED, OPEN, unbuilt={"max=99": "no"}, is_complete=False)

    path.write_text(written.to_json())

    assert Results.read(path) == written


def test_the_json_names_its_form(tmp_path: Path) -> None:
    assert json.loads(results(CLOSED).to_json())["schema"] == "hami.bench/1"


def test_the_csv_has_a_line_for_each_case_with_what_the_json_has() -> None:
    closed, open_loop = rows_of(results(CLOSED, OPEN).to_csv())

    assert (closed["setting"], closed["load"]) == ("model.max=4 batching_timeout=2.5", "8 callers")
    assert (closed["rounds"], closed["requests"], closed["errors"]) == ("2", "210", "0")
    assert float(closed["throughput_per_s"]) == 105.0
    assert float(closed["throughput_per_s_low"]) < 100 < 110 < float(closed["throughput_per_s_high"])
    assert [float(closed[f"{name}_ms"]) for name in ("p50", "p90", "p99", "p99.9", "mean", "max")] == [
        4.5,
        4.5,
        8.5,
        8.5,
        4.5,
        8.5,
    ]
    assert float(closed["cpu_cores"]) == pytest.approx(1.6)
    assert float(closed["other_cores"]) == 0.4
    assert (float(closed["model.mean_batch"]), float(closed["model.run_ms"])) == (4.0, 20.0)
    assert (open_loop["setting"], open_loop["load"]) == ("as written", "200/s")
    assert (open_loop["errors"], open_loop["first_error"]) == ("3", "ValueError: no")


def test_what_was_not_measured_is_empty_in_the_csv() -> None:
    (row,) = rows_of(results(OPEN).to_csv())

    assert (row["p50_ms"], row["throughput_per_s_low"], row["gpu_use"], row["other_cores"]) == (
        "",
        "",
        "",
        "",
    )


def test_a_csv_of_nothing_is_a_line_without_columns() -> None:
    assert results().to_csv() == "\n"


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (Load(num_callers=1), "1 caller"),
        (Load(num_callers=8), "8 callers"),
        (Load(rate_per_s=12.5), "12.5/s"),
        (Load(rate_per_s=200, arrivals="fixed"), "200/s evenly"),
    ],
)
def test_a_load_has_a_name_of_a_few_words(load: Load, text: str) -> None:
    assert arrivals_text(load) == text


# --- files that are none ------------------------------------------------------------------------------------


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Results.read(path)
    assert caught.value.code == "bench-bad-file"
    assert caught.value.where == str(path)
    assert caught.value.help
    return caught.value


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "gone.json").message


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"schema": "hami.bench/0", "cases": []}'])
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)

    refusal(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")

    refusal(path)


@pytest.mark.parametrize("key", ["cases", "source", "unbuilt", "is_complete"])
def test_a_file_that_lacks_a_part_is_damaged(tmp_path: Path, key: str) -> None:
    data = results(CLOSED).to_dict()
    del data[key]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))

    assert key in refusal(path).message


@pytest.mark.parametrize("key", ["changes", "report", "nodes", "other_cores"])
def test_a_case_that_lacks_a_part_is_damaged(tmp_path: Path, key: str) -> None:
    data = results(CLOSED).to_dict()
    del data["cases"][0][key]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))

    assert key in refusal(path).message


def test_a_report_of_another_form_is_damaged(tmp_path: Path) -> None:
    data = results(CLOSED).to_dict()
    data["cases"][0]["report"]["schema"] = "other"
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))

    assert "damaged" in refusal(path).message
