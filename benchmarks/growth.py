"""Measure how the cost of a request grows with the graph and with the load, and print it as an exponent.

    python benchmarks/growth.py [--series chain,in_flight] [--rounds 5] [--seconds 0.5] [--plot docs/images]

The exponent is the slope of a straight line through the logarithms of size and cost: 0 is flat, 1 is linear.
The exponent over the upper half of the sizes is the one to judge by: at small sizes growth hides behind what
every request costs.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rounds import Rounds, Row, Run, machine, median_of, options_of, run_process, spread_of, table


@dataclass(frozen=True)
class Series:
    """What grows, which sizes are measured, and the exponent that the cost of one request may have."""

    title: str
    sizes: list[int]
    is_linear: bool
    unit: str


SERIES = {
    "chain": Series("nodes in a chain", [1, 2, 4, 8, 16, 32, 64], True, "node"),
    "in_flight": Series("requests in flight", [1, 10, 100, 1000, 10_000], False, ""),
    "elements": Series("elements of a list (ForEach)", [1, 3, 10, 30, 100, 300, 1000], True, "element"),
    "branches": Series("nodes side by side, joined", [1, 2, 4, 8, 16, 32, 64], True, "node"),
    "instances": Series("instances of a node", [1, 2, 4, 8, 16, 32], False, ""),
    "callers": Series("threads that call", [1, 2, 4, 8, 16, 32, 64, 128, 256], False, ""),
}


def runs_of(series: str, max_size: int, seconds: float) -> list[Run]:
    """Return what measures each size of a series once."""
    return [
        partial(
            run_process, sys.executable, "growth_cases.py", series, size, seconds, timeout_s=180 + 4 * seconds
        )
        for size in SERIES[series].sizes
        if size <= max_size
    ]


def by_size(rows: list[Row], series: str) -> dict[int, list[Row]]:
    """Return the rows of a series for each size, in order."""
    mine = [row for row in rows if row["case"] == series]
    return {
        size: [row for row in mine if row["size"] == size] for size in sorted({row["size"] for row in mine})
    }


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Return the slope of log(cost) over log(size), by least squares; not a number for a single size."""
    if len(sizes) < 2:
        return math.nan
    fit = statistics.linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs])
    return float(fit.slope)


def exponents(sizes: list[int], costs: list[float]) -> tuple[float, float]:
    """Return the exponent over all sizes, and that over their upper half."""
    middle = min(len(sizes) // 2, max(0, len(sizes) - 2))
    return exponent(sizes, costs), exponent(sizes[middle:], costs[middle:])


def section(rows: list[Row], series: str) -> str:
    """Return the table of a series and its exponents."""
    this = SERIES[series]
    sizes = by_size(rows, series)
    columns = [this.title, "us per request", *([f"us per {this.unit}"] if this.unit else [])]
    lines = []
    for size, mine in sizes.items():
        each = [f"{median_of(mine, 'us_per_request') / size:.2f}"] if this.unit else []
        lines.append([f"{size:,}", spread_of(mine, "us_per_request", 2), *each])
    costs = [median_of(mine, "us_per_request") for mine in sizes.values()]
    whole, upper = exponents(list(sizes), costs)
    wanted = "at most linear: 1" if this.is_linear else "flat: 0"
    return (
        f"### {this.title}\n\n{table(columns, lines)}\n\n"
        f"exponent {whole:.2f}, over the upper half {upper:.2f} ({wanted})"
    )


def plot(rows: list[Row], names: list[str], folder: Path) -> Path:
    """Draw all series into one SVG, the same bytes for the same rows. Needs matplotlib."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 8})
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    num_columns = min(3, len(names))
    num_lines = -(-len(names) // num_columns)
    figure, axes = pyplot.subplots(
        num_lines, num_columns, figsize=(3.2 * num_columns, 2.6 * num_lines), squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        sizes = by_size(rows, name)
        middle = [median_of(mine, "us_per_request") for mine in sizes.values()]
        all_costs = [[row["us_per_request"] for row in mine] for mine in sizes.values()]
        below = [cost - min(costs) for cost, costs in zip(middle, all_costs, strict=True)]
        above = [max(costs) - cost for cost, costs in zip(middle, all_costs, strict=True)]
        axis.errorbar(list(sizes), middle, yerr=[below, above], marker="o", markersize=3, capsize=2, lw=1)
        _, upper = exponents(list(sizes), middle)
        axis.set(xscale="log", yscale="log", xlabel=SERIES[name].title, ylabel="us per request")
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, min(middle) / 3), max(high, max(middle) * 3))
        axis.set_title(f"exponent of the upper half {upper:.2f}", fontsize=8)
        axis.grid(True, lw=0.3)
        axis.set_xticks(list(sizes), [f"{size:,}" for size in sizes], fontsize=6)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.minorticks_off()  # keeps the file small
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "growth.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return path


def main() -> None:
    parser = options_of(__doc__, 5, 0.5, "of each of the two phases of a size")
    parser.add_argument("--series", default=",".join(SERIES))
    parser.add_argument("--max-size", type=int, default=1_000_000, help="leave out larger sizes")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="write growth.svg there")
    options = parser.parse_args()
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot draws with matplotlib: pip install hami-core[bench]")

    names = options.series.split(",")
    print(machine(), flush=True)
    rounds = Rounds(options)
    rows = rounds.measure([runs_of(name, options.max_size, options.seconds) for name in names])
    for name in names:
        print("\n" + section(rows, name))
    if options.plot:
        print(f"\nplots: {plot(rows, names, options.plot)}")
    rounds.finish()


if __name__ == "__main__":
    main()
