"""A fetcher over partition logs in memory, and a client that goes through the codec in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from bmq.log.config import LogConfig
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from bmq.protocol.parts import MEMORY, Part
from bmq.protocol.record_batch import batches
from bmq.protocol.request_context import RequestContext
from bmq.proxy.appender import Appender
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.handlers import delete_records, fetch, list_offsets, offset_for_leader_epoch  # noqa: F401  (register)
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.services import Services
from bmq.proxy.stats import ProxyStats
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.fakes.store import FakeStore
from tests.support.produced_batch import produced_batch

NODE = Node(node_id=1, host="127.0.0.1", port=9092, rack="r1")
TOPIC_ID = UUID(int=0xA)
OTHER_ID = UUID(int=0xB)
LEADER_EPOCH = 3
VERSIONS = (4, 6, 7, 11, 12, 13, 15, 16, 18)


class ImageController:
    """Shows an image."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image


def topic(name: str, topic_id: UUID, partition_count: int, log_config: LogConfig | None = None) -> TopicImage:
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            PartitionImage(number, NODE.node_id, LEADER_EPOCH, (1,), (1,)) for number in range(partition_count)
        ),
        configs={},
        log_config=log_config or LogConfig(),
    )


def image_of(*topics: TopicImage) -> MetadataImage:
    return MetadataImage(
        nodes={NODE.node_id: NODE},
        topics={one.name: one for one in topics},
        topics_by_id={one.topic_id: one for one in topics},
    )


class Answer(asyncio.Future[Any]):
    """One request's decoded response, once it was replied to."""


class FetchCluster:
    """Topic "t" with its partitions, all led here; made inside a running loop."""

    def __init__(self, partition_count: int = 3, config: FetchSettings | None = None, store: FakeStore | None = None):
        self.store = store or FakeStore()
        self.partitions = FakePartitions(self.store)
        for number in range(partition_count):
            self.partitions.add(TOPIC_ID, number, leader_epoch=LEADER_EPOCH)
        self.controller = ImageController(image_of(topic("t", TOPIC_ID, partition_count)))
        client = self.store.client("proxy")
        self.fetcher = Fetcher(client, config or FetchSettings(), random=Random(7))
        self.services = Services(
            node=NODE,
            store=client,
            partitions=self.partitions,
            controller=self.controller,  # type: ignore[arg-type]
            groups=None,  # type: ignore[arg-type]
            transactions=None,  # type: ignore[arg-type]
            markers=None,  # type: ignore[arg-type]
            clock=FakeClock(),
            appender=Appender(self.partitions, retries=False),
            fetcher=self.fetcher,
            producer_ids=ProducerIds(None),  # type: ignore[arg-type]
            stats=ProxyStats(),
            loop=asyncio.get_running_loop(),
        )
        self.replies = 0

    def log(self, partition: int = 0) -> FakePartitionLog:
        return next(log for key, log in self.partitions.logs.items() if key.partition == partition)

    def produce(self, partition: int = 0, *, count: int = 1, value_bytes: int = 10, timestamp_ms: int = 1000) -> bytes:
        """One batch, as it was stored."""
        log = self.log(partition)
        records = [Record(None, b"v" * value_bytes, (), timestamp_ms) for _ in range(count)]
        log.append(produced_batch(log.topic_partition, memoryview(bytearray(encode_batch(records))), lambda _: None))
        return log.batches[-1].data

    def send(self, request: FetchRequest, version: int, context: RequestContext | None = None) -> Answer:
        """Begin a fetch; the answer may be there at once. `context`: of the client, if it matters."""
        frame = bytearray(encode_request(ApiKey.FETCH, version, 7, "test", request))
        answer = Answer()

        def reply(buffers: Sequence[Part] | None) -> None:
            assert buffers is not None
            self.replies += 1
            whole = b"".join(part if isinstance(part, MEMORY) else part.peek(0, len(part)) for part in buffers)
            correlation_id, response = decode_response(ApiKey.FETCH, version, whole)
            assert correlation_id == 7
            answer.set_result(response)

        header = parse_request_header(frame)
        context = context or RequestContext(version, "test", "127.0.0.1")
        HOT_HANDLERS[ApiKey.FETCH](frame, header, context, self.services, reply)  # type: ignore[arg-type]
        return answer

    async def fetch(self, request: FetchRequest, version: int = 18) -> Any:
        return await asyncio.wait_for(self.send(request, version), 10)

    async def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        frame = encode_request(api_key, version, 7, "test", request)
        context = RequestContext(version, "test", "127.0.0.1")
        message = decode_request(parse_request_header(frame), frame)
        response = await HANDLERS[api_key](message, context, self.services)
        return decode_response(api_key, version, encode_response(api_key, version, 7, response))[1]


def want(
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**30,
    partition_max_bytes: int = 2**20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    topic_id: UUID = TOPIC_ID,
    name: str = "t",
    epoch: int = -1,
    replica_id: int = -1,
) -> FetchRequest:
    """A fetch of one topic's partitions from `offsets` on."""
    wanted = [
        FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=epoch,
        )
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic_id=topic_id, topic=name, partitions=wanted)] if wanted else [],
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
    )


def results(response: Any) -> dict[int, Any]:
    """By partition, of one topic."""
    return {one.partition_index: one for part in response.responses for one in part.partitions}


def offsets_in(records: bytes | None) -> list[int]:
    """Base offsets of the batches in a response."""
    return [header.base_offset for _, header in batches(records or b"")]
