from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bmq.proxy.limits import ProxyLimits
from tests.unit.proxy.harness import Client, Proxy, start_proxy, until

StartProxy = Callable[..., Awaitable[Proxy]]


@pytest.fixture
async def start() -> AsyncIterator[StartProxy]:
    """`await start(limits)` gives a listening proxy; all are stopped at the end."""
    proxies: list[Proxy] = []

    async def start_one(limits: ProxyLimits | None = None, *, partition_count: int = 6) -> Proxy:
        proxies.append(await start_proxy(limits, partition_count=partition_count))
        return proxies[-1]

    yield start_one
    for proxy in proxies:
        for client in proxy.clients:  # those of a test that failed, too
            client.writer.transport.abort()
        await proxy.server.stop(0)
        proxy.services.appender.stop()
        await until(lambda proxy=proxy: proxy.stats.connections == 0)
        await asyncio.sleep(0)  # for the transports to close their sockets


@pytest.fixture
async def proxy(start: StartProxy) -> Proxy:
    return await start()


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[Client]:
    made = await proxy.connect()
    yield made
    await made.close()
