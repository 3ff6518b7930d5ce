"""The command `hami`: check, show, run, measure, serve, deploy and look up, without writing Python.

One function per verb; hami.plan and hami.pipe do the work. A mistake of the user is printed as hami's errors
are, on stderr, with exit code 2; an exception of a backend gives exit code 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ConfigError
from .bench import bench
from .deploy import deploy
from .explain import explain
from .new_backend import new_backend
from .serve import serve
from .source import SourceArgument, reported, source_of, write_text
from .trace import trace

app = typer.Typer(
    name="hami",
    help="Check, show, run, measure, serve and deploy inference pipelines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from .version import facts

        for line in facts():
            typer.echo(line)
        raise typer.Exit


def _print_include(is_wanted: bool) -> None:
    if is_wanted:
        _print_folder("get_include")


def _print_cmake_dir(is_wanted: bool) -> None:
    if is_wanted:
        _print_folder("get_cmake_dir")


def _print_folder(function: str) -> None:
    with reported():
        from .. import plugins

        typer.echo(getattr(plugins, function)())
    raise typer.Exit


def main() -> None:
    """Run the command line."""
    app(prog_name="hami")


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    include: Annotated[
        bool,
        typer.Option(
            "--include-dir", callback=_print_include, is_eager=True, help="Print where the C++ headers are."
        ),
    ] = False,
    cmake_dir: Annotated[
        bool,
        typer.Option(
            "--cmake-dir", callback=_print_cmake_dir, is_eager=True, help="Print what `hami_DIR` of CMake is."
        ),
    ] = False,
    plugin: Annotated[
        list[Path] | None, typer.Option("--plugin", help="Load this plugin first; may be repeated.")
    ] = None,
) -> None:
    """Check, show, run, measure, serve and deploy inference pipelines."""
    with reported():
        for path in plugin or ():
            from ..plugins import load

            load(path)


@app.command()
def check(file: SourceArgument) -> None:
    """Check a pipeline without building it: syntax, names, parameters, graph."""
    with reported():
        from ..drawing import own_expression
        from ..plan import plan

        checked = plan(source_of(file))
        num_backends = sum(1 for node in checked.nodes for _ in own_expression(node).walk())
        nodes = "1 node" if len(checked.nodes) == 1 else f"{len(checked.nodes)} nodes"
        typer.echo(f"{checked.name or 'expression'}: ok: {nodes}, {num_backends} backends")


@app.command()
def show(
    file: SourceArgument,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also draw the graph into this file.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="Show only this node, in full.")] = None,
) -> None:
    """Show the graph, and what each node expands to."""
    with reported():
        from ..errors import did_you_mean
        from ..plan import plan
        from .show import default_text, graph_text, is_default, node_text

        checked = plan(source_of(file))
        names = [planned.name for planned in checked.nodes]
        if node is not None and node not in names:
            help = did_you_mean(node, names, otherwise="leave `--node` out to see all")
            raise ConfigError(f"there is no node `{node}`", code="cli-unknown-node", where=file, help=help)
        if node is None:
            typer.echo(graph_text(checked))
        for planned in checked.nodes:
            if node in (None, planned.name):
                typer.echo(f"\n{node_text(planned, is_full=node is not None)}")
        if node is None and any(map(is_default, checked.nodes)):
            typer.echo(f"\n{default_text()}")
        if svg is not None:
            from .svg import draw

            write_text(svg, draw(checked))


@app.command()
def backends(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show this one in full.")] = None,
    is_all: Annotated[bool, typer.Option("--all", help="List compatibility names too.")] = False,
) -> None:
    """List the backends, or show one with its parameters."""
    with reported():
        from .reference import backend_text, list_text

        typer.echo(list_text(is_all) if name is None else backend_text(name))


@app.command()
def parse(text: Annotated[str, typer.Argument(metavar="TEXT", help="An expression.")]) -> None:
    """Check the syntax of an expression and print its tree; its names need not exist."""
    with reported():
        from ..parser import parse as parse_text
        from ..parser.render import to_tree

        typer.echo(to_tree(parse_text(text)))


@app.command()
def run(
    file: SourceArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE...", help="Keys of the request: JSON, text, or @FILE for a file's bytes."
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", help="The key to print.")] = "result",
) -> None:
    """Run one request and print its result: `hami run pipeline.toml data=@picture.jpg`."""
    with reported():
        request = dict(_read_input(text) for text in inputs or ())
        import hami

        with hami.pipe(source_of(file)) as pipe:
            pipe(request)
        if output not in request:
            from ..errors import did_you_mean, quoted

            message = f"the request has no key `{output}` after the run"
            help = did_you_mean(output, request, otherwise=f"it has {quoted(request)}")
            raise ConfigError(message, code="cli-missing-output", where=file, help=help)
        _print_value(request[output])


app.command()(explain)
app.command()(serve)
app.command()(deploy)
app.command()(bench)
app.command()(new_backend)
app.command()(trace)


def _read_input(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        help = "write for example `data=3`, `data=text` or `data=@picture.jpg`"
        raise ConfigError(f"`{text}` is no `key=value`", code="cli-bad-input", where="hami run", help=help)
    if value.startswith("@"):
        try:
            return key, sys.stdin.buffer.read() if value == "@-" else Path(value[1:]).read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            message = f"`{value[1:]}` cannot be read: {reason}"
            raise ConfigError(
                message, code="cli-unreadable-input", where=f"hami run {key}", help="check the path"
            ) from None
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def _print_value(value: Any) -> None:
    """Print a result: bytes as they are unless a person looks at them, text as it is, the rest as JSON."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        if sys.stdout.isatty():
            typer.echo(_as_json_text(value))
        else:
            typer.echo(bytes(value), nl=False)
    elif isinstance(value, str):
        typer.echo(value)
    else:
        typer.echo(json.dumps(value, default=_as_json_text, ensure_ascii=False, indent=2, skipkeys=True))


def _as_json_text(value: Any) -> Any:
    """Return what stands in the output for a value that JSON does not know; large arrays are summed up."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if hasattr(value, "tolist") and getattr(value, "size", 0) <= 1000:
        return value.tolist()
    if hasattr(value, "shape"):
        return f"<array of shape {tuple(value.shape)}, {getattr(value, 'dtype', '?')}>"
    return repr(value)
