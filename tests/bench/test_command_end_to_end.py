"""`hami bench` on real pipelines with the real engine, in short rounds."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run
from probes import wait_until

from hami.bench.results import Results
from hami.plan import plan

# A run costs the same for any number of rows, as on a device that is never full.
DEVICE = """\
import time

import hami


@hami.register
class BenchDevice(hami.Backend):
    \"\"\"Takes 4 ms a run.\"\"\"

    batch_range = (1, 16)

    def forward(self, batch):
        time.sleep(0.004)
        for item in batch:
            item["result"] = item["data"]
"""
PIPELINE = """\
imports = ["./device.py"]

[ready]
backend = "Identity"
next = "device"

[device]  # the slow one
backend = "BenchDevice"
max = 1  # one by one
"""
SHORT = ("-t", "0.1", "--warmup", "0.02")


@pytest.fixture(autouse=True)
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline and its requests in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("device.py").write_text(DEVICE)
    Path("pipeline.toml").write_text(PIPELINE)
    Path("in.jsonl").write_text('{"data": 1}\n{"data": 2}\n')


def bench(*options: str) -> str:
    """Run the command on the pipeline and return what it printed."""
    result = run("bench", "pipeline.toml", "--input", "in.jsonl", *SHORT, *options)
    assert result.exit_code == 0, result.stderr + result.stdout
    return result.stdout


def test_a_sweep_measures_what_batches_gain() -> None:
    bench("-c", "1,8", "--repeats", "2", "--sweep", "max=1,8", "--json", "o.json", "--csv", "o.csv")

    found = {case.key: case for case in Results.read(Path("o.json")).cases}
    one_by_one, together = found["device.max=1", "8 callers"], found["device.max=8", "8 callers"]
    assert one_by_one.report.throughput_per_s.mean < 260  # 1 / 4 ms
    assert together.report.throughput_per_s.mean > 3 * one_by_one.report.throughput_per_s.mean
    assert together.figures["device"].mean_batch > 4 > 1 == one_by_one.figures["device"].mean_batch
    assert together.figures["device"].mean_run_ms >= 4
    assert together.figures["ready"].items == together.figures["device"].items
    assert [row["errors"] for row in csv.DictReader(Path("o.csv").read_text().splitlines())] == ["0"] * 4


def test_an_open_loop_sends_at_its_rate() -> None:
    text = bench("--rate", "50", "--arrivals", "fixed", "--repeats", "2", "-t", "0.4", "--json", "o.json")

    (case,) = Results.read(Path("o.json")).cases
    assert "50/s evenly" in text
    assert [each.num_requests for each in case.report.rounds] == [20, 20]


def test_a_measurement_compares_with_itself() -> None:
    bench("-c", "4", "--repeats", "2", "--json", "o.json")

    text = bench("-c", "4", "--repeats", "2", "--compare", "o.json")

    assert text.count("requests/s") == 2 and "new / old" in text


def test_a_backend_that_raises_is_told_with_its_first_error() -> None:
    Path("device.py").write_text(DEVICE.replace("time.sleep(0.004)", 'raise ValueError("no device")'))

    result = run("bench", "pipeline.toml", "--input", "in.jsonl", *SHORT, "-c", "2", "--repeats", "2")

    assert result.exit_code == 1
    assert "failed, first: ValueError: no device" in result.stdout


def test_the_tuner_finds_the_batches_of_a_device_and_writes_them_into_a_copy() -> None:
    text = bench("--tune", "--latency-target", "1000", "-c", "4", "--repeats", "3", "-t", "0.08", "--write")

    written = Path("pipeline.tuned.toml").read_text()
    (device,) = (node for node in plan(Path("pipeline.tuned.toml")).nodes if node.name == "device")
    assert device.params["max"] * device.params.get("instance_num", 1) >= 4  # as many as there are callers
    assert "# the slow one\n" in written and "# one by one\n" in written
    assert Path("pipeline.toml").read_text() == PIPELINE
    assert f"max = {device.params['max']}" in text
    assert "device: a run of n rows takes " in text
    assert "device, as the file is: its instance was busy" in text


def test_a_latency_below_one_run_cannot_be_met_and_it_says_what_bounds_it() -> None:
    result = run(
        *("bench", "pipeline.toml", "--input", "in.jsonl", *SHORT),
        *("--tune", "--latency-target", "1", "-c", "2", "--repeats", "2", "-t", "0.05", "--write"),
    )

    assert result.exit_code == 1
    assert not Path("pipeline.tuned.toml").exists()
    assert "nothing that was measured keeps p99 within 1 ms" in result.stdout
    assert "a single caller already waits" in result.stdout


def test_ctrl_c_ends_it_and_keeps_what_has_been_measured() -> None:
    command = [sys.executable, "-m", "hami", "bench", "pipeline.toml", "--input", "in.jsonl", "-c", "2"]
    more = ["-t", "0.1", "--warmup", "0", "--repeats", "900", "--json", "o.json"]
    Path("device.py").write_text(
        DEVICE.replace(
            "time.sleep(0.004)",
            'time.sleep(0.004)\n        self.count = getattr(self, "count", 0) + 1\n'
            '        if self.count == 100:\n            open("ready", "w").close()',
        )
    )
    with subprocess.Popen(
        [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: Path("ready").exists() or process.poll() is not None, 50.0)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)

    assert process.returncode == 130, errors
    assert "interrupted: these are the rounds that had ended" in output
    assert "2 callers" in output and "\x1b" not in output + errors
    assert json.loads(Path("o.json").read_text())["is_complete"] is False
