"""`hami bench`: its options, what it prints and writes, its exit codes. The measuring is a stand-in."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_stand import Stand, bench
from command_line import assert_refused, run

from hami.bench.load import Load

Write = Callable[..., str]

pytestmark = pytest.mark.usefixtures("real_core")


def callers_of(stand: Stand) -> list[int | None]:
    return [load.num_callers for load in stand.loads]


# --- loads --------------------------------------------------------------------------------------------------


def test_without_options_there_are_three_loads_and_five_rounds_of_each(stand: Stand) -> None:
    result = bench()

    assert result.exit_code == 0, result.stderr
    assert callers_of(stand) == [1, 8, 40, 40, 8, 1, 1, 8, 40, 40, 8, 1, 1, 8, 40]


def test_every_option_of_a_load_reaches_the_engine(stand: Stand) -> None:
    options = "-c 3 --rate 100,200.5 --arrivals fixed -t 0.25 --repeats 1 --warmup 0 --seed 9"

    assert bench(*options.split()).exit_code == 0
    assert stand.loads == [
        Load(num_callers=3, duration_s=0.25, warmup_s=0.0, repeats=1, seed=9),
        *(
            Load(rate_per_s=rate, arrivals="fixed", duration_s=0.25, warmup_s=0.0, repeats=1, seed=9)
            for rate in (100.0, 200.5)
        ),
    ]


def test_with_a_rate_alone_there_is_no_closed_loop(stand: Stand) -> None:
    bench("--rate", "50", "--repeats", "1")

    assert [(load.num_callers, load.rate_per_s) for load in stand.loads] == [(None, 50.0)]


# --- requests -----------------------------------------------------------------------------------------------


def test_the_requests_come_from_the_file(stand: Stand) -> None:
    bench("--repeats", "1", "-c", "1")

    assert sorted(request["data"] for request in stand.samples) == [1, 2]


def test_the_bytes_of_files_come_under_the_key(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")

    run("bench", "pipeline.toml", "--input", "*.bin", "--key", "picture", "--repeats", "1", "-c", "1")

    assert stand.samples == [{"picture": b"abc"}]


def test_a_pipeline_that_needs_data_and_gets_none_says_how_to_give_it(stand: Stand) -> None:
    result = run("bench", "pipeline.toml")

    assert_refused(result, "hami bench: bench-no-input", "the pipeline needs data", "help: add `--input`")
    assert stand.loads == []


def test_a_pipeline_that_needs_nothing_is_measured_without_requests(stand: Stand, write: Write) -> None:
    file = write(
        "import hami\n\n\n@hami.register\ndef BenchNow(batch):\n    return [1 for _ in batch]\n", "now.py"
    )
    write(f'imports = ["./{file}"]\n[now]\nbackend = "BenchNow"\n', "now.toml")

    result = run("bench", "now.toml", "--repeats", "1", "-c", "1")

    assert result.exit_code == 0, result.stderr
    assert stand.samples == [{}]


def test_requests_that_are_not_there_are_refused(stand: Stand) -> None:
    assert_refused(run("bench", "pipeline.toml", "--input", "gone.jsonl"), "gone.jsonl")


def test_a_folder_without_files_is_refused(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert_refused(run("bench", "pipeline.toml", "--input", "empty"), "empty")


# --- settings -----------------------------------------------------------------------------------------------


def settings_in(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith(("first.", "second."))]


def test_settings_are_swept_and_shown(stand: Stand) -> None:
    result = bench("-c", "1", "--repeats", "2", "--sweep", "max=1,2", "batching_timeout=0,5")

    assert result.exit_code == 0, result.stderr
    assert settings_in(result.stdout) == ["second.max=1", "second.max=1", "second.max=2", "second.max=2"]
    assert len(stand.loads) == 8


def test_more_of_a_sweep_may_follow_anywhere_behind_the_file(stand: Stand) -> None:
    result = bench("--sweep", "second.max=1", "first.instance_num=1,2", "-c", "1", "--repeats", "1")

    assert settings_in(result.stdout) == ["second.max=1", "second.max=1"]
    assert "first.instance_num=2" in result.stdout


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("mx=1", ("--sweep mx=1: config-unknown-key", "did you mean `max`?")),
        ("third.max=1", ("bench-unknown-node", "`third`", "the nodes are `first`, `second`")),
        ("max=0", ("--sweep max=0: plan-bad-value", "`0`")),
        ("max", ("--sweep: bench-bad-sweep", "`max`")),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_runs(
    stand: Stand, sweep: str, words: tuple[str, ...]
) -> None:
    assert_refused(bench("--sweep", sweep), *words)
    assert stand.loads == []


def test_a_setting_that_cannot_be_built_is_told_and_the_others_are_measured(
    stand: Stand, write: Write
) -> None:
    file = write(
        "import hami\n\n\n@hami.register\nclass BenchPair(hami.Backend):\n    batch_range = (1, 2)\n\n"
        "    def forward(self, batch):\n        for item in batch:\n            item['result'] = 1\n",
        "pair.py",
    )
    write(f'imports = ["./{file}"]\n[pair]\nbackend = "BenchPair"\nmax = 2\n', "pair.toml")

    result = run(
        "bench", "pair.toml", "--input", "in.jsonl", "--sweep", "max=2,4", "-c", "1", "--repeats", "1"
    )

    assert result.exit_code == 0
    assert "`pair.max=4` cannot be built:" in result.stdout and "build-batch-range" in result.stdout
    assert len(stand.loads) == 1


# --- files --------------------------------------------------------------------------------------------------


def test_all_files_are_written(stand: Stand, tmp_path: Path) -> None:
    result = bench("-c", "1,8", "--repeats", "2", "--json", "o.json", "--csv", "o.csv", "--plot", "o.png")

    assert result.exit_code == 0, result.stderr
    data = json.loads((tmp_path / "o.json").read_text())
    assert (data["source"], len(data["cases"])) == ("pipeline.toml", 2)
    rows = list(csv.DictReader((tmp_path / "o.csv").read_text().splitlines()))
    assert [row["load"] for row in rows] == ["1 caller", "8 callers"]
    assert (tmp_path / "o.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", ["--json", "--csv", "--plot"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(stand: Stand, option: str) -> None:
    assert_refused(bench(option, "gone/out.png"), "cli-unwritable-file", "gone")
    assert stand.loads == []


def test_a_kind_of_picture_that_is_not_drawn_is_refused_before_anything_runs(stand: Stand) -> None:
    assert_refused(bench("--plot", "out.xls"), "bench-bad-plot", "`.xls`")
    assert stand.loads == []


# --- comparison ---------------------------------------------------------------------------------------------

SHORT = ("-c", "1,8", "--repeats", "3")


def test_a_measurement_can_be_compared_with_an_earlier_one(stand: Stand) -> None:
    bench(*SHORT, "--json", "old.json")
    stand.per_s = lambda load: 200.0 * (load.num_callers or 1) + load.seed

    result = bench(*SHORT, "--compare", "old.json")

    assert result.exit_code == 0
    assert result.stdout.count("improved") == 2
    assert result.stdout.count("no difference shown") == 4


@pytest.mark.parametrize(("limit", "status"), [("10%", 1), ("10", 1), ("60%", 0), ("0", 1)])
def test_a_loss_above_the_limit_is_an_exit_code(stand: Stand, limit: str, status: int) -> None:
    bench(*SHORT, "--json", "old.json")
    stand.per_s = lambda load: 50.0 * (load.num_callers or 1) + load.seed

    result = bench(*SHORT, "--compare", "old.json", "--fail-above", limit)

    assert result.exit_code == status
    assert result.stdout.count("regressed") == 2
    assert ("is worse by" in result.stdout) is bool(status)


def test_without_a_limit_a_loss_is_no_failure(stand: Stand) -> None:
    bench(*SHORT, "--json", "old.json")
    stand.per_s = lambda load: 50.0

    assert bench(*SHORT, "--compare", "old.json").exit_code == 0


def test_a_measurement_of_other_loads_has_nothing_to_compare(stand: Stand) -> None:
    bench(*SHORT, "--json", "old.json")

    assert "nothing to compare" in bench("-c", "2", "--repeats", "2", "--compare", "old.json").stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--compare gone.json", ("gone.json: bench-bad-file", "No such file")),
        ("--compare in.jsonl", ("in.jsonl: bench-bad-file",)),
        ("--fail-above 10%", ("bench-options", "`--fail-above`", "--compare old.json")),
        ("--compare in.jsonl --fail-above ten", ("--fail-above: bench-bad-number", "`ten`")),
        ("--compare in.jsonl --fail-above -1", ("bench-bad-number", "`-1`")),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_before_anything_runs(
    stand: Stand, options: str, words: tuple[str, ...]
) -> None:
    assert_refused(bench(*options.split()), *words)
    assert stand.loads == []


# --- errors, interrupts, terminals --------------------------------------------------------------------------


def test_errors_of_some_requests_are_told_and_are_no_failure(stand: Stand) -> None:
    stand.num_errors = 3

    result = bench("-c", "1", "--repeats", "2")

    assert result.exit_code == 0
    assert "1 caller: 6 of " in result.stdout and "failed, first: ValueError: no" in result.stdout


def test_where_all_requests_failed_the_exit_code_is_1(stand: Stand) -> None:
    stand.num_errors, stand.per_s = 3, lambda load: 0.0

    result = bench("-c", "1", "--repeats", "2", "--json", "o.json")

    assert result.exit_code == 1
    assert "1 caller: 6 of 6 failed, first: ValueError: no" in result.stdout
    assert Path("o.json").exists()


def test_an_interrupt_shows_and_writes_what_has_been_measured(stand: Stand) -> None:
    stand.interrupt_at = 4

    result = bench("-c", "1,8", "--repeats", "5", "--json", "o.json")

    assert result.exit_code == 130
    assert "1 caller" in result.stdout and "8 callers" in result.stdout
    assert "interrupted" in result.stdout
    data = json.loads(Path("o.json").read_text())
    assert [len(case["report"]["rounds"]) for case in data["cases"]] == [2, 2]
    assert data["is_complete"] is False


def test_an_interrupt_before_the_first_round_shows_no_table(stand: Stand) -> None:
    stand.interrupt_at = 0

    result = bench()

    assert (result.exit_code, result.stdout) == (130, "interrupted: these are the rounds that had ended\n")


def test_without_a_terminal_there_are_no_control_codes_and_no_bar(stand: Stand) -> None:
    result = bench("--sweep", "max=1,2", "-c", "1")

    assert "\x1b" not in result.stdout and "\r" not in result.stdout
    assert result.stderr == ""


def test_without_its_packages_it_names_the_extra(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hami.cli.bench.screen")
    monkeypatch.setitem(sys.modules, "rich.progress", None)

    assert_refused(bench(), "bench-missing-package", "pip install hami-core[bench]")


def test_an_unknown_file_is_said_as_everywhere(stand: Stand) -> None:
    assert_refused(run("bench", "gone.toml"), "gone.toml: config-missing-file")


def test_a_pipeline_that_cannot_be_built_is_said_as_everywhere(stand: Stand, write: Write) -> None:
    write('[a]\nbackend = "ReadFile(root=/no/such/folder)"\n', "broken.toml")

    assert_refused(run("bench", "broken.toml", "--input", "in.jsonl"), "file-root", "/no/such/folder")
    assert stand.loads == []
