"""Measure engines on an NVIDIA GPU beside loops written by hand, and a pipeline beside its stages.

    python benchmarks/gpu.py [--rounds 5] [--seconds 1] [--parts engine,pictures] [--engines module,package]
                             [--folder FOLDER]

The network is ResNet-50 of torchvision with random weights in half precision, as a module with CUDA graphs
and as an AOTInductor package, called with single requests by 16 threads. `--device cpu --network tiny` runs
the same cases on a machine without a GPU, which says nothing about speed.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from rounds import Rounds, Row, Run, machine, median_of, options_of, output_of, spread_of, table

PARTS = ("engine", "pictures")
ENGINES = ("module", "package")
TITLES = {"module": "module with CUDA graphs", "package": "AOTInductor package"}
PLACES = {"host": "host memory", "device": "GPU memory"}
STAGES = ("decode", "resize", "prepare", "classify", "all")
TARGET_OF_BARE, TARGET_OF_SINGLE, TARGET_OF_SLOWEST = 0.95, 3.0, 0.90

ENGINE_COLUMNS = [
    "engine",
    "max x instances",
    "pixels in",
    "hami, images/s",
    "p50, ms",
    "p99, ms",
    "mean batch",
    "bare loop, images/s",
    "of bare, %",
    "as many bare loops as instances, images/s",
    "of these, %",
    "batch 1, images/s",
    "of batch 1",
]
PICTURE_COLUMNS = [
    "instances, callers x pictures of a call",
    "stage",
    "hami, pictures/s",
    "p50, ms",
    "p99, ms",
    "mean batch of the last node",
    "bare loops (of the pipeline: the slowest stage, all at once), pictures/s",
]


# --- what is needed --------------------------------------------------------------------------------


def needed_packages(device: str, network: str, parts: list[str]) -> dict[str, str]:
    """Return the modules that the cases import, each with what it is for."""
    needed = {"torch": "which is the engine"}
    if network == "resnet50":
        needed["torchvision"] = "which has ResNet-50"
    if "pictures" in parts:
        needed["cv2"] = "with which `DecodeTensor` reads what nvJPEG does not"
        needed["skimage"] = "which ships the photographs"
        if device != "cpu":
            needed["torchvision"] = "which has ResNet-50 and decodes JPEG on the GPU"
    return needed


def lacking(device: str, network: str, parts: list[str]) -> str:
    """Return what this machine has not and the cases need; nothing if it has all."""
    for module, purpose in needed_packages(device, network, parts).items():
        if importlib.util.find_spec(module) is None:
            return f"there is no module `{module}`, {purpose}"
    if device != "cpu":
        import torch

        if not torch.cuda.is_available():
            return "torch sees no NVIDIA GPU; `--device cpu --network tiny` runs the same cases without one"
    return ""


def card(device: str) -> str:
    """Return the name of the GPU with its driver and the CUDA that torch was built for."""
    import torch

    if device == "cpu":
        return f"no GPU, torch {torch.__version__}"
    query = ("--query-gpu=driver_version", "--format=csv,noheader", f"--id={torch.device(device).index or 0}")
    driver = output_of("nvidia-smi", *query) if shutil.which("nvidia-smi") else "unknown"
    return f"{torch.cuda.get_device_name(device)}, driver {driver}, CUDA {torch.version.cuda}"


def choices(text: str, known: tuple[str, ...], option: str) -> list[str]:
    """Return the names in a text such as `module,package`. An unknown one ends the program."""
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"{option}: `{unknown[0]}` is none of {', '.join(known)}")
    return names


# --- tables ----------------------------------------------------------------------------------------


def engine_rows(rows: list[Row]) -> list[list[Row]]:
    """Return the rows of each case of an engine, in the order in which they came."""
    keys = ("engine", "max_rows", "instances", "place")
    mine = [row for row in rows if row["case"] == "engine"]
    cases = dict.fromkeys(tuple(row[key] for key in keys) for row in mine)
    return [[row for row in mine if tuple(row[key] for key in keys) == case] for case in cases]


def in_ms(rows: list[Row], key: str) -> str:
    return spread_of([{key: row[key] / 1e3} for row in rows], key, 2)


def engine_table(rows: list[Row]) -> str:
    """Return a line for each engine, number of rows and instances, and place of the pixels."""
    lines = []
    for mine in engine_rows(rows):
        first = mine[0]
        percents = [{name: row[name] * 100 for name in ("of_bare", "of_loops")} for row in mine]
        lines.append(
            [
                TITLES[first["engine"]],
                f"{first['max_rows']} x {first['instances']}",
                PLACES[first["place"]],
                spread_of(mine, "calls_per_s"),
                in_ms(mine, "p50_us"),
                in_ms(mine, "p99_us"),
                spread_of(mine, "mean_batch", 1),
                spread_of(mine, "bare_per_s"),
                spread_of(percents, "of_bare", 1),
                spread_of(mine, "loops_per_s"),
                spread_of(percents, "of_loops", 1),
                spread_of(mine, "single_per_s"),
                spread_of(mine, "of_single", 1),
            ]
        )
    return table(ENGINE_COLUMNS, lines)


def engine_targets(rows: list[Row]) -> str:
    """Return a line for each case: the share of the bare loop, and how many times batch 1."""
    lines = []
    for mine in engine_rows(rows):
        first = mine[0]
        name = f"{first['engine']}, {first['max_rows']} x {first['instances']}, {PLACES[first['place']]}"
        lines.append(
            f"{name}: {median_of(mine, 'of_bare'):.1%} of bare (target: at least {TARGET_OF_BARE:.0%}), "
            f"{median_of(mine, 'of_single'):.1f}x batch 1 (target: at least {TARGET_OF_SINGLE:.0f}x)"
        )
    return "\n".join(lines)


def stage_rows(rows: list[Row], stage: str, instances: str) -> list[Row]:
    mine = [row for row in rows if row["case"] == "pictures"]
    return [row for row in mine if (row["stage"], row["instances"]) == (stage, instances)]


def instances_of(rows: list[Row]) -> list[str]:
    """Return the numbers of instances that the pipeline was measured with, as text."""
    return list(dict.fromkeys(row["instances"] for row in rows if row["case"] == "pictures"))


def picture_table(rows: list[Row]) -> str:
    """Return a line for each stage alone and for the whole pipeline."""
    lines = []
    for instances in instances_of(rows):
        for stage in STAGES:
            if mine := stage_rows(rows, stage, instances):
                lines.append(
                    [
                        instances,
                        "the whole pipeline" if stage == "all" else f"{stage} alone",
                        spread_of(mine, "calls_per_s"),
                        in_ms(mine, "p50_us"),
                        in_ms(mine, "p99_us"),
                        spread_of(mine, "mean_batch", 1),
                        spread_of(mine, "bare_per_s"),
                    ]
                )
    return table(PICTURE_COLUMNS, lines)


def picture_targets(rows: list[Row]) -> str:
    """Say what share of its slowest stage the pipeline reaches: the median over the rounds."""
    return "\n".join(picture_target(rows, instances) for instances in instances_of(rows))


def picture_target(rows: list[Row], instances: str) -> str:
    """Say it for one choice of instances."""
    shares = []
    slowest: list[str] = []
    for whole in stage_rows(rows, "all", instances):
        alone = [row for stage in STAGES[:-1] for row in stage_rows(rows, stage, instances)]
        stages = [row for row in alone if row["round"] == whole["round"]]
        least = min(stages, key=lambda row: float(row["calls_per_s"]))
        shares.append({"share": whole["calls_per_s"] / least["calls_per_s"]})
        slowest.append(least["stage"])
    name = max(set(slowest), key=slowest.count)
    reached = f"{median_of(shares, 'share'):.1%} of the slowest stage alone, {name}"
    return f"{instances}: the whole pipeline: {reached} (target: at least {TARGET_OF_SLOWEST:.0%})"


# --- running ---------------------------------------------------------------------------------------


def groups_of(options: argparse.Namespace, folder: Path) -> list[list[Run]]:
    """Make all cases; those that are compared with each other stand in one group."""
    from gpu_cases import Setup, engine_cases
    from gpu_pictures import picture_cases

    setup = Setup(options.network, options.device, folder, options.seconds)
    print("making the network and its engines", file=sys.stderr, flush=True)
    setup.prepare(options.engines)
    groups: list[list[Run]] = []
    if "engine" in options.parts:
        groups += [[case.run] for case in engine_cases(setup, options.engines)]
    if "pictures" in options.parts:
        groups.append([case.run for case in picture_cases(setup)])
    return groups


def options_from(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = options_of(__doc__, 5, 1.0, "of each of the two phases of a run, and of the bare loops together")
    parser.set_defaults(tries=1)  # machines with a GPU have cores to spare for what others do
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu")
    parser.add_argument("--network", default="resnet50", choices=["resnet50", "tiny"])
    parser.add_argument("--folder", type=Path, help="keep weights and package there for the next time")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--engines", default=",".join(ENGINES))
    options = parser.parse_args(arguments)
    options.parts = choices(options.parts, PARTS, "--parts")
    options.engines = choices(options.engines, ENGINES, "--engines")
    return options


def main() -> None:
    options = options_from()
    if reason := lacking(options.device, options.network, options.parts):
        print(f"gpu: {reason}", file=sys.stderr)
        raise SystemExit(2)
    print(machine("torch", "torchvision", "numpy"), flush=True)
    print(card(options.device), flush=True)
    rounds = Rounds(options)
    with tempfile.TemporaryDirectory() as temporary:
        rows = rounds.measure(groups_of(options, options.folder or Path(temporary)))
    if "engine" in options.parts:
        print(f"\n### An engine\n\n{engine_table(rows)}\n\n{engine_targets(rows)}")
    if "pictures" in options.parts:
        print(f"\n### From bytes to a label\n\n{picture_table(rows)}\n\n{picture_targets(rows)}")
    rounds.finish()


if __name__ == "__main__":
    main()
