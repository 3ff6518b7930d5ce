"""Throughput against latency as a picture: one line for each setting, one point for each load."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .results import CaseResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERCENTILES = ("p50", "p99")
SUFFIXES = (".png", ".svg", ".pdf")

_INCHES = (11.0, 4.5)
_DPI = 100


def check_plot_path(path: Path) -> None:
    """Refuse a file that could not be drawn, before anything is measured. Raises ConfigError."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"`{path.suffix}` is no kind of picture that is drawn",
            code="bench-bad-plot",
            where=f"--plot {path}",
            help="write a name that ends in `.png`, `.svg` or `.pdf`",
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"plots are drawn by matplotlib, which cannot be loaded: {error}",
            code="bench-missing-package",
            where=f"--plot {path}",
            help="pip install hami-core[bench]",
        ) from error


def draw(cases: Iterable[CaseResult], title: str) -> Figure:
    """Draw requests a second (x) against p50 and p99 (y), 1100 x 450 pixels; bars are the 95 % intervals.

    Cases without a successful request have no point.
    """
    from matplotlib.figure import Figure

    lines: dict[str, list[CaseResult]] = {}
    for case in cases:
        if not case.has_failed:
            lines.setdefault(case.case.setting, []).append(case)
    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    figure.suptitle(title, fontsize=10)
    for axis, percentile in zip(figure.subplots(1, len(PERCENTILES)), PERCENTILES, strict=True):
        for setting, of_setting in lines.items():
            xs = [case.report.throughput_per_s for case in of_setting]
            ys = [latency for case in of_setting if (latency := case.report.latency_ms(percentile))]
            axis.errorbar(
                [x.mean for x in xs],
                [y.mean for y in ys],
                xerr=[x.margin or 0.0 for x in xs],
                yerr=[y.margin or 0.0 for y in ys],
                marker="o",
                markersize=4,
                linewidth=1,
                label=setting,
            )
            for case, x, y in zip(of_setting, xs, ys, strict=True):
                axis.annotate(
                    case.case.arrivals, (x.mean, y.mean), (4, 4), textcoords="offset points", fontsize=7
                )
        axis.set_xlabel("requests/s")
        axis.set_ylabel(f"{percentile}, ms")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        if lines:
            axis.legend(fontsize=7)
    return figure


def write_plot(path: Path, cases: Iterable[CaseResult], title: str) -> None:
    """Draw into a file; its suffix says which kind. Raises ConfigError where it cannot be written."""
    figure = draw(cases, title)
    try:
        figure.savefig(path)
    except OSError as error:
        message = f"the file cannot be written: {error.strerror}"
        raise ConfigError(
            message, code="cli-unwritable-file", where=str(path), help="check the path"
        ) from None
