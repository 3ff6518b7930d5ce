"""`hami serve`: a pipeline on HTTP until a signal ends it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .source import SourceArgument, reported, source_of


class LogLevel(str, Enum):
    """What is logged to stderr: this, and what is worse."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def serve(
    file: SourceArgument,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes any free one.")] = 8000,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A PEM certificate: HTTPS instead of HTTP.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the token that clients must bring; else HAMI_TOKEN does."),
    ] = None,
    max_body_bytes: Annotated[int, typer.Option(min=1, help="The largest body of a request.")] = 64 << 20,
    max_header_bytes: Annotated[int, typer.Option(min=256, help="The largest head of a request.")] = 32 << 10,
    timeout: Annotated[
        float,
        typer.Option(min=0.001, help="Most seconds to send a request, to wait for it, and between parts."),
    ] = 60.0,
    drain: Annotated[
        float, typer.Option(min=0, help="Most seconds that running requests get after the first signal.")
    ] = 30.0,
    max_connections: Annotated[
        int, typer.Option(min=1, help="The most open connections; further ones wait.")
    ] = 1000,
    workers: Annotated[
        int, typer.Option(min=1, help="How many processes share the port, each with its own pipeline.")
    ] = 1,
    show_errors: Annotated[
        bool, typer.Option("--show-errors", help="Show clients what backends raise; the log has it anyway.")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option(help="What is logged to stderr.")] = LogLevel.info,
) -> None:
    """Serve a pipeline on HTTP: docs/serving.md lists the paths."""
    with reported():
        try:
            from ..serve.server import run
            from ..serve.settings import Settings
            from ..serve.tokens import read_token
            from ..serve.workers import StartError
        except ImportError as error:
            raise ConfigError(
                f"the server cannot be loaded: {error}",
                code="serve-missing-package",
                help="pip install hami-core[serve]",
            ) from error
        settings = Settings(
            host=host,
            port=port,
            certificate=tls_certificate,
            key=tls_key,
            token=read_token(token_file),
            max_body_bytes=max_body_bytes,
            max_header_bytes=max_header_bytes,
            timeout_s=timeout,
            drain_s=drain,
            max_connections=max_connections,
            workers=workers,
            show_errors=show_errors,
        )
        try:
            run(source_of(file), settings, log_level.value.upper())
        except StartError as error:
            typer.echo(error.text, err=True)
            raise typer.Exit(error.status) from None
