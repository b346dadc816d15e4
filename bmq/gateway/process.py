"""One gateway process: event loop, signals, metrics, and the line that says it is ready."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from typing import Final

import structlog
import uvloop
from prometheus_client import CollectorRegistry, start_http_server

from bmq.gateway.server import CannotListen, GatewayServer
from bmq.gateway.settings import GatewaySettings

_HIGHEST_PORT: Final = 65_535
_log = structlog.get_logger("bmq.gateway")


def run_gateway(settings: GatewaySettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises BmqError with one sentence when it cannot start."""
    _require_address("listen", settings.listen)
    if settings.metrics:
        _require_address("metrics", settings.metrics)
    uvloop.run(_serve(settings))


async def _serve(settings: GatewaySettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    registry = CollectorRegistry()
    server = GatewayServer(settings, time.time, registry)
    told = ""
    metrics_server = None
    port = await server.start()
    try:
        if settings.metrics:
            host, _, metrics_port = settings.metrics.rpartition(":")
            try:
                metrics_server, _ = start_http_server(int(metrics_port), _bare(host), registry)
            except OSError as error:
                raise CannotListen(f"{settings.metrics} cannot be listened on: {error.strerror}") from None
            told = f" metrics={host}:{metrics_server.server_port}"
        gc.freeze()
        host = settings.listen.rpartition(":")[0]
        sys.stdout.write(f"bmq gateway ready grpc={host}:{port}{told}\n")
        sys.stdout.flush()
        _log.info("gateway_ready", grpc=f"{host}:{port}", cluster=settings.bootstrap)
        await stop.wait()
        _log.info("gateway_stopping")
    finally:
        if metrics_server is not None:
            await asyncio.to_thread(metrics_server.shutdown)
            metrics_server.server_close()
        await server.stop()
    _log.info("gateway_stopped")


def _require_address(name: str, address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > _HIGHEST_PORT:
        raise CannotListen(f"the setting {name} is {address!r}, which is not HOST:PORT")


def _bare(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")
