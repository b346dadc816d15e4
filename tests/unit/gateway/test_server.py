"""The server around the services: its regular work goes on after a failure, and watchers of its health are bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bmq.gateway import server
from bmq.gateway.server import GatewayServer
from bmq.gateway.settings import GatewaySettings

pytestmark = pytest.mark.unit


async def test_a_failed_tick_is_logged_and_the_next_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TIDY_S", 0.0)
    gateway = GatewayServer(GatewaySettings(listen="127.0.0.1:0"), lambda: 0.0, CollectorRegistry())
    ticks = 0
    has_gone_on = asyncio.Event()

    def tidy() -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 1:
            raise RuntimeError("a part was made while the parts were polled")
        has_gone_on.set()

    monkeypatch.setattr(gateway.principals, "tidy", tidy)
    with capture_logs() as logs:
        tidying = asyncio.ensure_future(gateway._tidy())
        await asyncio.wait_for(has_gone_on.wait(), 30)
        tidying.cancel()
        await asyncio.wait({tidying})
    assert [one["event"] for one in logs] == ["gateway_tidying_failed"]


class Watcher:
    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.ended: Any = None

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def write(self, _message: Any) -> None:
        self.told.set()

    async def abort(self, code: Any, _message: str) -> None:
        self.ended = code


async def test_watchers_of_the_health_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WATCHES_MAX", 1)
    health = server._Health()
    first, second = Watcher(), Watcher()
    watching = asyncio.ensure_future(health.Watch(health_pb2.HealthCheckRequest(), first))
    await asyncio.wait_for(first.told.wait(), 30)
    await asyncio.wait_for(health.Watch(health_pb2.HealthCheckRequest(), second), 30)
    assert second.ended is grpc.StatusCode.RESOURCE_EXHAUSTED
    watching.cancel()
    await asyncio.wait({watching})
