"""Ten thousand idle subscribers on one gateway: their memory, and that each gets the next record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from testing.patience import Patience
from testing.servers import Server
from tests.e2e.conftest import TopicMaker
from tests.support.gateway import generated, running_gateway

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(600)]

SUBSCRIBERS = 10_000
CHANNELS = 100
MEMORY_BYTES_MAX = 600 * 1024 * 1024


async def hold(address: str, topic: str, messages: Any, stubs: Any, pid: int) -> tuple[int, int]:
    """Resident bytes of the gateway before and while they are all open; then each gets one record."""
    before = psutil.Process(pid).memory_info().rss
    channels = [
        grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1), ("number", number)])
        for number in range(CHANNELS)
    ]
    start = messages.SubscribeRequest(start=messages.Start(topics=[topic], credit=1))
    calls = []
    for channel in channels:
        stub = stubs.SubscriberStub(channel)
        some = [stub.Subscribe() for _ in range(SUBSCRIBERS // CHANNELS)]
        await asyncio.gather(*(call.write(start) for call in some))
        for answer in await asyncio.gather(*(call.read() for call in some)):
            assert answer.WhichOneof("response") == "started"
        calls += some
    held = psutil.Process(pid).memory_info().rss
    channels.append(grpc.aio.insecure_channel(address))  # the others have as many streams as they may
    publisher = stubs.PublisherStub(channels[-1])
    await publisher.Publish(messages.PublishRequest(topic=topic, records=[messages.Record(value=b"all")]))
    answers = await asyncio.gather(*(call.read() for call in calls))
    assert all(answer.delivery.records[0].value == b"all" for answer in answers)
    for call in calls:
        call.cancel()
    for channel in channels:
        await channel.close()
    return before, held


def test_ten_thousand_idle_subscribers_fit(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic()
    with running_gateway(server, tmp_path / "gateway") as gateway:
        messages, stubs = generated(tmp_path)
        holding = hold(gateway.address, topic, messages, stubs, gateway.process.pid)
        before, held = asyncio.run(asyncio.wait_for(holding, Patience(400).limit_s))
        print(f"{(held - before) / SUBSCRIBERS / 1024:.1f} KiB each, {held / 1024 / 1024:.0f} MiB in all")
        assert held < MEMORY_BYTES_MAX
