"""`bmq gateway`: run the gRPC gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP
from bmq.extras import install_command
from bmq.protocol.errors import BmqError

gateway_app = typer.Typer(no_args_is_help=True, help="The gRPC gateway: publish and subscribe from any language.")


class WrongGatewaySettings(BmqError):
    """A setting is unusable, or a library is missing."""


@gateway_app.command("run")
def run(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address for gRPC clients [127.0.0.1:9190]")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT[,…]", help=f"Servers of the cluster [{DEFAULT_BOOTSTRAP}]"),
    ] = None,
    metrics: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address of /metrics [none]")] = None,
    security_protocol: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Protocol of the cluster's listener: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
        ),
    ] = None,
    sasl_mechanism: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of users with passwords: PLAIN, SCRAM-SHA-256 [SCRAM-SHA-512]"),
    ] = None,
    cluster_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Authorities of the cluster's certificates, PEM")
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The gateway's certificate and its chain, PEM")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key, PEM")] = None,
) -> None:
    """Serve gRPC clients until SIGTERM. Bounds are variables BMQ_GATEWAY_…; docs/GATEWAY.md lists them."""
    from bmq.server.logs import configure_logs

    try:
        from bmq.gateway.process import run_gateway
        from bmq.gateway.settings import GatewaySettings
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "bmq":
            raise
        raise WrongGatewaySettings(
            f"the gateway needs {error.name.replace('_', '-')}: {install_command('gateway')}"
        ) from error
    given: dict[str, Any] = {
        "listen": listen,
        "bootstrap": bootstrap,
        "metrics": metrics,
        "security_protocol": security_protocol,
        "sasl_mechanism": sasl_mechanism,
        "cluster_ca": cluster_ca,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
    }
    try:
        settings = GatewaySettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise WrongGatewaySettings(f"the setting {name} of the gateway cannot be used: {first['msg']}") from error
    configure_logs(settings.log_level, settings.log_format)
    run_gateway(settings)
