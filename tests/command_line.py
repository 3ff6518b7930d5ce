"""Run the command `hami` in this process and look at what it printed."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from hami.cli import app

GOOD_FILE = """\
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
    """Run the command with these arguments."""
    return CliRunner().invoke(app, arguments, input=stdin)


def assert_refused(result: Result, *words: str) -> None:
    """Check that a mistake was reported on stderr only, without a traceback."""
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
