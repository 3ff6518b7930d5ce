"""The options of `hami bench`: how they are read, and those that mean nothing together."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_stand import Stand, bench
from command_line import assert_refused, run

from hami.cli.bench.arguments import Arguments, numbers_of
from hami.errors import ConfigError

Write = Callable[..., str]

pytestmark = pytest.mark.usefixtures("real_core")


def test_numbers_have_commas_between_and_come_once() -> None:
    assert numbers_of("-c", "8,1,8", int) == [8, 1]
    assert numbers_of("--rate", "0.5, 2", float) == [0.5, 2.0]


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        ("-c 1,x", "--callers", "`1,x`"),
        ("-c 1.5", "--callers", "`1.5`"),
        ("--rate fast", "--rate", "`fast`"),
        ("-c 0", "num_callers", "`0`"),
        ("--rate -1", "rate_per_s", "`-1.0`"),
        ("--rate nan", "rate_per_s", "`nan`"),
        ("-t 0", "duration_s", "`0.0`"),
    ],
)
def test_a_load_that_cannot_be_is_refused(stand: Stand, options: str, place: str, value: str) -> None:
    assert_refused(bench(*options.split()), place, value, "help: ")
    assert stand.loads == []


@pytest.mark.parametrize("options", ["--repeats 0", "--warmup -1", "--seed -1", "--arrivals bursts", "-t x"])
def test_an_option_out_of_range_is_refused(stand: Stand, options: str) -> None:
    assert bench(*options.split()).exit_code == 2
    assert stand.loads == []


# --- tuning: what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--tune", ("bench-options", "--latency-target 50")),
        ("--latency-target 50", ("`--latency-target`", "with `--tune` only")),
        ("--write", ("`--write`", "with `--tune` only")),
        ("--node first", ("`--node`", "with `--tune` only")),
        ("--tune --latency-target 5 --sweep max=1", ("`--sweep` cannot be used with `--tune`",)),
        ("--tune --latency-target 5 --json o.json", ("`--json` cannot be used with `--tune`",)),
        ("--tune --latency-target 0", ("--latency-target: bench-bad-number", "`0`")),
        ("--tune --latency-target inf", ("--latency-target: bench-bad-number", "`inf`")),
        ("--tune --latency-target 5 --percentile 98", ("--percentile: bench-bad-number", "`98`")),
        ("--tune --latency-target 5 -c 1,8", ("`--tune` is for one load, and there are 2",)),
        ("--tune --latency-target 5 -c 1 --rate 5", ("`--tune` is for one load, and there are 2",)),
        ("--tune --latency-target 5 --node thrid", ("--node: bench-unknown-node", "`thrid`")),
    ],
)
def test_tuning_that_cannot_be_is_refused_before_anything_runs(
    stand: Stand, options: str, words: tuple[str, ...]
) -> None:
    assert_refused(bench(*options.split()), *words)
    assert stand.loads == []


def test_an_earlier_proposal_is_not_overwritten(stand: Stand, write: Write) -> None:
    write("mine", "pipeline.tuned.toml")

    assert_refused(bench("--tune", "--latency-target", "5", "--write"), "pipeline.tuned.toml")
    assert Path("pipeline.tuned.toml").read_text() == "mine"


def test_an_expression_has_no_file_to_write_beside(stand: Stand) -> None:
    options = ("--input", "in.jsonl", "--tune", "--latency-target", "5", "--write")

    assert_refused(run("bench", "Identity", *options), "bench-options", "`--write`")


# --- the options by themselves ------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "name"), [("50", "p50"), ("p99", "p99"), ("99.9", "p99.9")])
def test_a_percentile_is_written_with_or_without_its_letter(text: str, name: str) -> None:
    assert Arguments("Identity", percentile=text).percentile_name() == name


@pytest.mark.parametrize(("text", "part"), [("10%", 0.1), ("2.5", 0.025), ("0%", 0.0)])
def test_a_limit_is_a_percentage(text: str, part: float) -> None:
    assert Arguments("Identity", fail_above=text).largest_loss() == pytest.approx(part)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -5.0])
def test_a_latency_target_is_a_number_above_0(value: float) -> None:
    with pytest.raises(ConfigError, match="is no latency"):
        Arguments("Identity", latency_ms=value).latency_target()
