"""Check the benchmark for GPUs as far as a CPU can: options, tables, the same cases with a tiny network."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FOLDER, load, run_benchmark

gpu = load("gpu")

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed, which is the engine")


# --- options ---------------------------------------------------------------------------------------


def test_without_options_everything_is_measured_on_the_first_gpu() -> None:
    options = gpu.options_from([])

    assert (options.device, options.network) == ("cuda", "resnet50")
    assert options.parts == ["engine", "pictures"] and options.engines == ["module", "package"]
    assert options.tries == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parts", "engine,picture"], "--parts: `picture` is none of engine, pictures"),
        (["--engines", "tensorrt"], "--engines: `tensorrt` is none of module, package"),
        (["--engines", ""], "--engines: `` is none of module, package"),
    ],
)
def test_an_unknown_choice_is_named_with_the_known_ones(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        gpu.options_from(arguments)


def test_an_unknown_network_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.options_from(["--network", "resnet51"])

    assert "resnet51" in capsys.readouterr().err


# --- what is lacking -------------------------------------------------------------------------------


def test_only_what_the_cases_import_is_needed() -> None:
    assert set(gpu.needed_packages("cpu", "tiny", ["engine"])) == {"torch"}
    assert set(gpu.needed_packages("cpu", "tiny", ["pictures"])) == {"torch", "cv2", "skimage"}
    assert set(gpu.needed_packages("cuda", "tiny", ["pictures"])) == {
        "torch",
        "cv2",
        "skimage",
        "torchvision",
    }
    assert set(gpu.needed_packages("cuda", "resnet50", ["engine"])) == {"torch", "torchvision"}


@pytest.mark.parametrize("module", ["torch", "torchvision", "cv2", "skimage"])
def test_a_missing_module_is_named_with_its_purpose(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else found("json"))

    reason = gpu.lacking("cpu", "resnet50", ["engine", "pictures"])

    assert reason.startswith(f"there is no module `{module}`, w")


@needs_torch
def test_a_machine_without_a_gpu_ends_with_2_and_says_what_is_lacking(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here, so nothing is lacking")
    command = [sys.executable, str(FOLDER / "gpu.py"), "--network", "tiny", "--parts", "engine"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)

    assert ended.returncode == 2 and ended.stdout == ""
    assert "gpu: torch sees no NVIDIA GPU; `--device cpu --network tiny`" in ended.stderr


@needs_torch
def test_a_cpu_has_no_card() -> None:
    assert gpu.card("cpu").startswith("no GPU, torch ")


# --- tables ----------------------------------------------------------------------------------------


def engine_row(number: int, engine: str = "module", place: str = "host", **figures: float) -> dict[str, Any]:
    usual = {
        "calls_per_s": 900.0,
        "bare_per_s": 1000.0,
        "loops_per_s": 1200.0,
        "single_per_s": 200.0,
        "p50_us": 8000.0,
    }
    usual |= {"p99_us": 9000.0, "mean_batch": 15.5, "of_bare": 0.9, "of_loops": 0.75, "of_single": 4.5}
    case = {"case": "engine", "engine": engine, "max_rows": 16, "instances": 1, "place": place}
    return {**case, "round": number, **usual, **figures}


def test_a_line_of_the_table_shows_medians_with_smallest_and_largest_round() -> None:
    rows = [engine_row(1, calls_per_s=800), engine_row(2), engine_row(3, calls_per_s=990, of_bare=0.99)]

    (line,) = gpu.engine_table(rows).splitlines()[2:]

    assert line.startswith(
        "| module with CUDA graphs | 16 x 1 | host memory | 900 (800 to 990) | 8.00 (8.00 "
    )
    assert "| 90.0 (90.0 to 99.0) |" in line and line.endswith("| 200 (200 to 200) | 4.5 (4.5 to 4.5) |")


def test_every_engine_and_place_has_a_line_of_its_own() -> None:
    rows = [
        engine_row(number, engine, place)
        for number in (1, 2)
        for engine in ("module", "package")
        for place in ("host", "device")
    ]

    lines = gpu.engine_table(rows).splitlines()[2:]

    assert [line.split(" | ")[2] for line in lines] == ["host memory", "GPU memory"] * 2
    assert [("package" in line) for line in lines] == [False, False, True, True]


def test_the_targets_come_from_the_medians() -> None:
    rows = [engine_row(1, of_bare=0.5), engine_row(2, of_bare=0.97), engine_row(3, of_bare=0.98)]

    assert gpu.engine_targets(rows) == (
        "module, 16 x 1, host memory: 97.0% of bare (target: at least 95%), "
        "4.5x batch 1 (target: at least 3x)"
    )


def stage_row(number: int, stage: str, calls_per_s: float, **figures: Any) -> dict[str, Any]:
    usual = {"calls_per_s": calls_per_s, "p50_us": 1000.0, "p99_us": 2000.0, "mean_batch": 16.0}
    case = {"case": "pictures", "stage": stage, "instances": "2 + 1 + 2", "bare_per_s": 120.0}
    return {**case, "round": number, **usual, **figures}


def test_the_pipeline_is_compared_with_the_slowest_stage_of_its_own_round() -> None:
    rows = [
        *(stage_row(1, *pair) for pair in (("decode", 100), ("resize", 500), ("classify", 300), ("all", 95))),
        *(stage_row(2, *pair) for pair in (("decode", 50), ("resize", 500), ("classify", 300), ("all", 40))),
        *(
            stage_row(3, *pair)
            for pair in (("decode", 400), ("resize", 500), ("classify", 200), ("all", 180))
        ),
    ]

    assert gpu.picture_targets(rows) == (
        "2 + 1 + 2: the whole pipeline: 90.0% of the slowest stage alone, decode (target: at least 90%)"
    )


def test_stages_and_pipeline_stand_below_each_other_for_each_choice_of_instances() -> None:
    pairs = (("decode", 100), ("all", 90))
    rows = [stage_row(1, *pair, instances=text) for text in ("2 + 1 + 2", "1 + 1 + 1") for pair in pairs]

    stage, whole, *others = gpu.picture_table(rows).splitlines()[2:]

    assert stage.startswith("| 2 + 1 + 2 | decode alone | 100 (100 to 100) | 1.00")
    assert whole.startswith("| 2 + 1 + 2 | the whole pipeline | 90")
    assert stage.endswith("| 120 (120 to 120) |")
    assert [line.startswith("| 1 + 1 + 1 |") for line in others] == [True, True]
    assert len(gpu.picture_targets(rows).splitlines()) == 2


# --- loops written by hand -------------------------------------------------------------------------


@needs_torch
def test_a_loop_gives_the_scores_of_its_rows_in_their_order() -> None:
    import torch

    loops = load("gpu_loops")
    rows = [torch.full((2,), value) for value in (1.0, 2.0, 3.0)]

    assert loops.Loop(lambda batch: batch * 10, rows, "cpu").run()[:, 0].tolist() == [10, 20, 30]


@needs_torch
def test_the_rate_counts_the_rows_of_all_threads() -> None:
    loops = load("gpu_loops")
    seen: set[int] = set()

    found = loops.rate([lambda: seen.add(threading.get_ident())] * 3, rows=5, seconds=0.02)

    assert len(seen) == 3
    assert found > 5 * 3 * 1000


@needs_torch
def test_each_loop_has_a_rate_of_its_own() -> None:
    loops = load("gpu_loops")

    slow, fast = loops.rates([lambda: sum(range(100_000)), lambda: None], rows=1, seconds=0.05)

    assert 0 < slow < fast


@needs_torch
def test_resized_by_hand_every_picture_keeps_its_place() -> None:
    import torch

    pictures = [
        torch.full((3, *size), 10 * value, dtype=torch.uint8)
        for value, size in enumerate([(8, 6), (4, 4), (8, 6), (5, 5), (4, 4)])
    ]

    squares = load("gpu_pictures").resize_by_hand(pictures, 4)

    assert [square.shape for square in squares] == [(3, 4, 4)] * 5
    assert [int(square.max()) for square in squares] == [0, 10, 20, 30, 40]


@needs_torch
def test_files_of_an_earlier_run_are_used_again(tmp_path: Path) -> None:
    setup = load("gpu_cases").Setup("tiny", "cpu", tmp_path, 0.01)
    setup.prepare(["module"])
    before = setup.weights.stat().st_mtime_ns

    setup.prepare(["module"])

    assert setup.weights.stat().st_mtime_ns == before


@needs_torch
def test_a_package_that_cannot_be_compiled_ends_the_benchmark_with_the_reason(tmp_path: Path) -> None:
    import torch

    models = load("gpu_models")
    with pytest.raises(SystemExit, match="No such file"):
        models.write_package("tiny", tmp_path / "none", tmp_path / "a.pt2", "cpu", torch.float32, 4)


@needs_torch
def test_a_slow_work_is_counted_though_the_time_is_over() -> None:
    loops = load("gpu_loops")

    assert loops.rate([lambda: sum(range(200_000))], rows=1, seconds=0.0) > 0


@needs_torch
def test_an_error_in_a_loop_ends_the_measurement_with_that_error() -> None:
    loops = load("gpu_loops")

    def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        loops.rate([broken], rows=1, seconds=0.01)


# --- the networks ----------------------------------------------------------------------------------


@needs_torch
def test_settled_weights_keep_the_scores_small_enough_for_half_precision(tmp_path: Path) -> None:
    import torch

    models = load("gpu_models")
    models.write_weights("tiny", tmp_path / "tiny.pth")
    network = models.load("tiny", tmp_path / "tiny.pth", "cpu", torch.float32)
    pixels = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)

    with torch.no_grad():
        scores = network(pixels)

    assert scores.shape == (4, models.NUM_CLASSES)
    assert 1e-3 < scores.abs().max() < 100
    assert (scores[0] != scores[1]).any()


@needs_torch
def test_the_weights_of_two_runs_are_the_same(tmp_path: Path) -> None:
    import torch

    models = load("gpu_models")
    for name in ("one", "two"):
        models.write_weights("tiny", tmp_path / name)

    one, two = (torch.load(tmp_path / name) for name in ("one", "two"))
    assert all(torch.equal(one[key], two[key]) for key in one)


# --- from end to end -------------------------------------------------------------------------------


@needs_torch
@pytest.mark.timeout(200)
@pytest.mark.skipif(
    importlib.util.find_spec("skimage") is None,
    reason="scikit-image is not installed, which ships the photographs",
)
def test_the_benchmark_runs_from_end_to_end_on_a_cpu(tmp_path: Path) -> None:
    # AOTInductor compiles with a C++ compiler
    engines = ["module", "package"] if shutil.which("g++") else ["module"]
    options = ["--device", "cpu", "--network", "tiny", "--engines", ",".join(engines), "--seconds", 0.5]

    printed, rows = run_benchmark("gpu.py", *options, folder=tmp_path)

    cases = [(row["engine"], row["max_rows"], row["instances"]) for row in rows if row["case"] == "engine"]
    assert cases == [(engine, *variant) for engine in engines for variant in ((8, 2), (16, 1))]
    stages = [row["stage"] for row in rows if row["case"] == "pictures"]
    assert stages == ["decode", "resize", "classify", "all"] * 2  # callers of Python, and of the core
    assert printed.splitlines()[1].startswith("no GPU, torch ")
    for text in (
        "### An engine",
        "of bare (target",
        "### From bytes to a label",
        "of the slowest stage alone",
    ):
        assert text in printed
    assert all(0 < row["p50_us"] <= row["p99_us"] for row in rows)


@needs_torch
def test_a_wrong_label_ends_the_benchmark(tmp_path: Path) -> None:
    import torch

    cases, pictures = load("gpu_cases"), load("gpu_pictures")
    setup = cases.Setup("tiny", "cpu", tmp_path, 0.01)
    setup.prepare(["module"])
    pixels = [torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8) for _ in range(2)]
    with torch.no_grad():
        scores = setup.bare("module")(torch.stack(pixels))

    pictures.check(setup, scores.argmax(1).tolist(), pixels)
    with pytest.raises(SystemExit, match="gives caller 1 the label"):
        pictures.check(setup, [int(scores[0].argmax()), int(scores[1].argmin())], pixels)
