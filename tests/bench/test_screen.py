"""The bar of a terminal, and that there is none elsewhere."""

from __future__ import annotations

import io
import sys

import pytest
from measured_cases import change

from hami.bench.load import Load
from hami.bench.results import Case
from hami.cli.bench.screen import Screen

CASE = Case((change("a.max", 4),), Load(num_callers=2))


class Terminal(io.StringIO):
    """Takes text as a terminal does."""

    def isatty(self) -> bool:
        return True


def attach_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal behind stderr; called by the test itself, before which pytest puts its own there."""
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_terminal_shows_what_is_measured_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach_terminal(monkeypatch)

    with Screen() as screen:
        screen.on_progress(CASE, 3, 10)

    assert "a.max=4, 2 callers" in terminal.getvalue()
    assert "30%" in terminal.getvalue()


def test_the_bar_has_gone_before_anything_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = attach_terminal(monkeypatch)

    with Screen() as screen:
        screen.on_progress(CASE, 3, 10)
        screen.show("a sentence")
        shown = terminal.getvalue()
        screen.on_progress(CASE, 4, 10)

    assert shown and terminal.getvalue() == shown
    assert capsys.readouterr().out == "a sentence\n"


def test_a_file_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)

    with Screen() as screen:
        screen.on_progress(CASE, 3, 10)

    assert file.getvalue() == ""


def test_a_long_sentence_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen() as screen:
        screen.show("word " * 100 + "end [red] :smile:")

    assert capsys.readouterr().out.count("\n") == 1
