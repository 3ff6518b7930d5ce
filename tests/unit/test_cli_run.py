"""`hami run`: how inputs are read, and how results and errors are printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import GOOD_FILE, assert_refused, run

import hami

Write = Callable[..., str]


# --- run ----------------------------------------------------------------------------------------------------


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
    run("run", write(GOOD_FILE), "data=1")
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
