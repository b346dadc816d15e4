"""Forwarding and following over real sockets: transports that keep the buffers they are given until those are sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bmq.broker.manager import PartitionManager
from bmq.internode_client.links import Links
from bmq.internode_server.services import InternalServices
from bmq.log.partition_log import AppendResult
from bmq.metadata.image import MetadataImage, Node
from bmq.protocol.apis import INTERNAL_APIS
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import batches
from bmq.proxy.appender import Appender
from bmq.proxy.limits import BETWEEN_NODES
from bmq.proxy.server import KafkaServer
from bmq.proxy.stats import ProxyStats
from bmq.routing.router import Router
from bmq.routing.settings import RouterSettings
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.support.produced_batch import produced_batch
from tests.unit.routing.owner_nodes import LOG_CONFIG, SETTINGS, Cluster, batch_of, key

pytestmark = pytest.mark.unit


class ImageHolder:
    """What a controller's role shows; the same image all the time."""

    def __init__(self) -> None:
        cluster = Cluster()
        self.image: MetadataImage = cluster.image
        cluster.loop.discard()


async def test_what_is_forwarded_over_real_sockets_comes_back_as_it_was() -> None:
    store, clock, stats, shown = FakeStore(), FakeClock(), ProxyStats(), ImageHolder()
    settings = replace(SETTINGS, tail_cache_bytes_max=2**26)
    manager = PartitionManager(store.client("owner"), "owner", clock, Random(1), settings)
    manager.assign(key(), 1, "t", replace(LOG_CONFIG, segment_bytes=2**27))
    given: dict[str, Any] = dict.fromkeys(
        ("groups", "transactions", "markers", "fetcher", "producer_ids", "leadership", "releases", "known")
    )
    services = InternalServices(
        node=Node(2, "127.0.0.1", 9092),
        store=store.client("owner"),
        partitions=manager,
        controller=shown,  # type: ignore[arg-type]
        clock=clock,
        appender=Appender(manager, retries=False),
        stats=stats,
        loop=asyncio.get_running_loop(),
        manager=manager,
        **given,
    )
    server = KafkaServer(BETWEEN_NODES, stats, apis=INTERNAL_APIS, is_ordered=False)
    address = await server.bind("127.0.0.1", 0)
    await server.serve(services)
    links = Links("node-1", lambda node_id: address)
    router = Router(1, None, links, lambda: shown.image, random=Random(2), config=RouterSettings())
    appender = Appender(router)

    values = [b"%d" % number * random_length for number, random_length in enumerate([1, 30_000, 7, 200_000] * 8)]
    answers: list[AppendResult] = []
    all_answered = asyncio.Event()

    def done(result: AppendResult) -> None:
        answers.append(result)
        if len(answers) == len(values):
            all_answered.set()

    log = await router.leader_of(key())
    moved = asyncio.Event()
    log.on_advance(moved.set)
    for value in values:
        appender.append(produced_batch(key(), batch_of(value), done))
    read: list[bytes] = []
    async with asyncio.timeout(30):
        while len(read) < len(values):
            await moved.wait()
            moved.clear()
            log.on_advance(moved.set)
            views = log.tail_read(len(read), 2**30, log.high_watermark)
            assert views is not None
            for view in views:
                read += [
                    record.value or b"" for position, _ in batches(view) for record in decode_records(view, position)
                ]
        await all_answered.wait()
    assert read == values
    assert [answer.base_offset for answer in answers] == list(range(len(values)))
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    appender.stop()
    await router.close()
    await links.close()
    await server.stop(1)
    await manager.close()
    await asyncio.sleep(0)
