"""`hami deploy`: a pipeline on a cluster, which goes on when the command has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .source import SourceArgument, reported, source_of


def deploy(
    file: SourceArgument,
    ray: Annotated[bool, typer.Option("--ray", help="As an application of Ray Serve.")] = False,
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster; else RAY_ADDRESS, else the one on this machine."),
    ] = None,
    name: Annotated[str, typer.Option(help="Of the application; one of this name is replaced.")] = "default",
    route_prefix: Annotated[str, typer.Option(help="Where the paths begin.")] = "/",
    working_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Ray copies it to each machine; FILE is in it.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Unless Ray Serve runs already.")
    ] = 8000,
    host: Annotated[str, typer.Option(help="The same for the address to listen on.")] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the token that clients must bring; else HAMI_TOKEN does."),
    ] = None,
    max_body_bytes: Annotated[int, typer.Option(min=1, help="The largest body of a request.")] = 64 << 20,
    timeout: Annotated[
        float,
        typer.Option(min=0.001, help="Most seconds to send a request, to wait for it, and between parts."),
    ] = 60.0,
    show_errors: Annotated[
        bool, typer.Option("--show-errors", help="Show clients what backends raise.")
    ] = False,
    wait: Annotated[float, typer.Option(min=0, help="Most seconds until it must be healthy.")] = 600.0,
) -> None:
    """Deploy a pipeline on a cluster: docs/ray.md tells what becomes of its nodes."""
    with reported():
        if not ray:
            raise ConfigError(
                "nothing says where to", code="cli-deploy-where", where="hami deploy", help="add `--ray`"
            )
        from ..ray.deploy import Target
        from ..ray.deploy import deploy as deploy_on_ray
        from ..serve.settings import Settings
        from ..serve.tokens import read_token

        target = Target(
            address=address,
            name=name,
            route_prefix=route_prefix,
            working_dir=None if working_dir is None else str(working_dir.resolve()),
            host=host,
            port=port,
            timeout_s=wait,
        )
        settings = Settings(
            token=read_token(token_file),
            max_body_bytes=max_body_bytes,
            timeout_s=timeout,
            show_errors=show_errors,
        )
        where = deploy_on_ray(source_of(file), target, settings)
        typer.echo(f"hami: deployed `{name}` at {where}")
