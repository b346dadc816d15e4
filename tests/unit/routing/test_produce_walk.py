"""How many files of bmq a produce walks through, from its frame to its answer, at a node of a cluster that owns the partition.

Counted is every module of which a function is called; the store is a fake. docs/architecture/data-path.md tells the walk.
"""

from __future__ import annotations

import asyncio
import sys
from random import Random
from types import FrameType
from typing import Any

import pytest

import bmq.proxy.handlers.produce  # noqa: F401 - registers itself
from bmq.broker.manager import PartitionManager
from bmq.internode_client.links import Links
from bmq.metadata.image import Node
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.proxy.appender import Appender
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.proxy.stats import ProxyStats
from bmq.routing.router import Router
from bmq.routing.settings import RouterSettings
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.unit.routing.owner_nodes import LOG_CONFIG, SETTINGS, TOPIC_ID, key
from tests.unit.routing.test_remote_loopback import ImageHolder

pytestmark = pytest.mark.unit

FILES_MAX = 40
VERSION = 11


def produce_frame(sequence: int) -> bytes:
    batch = encode_batch([Record(None, b"v")], producer_id=5, producer_epoch=0, base_sequence=sequence)
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    topics = [TopicProduceData(name="t", topic_id=TOPIC_ID, partition_data=data)]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
    frame = encode_request(ApiKey.PRODUCE, VERSION, 1, "client", request)
    return len(frame).to_bytes(4, "big") + frame


class Walk:
    """The files of bmq whose functions are called while it lasts, in order."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    def __enter__(self) -> Walk:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        _, found, file = frame.f_code.co_filename.rpartition("/bmq/")
        if event == "call" and found:
            self.files[file] = None


async def test_a_produce_walks_through_no_more_files_than_it_did() -> None:
    store, stats, shown = FakeStore(), ProxyStats(), ImageHolder()
    manager = PartitionManager(store.client("node-2"), "node-2", FakeClock(), Random(1), SETTINGS)
    manager.assign(key(), 1, "t", LOG_CONFIG)
    links = Links("node-2", lambda node_id: None)
    router = Router(2, manager, links, lambda: shown.image, random=Random(2), config=RouterSettings())
    given: dict[str, Any] = dict.fromkeys(("groups", "transactions", "markers", "fetcher", "producer_ids"))
    services = Services(
        node=Node(2, "127.0.0.1", 9092),
        store=store.client("node-2"),
        partitions=router,
        controller=shown,  # type: ignore[arg-type]
        clock=FakeClock(),
        appender=Appender(router),
        stats=stats,
        loop=asyncio.get_running_loop(),
        **given,
    )
    server = KafkaServer(ProxyLimits(), stats)
    host, port = await server.bind("127.0.0.1", 0)
    await server.serve(services)
    reader, writer = await asyncio.open_connection(host, port)

    async def answer_to(frame: bytes) -> bytes:
        writer.write(frame)
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

    frames = [produce_frame(sequence) for sequence in range(3)]
    answers = [await answer_to(frame) for frame in frames[:2]]  # the partition starts, and a batch to follow is known
    with Walk() as walk:
        answers.append(await answer_to(frames[2]))
    results = [decode_response(ApiKey.PRODUCE, VERSION, answer)[1].responses[0] for answer in answers]
    assert [result.partition_responses[0].error_code for result in results] == [ErrorCode.NONE] * 3
    assert [result.partition_responses[0].base_offset for result in results] == [0, 1, 2]
    assert {
        "proxy/connection.py",
        "proxy/appender.py",
        "broker/batch_validation.py",
        "broker/partition_machine.py",
    } <= set(walk.files)
    assert len(walk.files) <= FILES_MAX, list(walk.files)
    writer.close()
    await writer.wait_closed()
    await server.stop(1)
    await router.close()
    await links.close()
    await manager.close()
