"""`hami backends`: the list, and one backend in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from command_line import assert_refused, run

from hami.backend import Backend, param, register
from hami.parser import alias

Write = Callable[..., str]


# --- backends -----------------------------------------------------------------------------------------------


def test_backends_lists_families_and_forms() -> None:
    result = run("backends")

    assert result.exit_code == 0
    assert "flow:\n  Add                   Be Add.\n" in result.stdout
    assert "  Reflect               The expression in a parameter" in result.stdout
    assert "AddInt" not in result.stdout


def test_backends_lists_compatibility_names_on_request() -> None:
    assert "AddInt" in run("backends", "--all").stdout


def test_backends_shows_one_in_full() -> None:
    assert (
        run("backends", "OnnxInfer").stdout
        == """\
OnnxInfer(model, max=none, provider=cpu, intra_op_threads=1)

Be OnnxInfer.
Needs: pip install hami-core[onnx]

parameters, in the order of positional arguments:
  model: path, required
      the model
  max: int, at least 1
      the max
  provider: str, one of cpu, cuda, default cpu
      the provider
  intra_op_threads: int, at least 1, default 1
      the intra_op_threads
"""
    )


def test_backends_shows_units_and_bounds() -> None:
    assert "batching_timeout: float in ms, at least 0, at most 86400000" in run("backends", "Batching").stdout


@pytest.mark.parametrize(
    ("name", "signature"), [("S", "S[backend, ...]"), ("With", "With[backend 1, backend 2]")]
)
def test_backends_shows_what_stands_in_the_brackets(name: str, signature: str) -> None:
    assert run("backends", name).stdout.startswith(signature + "\n")


def test_backends_knows_old_spellings_and_says_them() -> None:
    result = run("backends", "Aspect")

    assert result.stdout.startswith("DI[backend, ...]\n")
    assert "Also written Aspect, Block, DI_v0, Proxy." in result.stdout


def test_backends_knows_the_forms_of_the_language() -> None:
    assert run("backends", "ProxyFromParam").stdout.startswith("Reflect\n")


def test_backends_knows_macros() -> None:
    alias("Twice", "S[Pow, Pow]")

    assert run("backends", "Twice").stdout.startswith("Twice = S[Pow, Pow]\n")


def test_backends_knows_python_classes() -> None:
    class Mine(Backend):
        """Do what I want."""

        size = param(3, min=1, unit="px", doc="how large")

    class Anything:
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            pass

        def forward(self, batch: list[dict[str, Any]]) -> None:
            pass

    register(Mine)
    register(Anything)

    assert "Mine(size=3)\n\nDo what I want.\n" in run("backends", "Mine").stdout
    assert "size: int in px, at least 1, default 3" in run("backends", "Mine").stdout
    assert "It takes any key of its node." in run("backends", "Anything").stdout
    assert "python:\n" in run("backends").stdout


def test_backends_refuses_an_unknown_name_with_the_nearest() -> None:
    assert_refused(run("backends", "OnnxInfr"), "plan-unknown-backend", "`OnnxInfer`")
