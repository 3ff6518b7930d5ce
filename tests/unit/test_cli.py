"""The command `hami`: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import hami
from hami.backend import Backend, param, register
from hami.cli import app
from hami.parser import alias

Write = Callable[..., str]

GOOD = """\
[decode]
backend = "S[Identity, Add(1)]"
instance_num = 2
next = "classify"

[classify]
backend = "OnnxInfer"
model = "model.onnx"
max = 8
"""


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


def assert_refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


# --- check -----------------------------------------------------------------------------------------------


def test_check_says_that_a_file_is_right(write: Write) -> None:
    result = run("check", write(GOOD))

    assert (result.exit_code, result.stdout) == (0, "pipeline.toml: ok: 2 nodes, 4 backends\n")


def test_check_takes_an_expression() -> None:
    assert run("check", "S[Identity]").stdout == "expression: ok: 1 node, 2 backends\n"


def test_check_takes_a_file_of_any_name(write: Write) -> None:
    assert run("check", write(GOOD, "pipeline.conf")).exit_code == 0


def test_check_prints_the_error_as_it_is(write: Write) -> None:
    result = run("check", write(GOOD + "batching_timeot = 4\n"))

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


# --- show ------------------------------------------------------------------------------------------------


def test_show_prints_graph_and_trees(write: Write) -> None:
    result = run("show", write(GOOD))

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
    result = run("show", write(GOOD), "--node", "classify")

    assert result.stdout.startswith("\n[classify]\nList\n├─ InstancesRegister\n")
    assert "decode" not in result.stdout


def test_show_refuses_a_node_that_does_not_exist(write: Write) -> None:
    assert_refused(
        run("show", write(GOOD), "--node", "clasify"), "cli-unknown-node", "did you mean `classify`?"
    )


def test_show_draws_an_svg(write: Write) -> None:
    result = run("show", write(GOOD), "--svg", "out.svg")

    assert result.exit_code == 0
    assert Path("out.svg").read_text().startswith("<svg ")


def test_show_refuses_a_place_that_cannot_be_written(write: Write) -> None:
    result = run("show", write(GOOD), "--svg", "no/such/folder/out.svg")

    assert result.exit_code == 2
    assert "cli-unwritable-file" in result.stderr


def test_show_refuses_what_is_wrong(write: Write) -> None:
    assert_refused(run("show", write("[a]\nbackend = 'A['")), "pipeline.toml:2:13: parse-unclosed-bracket")


# --- backends --------------------------------------------------------------------------------------------


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


# --- parse -----------------------------------------------------------------------------------------------


def test_parse_prints_the_tree() -> None:
    assert run("parse", "A(1)[B, C]").stdout == "A(1)\n├─ B\n└─ C\n"


def test_parse_needs_no_names_to_exist() -> None:
    assert run("parse", "NoSuch[Thing]").exit_code == 0


def test_parse_refuses_what_is_wrong() -> None:
    assert_refused(run("parse", "A[B"), "expression:1:2: parse-unclosed-bracket", "1 | A[B\n  |  ^\n")


# --- run -------------------------------------------------------------------------------------------------


class FakePipe:
    """Stands in for hami.pipe: hands the request to a function."""

    def __init__(self, work: Callable[[dict[str, Any]], None]) -> None:
        self.work = work
        self.source: Any = None
        self.is_closed = False

    def __call__(self, argument: Any) -> Any:
        if self.source is None:
            self.source = argument
            return self
        self.work(argument)
        return argument

    def __enter__(self) -> FakePipe:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[dict[str, Any]], None]], FakePipe]:
    def install(work: Callable[[dict[str, Any]], None]) -> FakePipe:
        fake = FakePipe(work)
        monkeypatch.setattr(hami, "pipe", fake, raising=False)
        return fake

    return install


Install = Callable[[Callable[[dict[str, Any]], None]], FakePipe]


def answer_with(key: str) -> Callable[[dict[str, Any]], None]:
    def work(request: dict[str, Any]) -> None:
        request["result"] = request[key]

    return work


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("2.5", 2.5),
        ('"x"', "x"),
        ("plain text", "plain text"),
        ("[1, 2]", [1, 2]),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_run_reads_json_or_text(pipe: Install, text: str, value: Any) -> None:
    seen: list[Any] = []
    fake = pipe(lambda request: seen.append(request["data"]) or request.update(result=1))  # type: ignore[func-returns-value]

    result = run("run", "Identity", f"data={text}")

    assert (result.exit_code, seen, fake.is_closed) == (0, [value], True)


def test_run_reads_the_bytes_of_a_file(pipe: Install, write: Write) -> None:
    pipe(lambda request: request.update(result=len(request["data"])))
    Path(write("", "picture.jpg")).write_bytes(b"\xff\xd8\0")

    assert run("run", "Identity", "data=@picture.jpg").stdout == "3\n"


def test_run_reads_standard_input(pipe: Install) -> None:
    pipe(lambda request: request.update(result=request["data"].decode()))

    assert run("run", "Identity", "data=@-", stdin=b"piped").stdout == "piped\n"


def test_run_takes_a_file_or_an_expression(pipe: Install, write: Write) -> None:
    fake = pipe(answer_with("data"))
    run("run", write(GOOD), "data=1")
    assert fake.source == Path("pipeline.toml")

    fake = pipe(answer_with("data"))
    run("run", "Identity", "data=1")
    assert fake.source == "Identity"


class Array:
    """Looks like an array."""

    dtype = "float32"

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.size = shape[0]

    def tolist(self) -> list[int]:
        return [0] * self.size


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("text", "text\n"),
        ([1, {"a": None}], json.dumps([1, {"a": None}], indent=2) + "\n"),
        (Array(2), "[\n  0,\n  0\n]\n"),
        (Array(5000), '"<array of shape (5000,), float32>"\n'),
        ([b"xyz"], '[\n  "<3 bytes>"\n]\n'),
        ({"größe": "名"}, '{\n  "größe": "名"\n}\n'),
        (None, "null\n"),
        ({1, 2}, '"{1, 2}"\n'),
    ],
)
def test_run_prints_the_result(pipe: Install, value: Any, printed: str) -> None:
    pipe(lambda request: request.update(result=value))

    assert run("run", "Identity").stdout == printed


def test_run_prints_bytes_as_they_are(pipe: Install) -> None:
    pipe(lambda request: request.update(result=b"\xff\x00"))

    assert run("run", "Identity").stdout_bytes == b"\xff\x00"


def test_run_prints_another_key(pipe: Install) -> None:
    pipe(lambda request: request.update(result=1, score=2))

    assert run("run", "Identity", "--output", "score").stdout == "2\n"


def test_run_refuses_a_key_that_is_not_there(pipe: Install) -> None:
    pipe(lambda request: request.update(result=1))

    assert_refused(
        run("run", "Identity", "--output", "reslt"), "cli-missing-output", "did you mean `result`?"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("data", "cli-bad-input"),
        ("=3", "cli-bad-input"),
        ("data=@missing.jpg", "cli-unreadable-input"),
        ("data=@a\0", "cli-unreadable-input"),
    ],
)
def test_run_refuses_a_wrong_input(text: str, code: str) -> None:
    assert_refused(run("run", "Identity", text), code)


def test_run_reports_the_error_of_a_backend_without_a_traceback(pipe: Install) -> None:
    def fail(request: dict[str, Any]) -> None:
        error = KeyError("k")
        error.__notes__ = ["in node `a`"]  # type: ignore[attr-defined]
        raise error

    pipe(fail)
    result = run("run", "Identity")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "KeyError: 'k'\nin node `a`\n"


def test_run_reports_an_error_of_hami_as_it_is(pipe: Install) -> None:
    def fail(request: dict[str, Any]) -> None:
        raise hami.errors.RequestError("`data` is missing", code="request-missing-key", where="node `a`")

    pipe(fail)

    assert_refused(run("run", "Identity"), "node `a`: request-missing-key: `data` is missing\n")


# --- the rest --------------------------------------------------------------------------------------------


def test_the_version_is_printed() -> None:
    result = run("--version")

    assert result.exit_code == 0
    assert result.stdout.startswith("hami")


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
