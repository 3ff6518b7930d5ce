"""Measure pictures a second of the OCR example beside the package that its models come from.

    python benchmarks/ocr.py [--rounds 5] [--pictures 16] [--callers 1,4,8] [--package-callers 1,2]

Both read the same two pictures. The text must be that of the package with one line a batch; its default puts
six lines of different widths together, which can change a space. Printed too is how busy the cores were and
what every node of hami took, which shows where time goes that is not the engine's.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from rounds import (
    HERE,
    Rounds,
    Row,
    Run,
    machine,
    median_of,
    numbers,
    options_of,
    run_process,
    spread_of,
    table,
)

COLUMNS = ["reader", "callers", "pictures/s", "beside the package", "all cores busy, %"]
TITLES = {
    "package": "rapidocr-onnxruntime",
    "one_by_one": "rapidocr-onnxruntime, one line a batch",
    "hami": "hami",
}
TARGET_CALLERS, TARGET_RATIO = 8, 1.5


def rows_of(rows: list[Row], reader: str, callers: int) -> list[Row]:
    return [row for row in rows if (row["case"], row["callers"]) == (reader, callers)]


def ratio(rows: list[Row], reader: str, callers: int) -> float:
    """Return the median over the rounds of the pictures a second beside those of the package, one caller."""
    base = {row["round"]: row["pictures_per_s"] for row in rows_of(rows, "package", 1)}
    mine = rows_of(rows, reader, callers)
    return median_of([{"ratio": row["pictures_per_s"] / base[row["round"]]} for row in mine], "ratio")


def result_table(rows: list[Row]) -> str:
    """Return a line for each reader and number of callers."""
    lines = []
    for reader, callers in dict.fromkeys((row["case"], row["callers"]) for row in rows):
        mine = rows_of(rows, reader, callers)
        busy = f"{median_of(mine, 'busy_share') * 100:.0f}"
        beside = f"{ratio(rows, reader, callers):.2f}x"
        lines.append([TITLES[reader], callers, spread_of(mine, "pictures_per_s", 2), beside, busy])
    return table(COLUMNS, lines)


def node_table(row: Row) -> str:
    """Return what each node of the pipeline took in one run, a line for each."""
    num_pictures = row["pictures_per_s"] * row["seconds"]
    lines = []
    for node in row["nodes"]:
        work_ms = node["runs"] * node["run_ms"]
        lines.append(
            [
                node["node"],
                f"{node['items'] / num_pictures:.1f}",
                f"{node['items'] / max(1, node['runs']):.1f}",
                f"{node['run_ms']:.2f}",
                f"{node['wait_ms']:.2f}",
                f"{work_ms / num_pictures:.1f}",
                f"{work_ms / (row['seconds'] * 1e3 * node['instances']) * 100:.0f}",
            ]
        )
    columns = ["node", "items a picture", "items a run", "usual run, ms", "usual wait, ms"]
    return table([*columns, "runs x usual run, ms a picture", "instances busy, %"], lines)


def text_line(rows: list[Row]) -> str:
    """Say whether hami reads what the package reads; another text ends the benchmark."""
    expected = rows_of(rows, "one_by_one", 1)[0]["texts"]
    for row in rows:
        if row["case"] == "hami" and row["texts"] != expected:
            raise SystemExit(f"hami reads {row['texts']}, the package {expected}")
    is_same = all(row["texts"] == expected for row in rows)
    default = "the same" if is_same else "some of it differently"
    return (
        f"text: hami reads the same {sum(map(len, expected))} lines as the package with one line a batch; "
        f"with its default settings the package reads {default}"
    )


def target_line(rows: list[Row]) -> str:
    if not rows_of(rows, "hami", TARGET_CALLERS):
        return f"no run with {TARGET_CALLERS} callers, which the target is about"
    reached = ratio(rows, "hami", TARGET_CALLERS)
    what = f"hami at {TARGET_CALLERS} callers: {reached:.2f}x the package alone"
    return f"{what} (target: at least {TARGET_RATIO}x)"


def fetch_models() -> None:
    """Bring the models of the example, as `make demo` does."""
    sys.path.insert(0, str(HERE.parent / "examples"))
    import fetch_models as fetcher

    fetcher.fetch([model for model in fetcher.MODELS if model.package == "rapidocr-onnxruntime"])


def case_of(reader: str, callers: int, pictures: int) -> Run:
    return partial(
        run_process, sys.executable, "ocr_cases.py", reader, callers, pictures, timeout_s=120 + 10 * pictures
    )


def runs_of(options: argparse.Namespace) -> list[Run]:
    """Return what measures each reader once."""
    package = sorted({1, *numbers(options.package_callers)})
    return [
        *(case_of("package", callers, options.pictures) for callers in package),
        case_of("one_by_one", 1, options.pictures),
        *(case_of("hami", callers, options.pictures) for callers in numbers(options.callers)),
    ]


def main() -> None:
    parser = options_of(__doc__, 5)
    parser.add_argument("--pictures", type=int, default=16, help="that each reader reads in a round")
    parser.add_argument("--callers", default="1,4,8")
    parser.add_argument(
        "--package-callers", default="1,2", help="more than one: each has a reader of its own"
    )
    options = parser.parse_args()

    print(machine("rapidocr-onnxruntime", "onnxruntime", "opencv-python-headless"), flush=True)
    fetch_models()
    rounds = Rounds(options)
    rows = rounds.measure([runs_of(options)])
    print(f"\n{result_table(rows)}\n\n{text_line(rows)}\n{target_line(rows)}")
    for callers in numbers(options.callers):
        mine = sorted(rows_of(rows, "hami", callers), key=lambda row: float(row["pictures_per_s"]))
        print(f"\n### Nodes at {callers} callers, in the median round\n\n{node_table(mine[len(mine) // 2])}")
    rounds.finish()


if __name__ == "__main__":
    main()
