"""The command `hami`: check, show and parse, what they print, where, and with which exit code."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from command_line import GOOD_FILE, assert_refused, run

Write = Callable[..., str]


# --- check --------------------------------------------------------------------------------------------------


def test_check_says_that_a_file_is_right(write: Write) -> None:
    result = run("check", write(GOOD_FILE))

    assert (result.exit_code, result.stdout) == (0, "pipeline.toml: ok: 2 nodes, 4 backends\n")


def test_check_takes_an_expression() -> None:
    assert run("check", "S[Identity]").stdout == "expression: ok: 1 node, 2 backends\n"


def test_check_takes_a_file_of_any_name(write: Write) -> None:
    assert run("check", write(GOOD_FILE, "pipeline.conf")).exit_code == 0


def test_check_prints_the_error_as_it_is(write: Write) -> None:
    result = run("check", write(GOOD_FILE + "batching_timeot = 4\n"))

    assert_refused(result)
    assert (
        result.stderr
        == """\
pipeline.toml:10: config-unknown-key: node `classify` has no parameter `batching_timeot`
10 | batching_timeot = 4
   | ^^^^^^^^^^^^^^^
help: did you mean `batching_timeout`?
"""
    )


@pytest.mark.parametrize("text", ["", "A[", "NoSuch", "missing.toml", "\0", "\x1b[31m"])
def test_check_refuses_what_is_wrong(text: str) -> None:
    assert_refused(run("check", text), "help: ")


# --- show ---------------------------------------------------------------------------------------------------


def test_show_prints_graph_and_trees(write: Write) -> None:
    result = run("show", write(GOOD_FILE))

    assert result.exit_code == 0
    assert (
        result.stdout
        == """\
decode  S[Identity, Add(1)]  2 instances
└─> classify  OnnxInfer  max 8

[decode]
S
├─ Identity
└─ Add(1)

[classify]
OnnxInfer

Around each of these, unless it brings a `node_entrypoint`:
List[InstancesRegister[BackgroundThread[BackendProxy]], Register[DI[Batching, InstanceDispatcher]]]
"""
    )


def test_show_prints_one_node_in_full(write: Write) -> None:
    result = run("show", write(GOOD_FILE), "--node", "classify")

    assert result.stdout.startswith("\n[classify]\nList\n├─ InstancesRegister\n")
    assert "decode" not in result.stdout


def test_show_refuses_a_node_that_does_not_exist(write: Write) -> None:
    assert_refused(
        run("show", write(GOOD_FILE), "--node", "clasify"), "cli-unknown-node", "did you mean `classify`?"
    )


def test_show_draws_an_svg(write: Write) -> None:
    result = run("show", write(GOOD_FILE), "--svg", "out.svg")

    assert result.exit_code == 0
    assert Path("out.svg").read_text().startswith("<svg ")


def test_show_refuses_a_place_that_cannot_be_written(write: Write) -> None:
    result = run("show", write(GOOD_FILE), "--svg", "no/such/folder/out.svg")

    assert result.exit_code == 2
    assert "cli-unwritable-file" in result.stderr


def test_show_refuses_what_is_wrong(write: Write) -> None:
    assert_refused(run("show", write("[a]\nbackend = 'A['")), "pipeline.toml:2:13: parse-unclosed-bracket")


# --- parse --------------------------------------------------------------------------------------------------


def test_parse_prints_the_tree() -> None:
    assert run("parse", "A(1)[B, C]").stdout == "A(1)\n├─ B\n└─ C\n"


def test_parse_needs_no_names_to_exist() -> None:
    assert run("parse", "NoSuch[Thing]").exit_code == 0


def test_parse_refuses_what_is_wrong() -> None:
    assert_refused(run("parse", "A[B"), "expression:1:2: parse-unclosed-bracket", "1 | A[B\n  |  ^\n")


# --- the rest -----------------------------------------------------------------------------------------------


def test_the_version_comes_with_what_a_report_of_a_fault_should_name(real_core: None) -> None:
    result = run("--version")

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"hami {metadata.version('hami-core')}"
    facts = dict(line.split(": ", 1) for line in lines[1:])
    assert list(facts) == ["core", "kernels", "python", "system"]
    for word in (metadata.version("hami-core"), "compiler g++", "standard library libstdc++", "build type"):
        assert word in facts["core"]
    assert facts["python"].endswith(platform.python_version())


def test_a_core_that_cannot_be_loaded_does_not_keep_the_version_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hami._core", None)
    monkeypatch.delattr("hami._core", raising=False)

    result = run("--version")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("core: cannot be loaded: ")


def test_without_a_verb_help_is_printed() -> None:
    assert "Commands:" in run().output


@pytest.mark.parametrize("verb", ["check", "show", "backends", "parse", "run"])
def test_each_verb_has_help(verb: str) -> None:
    assert run(verb, "--help").exit_code == 0


def test_an_unknown_verb_is_refused() -> None:
    assert run("chek").exit_code == 2


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hami", "parse", "A[B"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("expression:1:2: parse-unclosed-bracket")


def test_a_terminal_of_another_encoding_is_no_problem() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hami", "parse", "A[B]"],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b" B\n")
