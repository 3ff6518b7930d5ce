"""The picture: one line for each setting, one point for each load, and files of the right kind and size."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from measured_cases import change, one_round, result

from hami.bench.plots import check_plot_path, draw, write_plot
from hami.bench.results import CaseResult
from hami.errors import ConfigError


def case(per_s: float, p50: float, callers: int, **changes: int) -> CaseResult:
    made = tuple(change(key, value) for key, value in changes.items())
    rounds = [one_round(per_s - 10, p50, 2 * p50), one_round(per_s + 10, p50, 2 * p50)]
    return result(rounds, made, num_callers=callers)


CASES = [
    case(100, 1.0, 1, max=1),
    case(120, 8.0, 8, max=1),
    case(90, 1.5, 1, max=8),
    case(400, 3.0, 8, max=8),
]


def test_each_setting_has_a_line_and_each_load_a_point() -> None:
    figure = draw(CASES, "a title")

    for axis, factor in zip(figure.axes, (1, 2), strict=True):
        lines = {container.get_label(): container.lines[0] for container in axis.containers}
        assert set(lines) == {"max=1", "max=8"}
        assert list(lines["max=1"].get_xdata()) == [100, 120]
        assert list(lines["max=8"].get_ydata()) == [1.5 * factor, 3.0 * factor]
        assert {text.get_text() for text in axis.texts} == {"1 caller", "8 callers"}


def test_the_axes_say_what_they_show_and_begin_at_nothing() -> None:
    figure = draw(CASES, "a title")

    assert [axis.get_ylabel() for axis in figure.axes] == ["p50, ms", "p99, ms"]
    assert all(axis.get_xlabel() == "requests/s" for axis in figure.axes)
    assert all(axis.get_xlim()[0] == axis.get_ylim()[0] == 0 for axis in figure.axes)
    assert figure.get_suptitle() == "a title"


def test_the_bars_are_the_intervals() -> None:
    (container,) = draw(CASES[:1], "").axes[0].containers

    (horizontal, _) = container.lines[2]
    (left, _), (right, _) = horizontal.get_segments()[0]
    estimate = CASES[0].report.throughput_per_s
    assert (left, right) == (pytest.approx(estimate.low), pytest.approx(estimate.high))


def test_one_round_has_a_point_without_bars() -> None:
    (container,) = draw([result([one_round(100, 1.0)])], "").axes[0].containers

    (left, _), (right, _) = container.lines[2][0].get_segments()[0]
    assert left == right == 100


def test_a_case_without_answers_has_no_point() -> None:
    failed = result([one_round(0, num_errors=4)], (change("max", 2),))

    figure = draw([*CASES, failed], "")

    assert [len(axis.containers) for axis in figure.axes] == [2, 2]


def test_of_nothing_there_is_an_empty_picture(tmp_path: Path) -> None:
    write_plot(tmp_path / "out.png", [], "nothing")

    assert (tmp_path / "out.png").stat().st_size > 0


def test_a_png_has_the_size_that_is_promised(tmp_path: Path) -> None:
    path = tmp_path / "out.png"

    write_plot(path, CASES, "a title")

    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1100, 450)


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_suffix_says_which_kind(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"out.{suffix}"

    write_plot(path, CASES, "a title")

    assert path.read_bytes().startswith(start)


def test_drawing_leaves_the_figures_of_the_program_alone() -> None:
    draw(CASES, "")

    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


# --- files that cannot be drawn -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out", "out.jpeg2", "out.txt"])
def test_another_suffix_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_plot_path(Path(name))

    assert (caught.value.code, caught.value.where) == ("bench-bad-plot", f"--plot {name}")
    assert "`.png`" in caught.value.help


@pytest.mark.parametrize("name", ["out.png", "OUT.PNG", "a/out.svg", "out.pdf"])
def test_those_three_are_drawn(name: str) -> None:
    check_plot_path(Path(name))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(ConfigError) as caught:
        check_plot_path(Path("out.png"))

    assert caught.value.code == "bench-missing-package"
    assert "pip install hami-core[bench]" in caught.value.help


def test_a_file_that_cannot_be_written_is_said_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "out.png"

    with pytest.raises(ConfigError) as caught:
        write_plot(path, CASES, "")

    assert (caught.value.code, caught.value.where) == ("cli-unwritable-file", str(path))
