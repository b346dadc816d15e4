"""A proxy on a real loopback socket over partition logs in memory, and a client that can also send what no client would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from bmq.log.config import LogConfig
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.proxy.appender import Appender
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.sasl_logins import SaslLogins
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.security.listener_security import ListenerSecurity
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.fakes.store import FakeStore

NODE = Node(node_id=1, host="127.0.0.1", port=9092, rack="r1")
TOPIC_ID = UUID(int=0xA)
CLUSTER_ID = "cluster-a"


def topic_image(
    name: str, topic_id: UUID, partition_count: int, *, leader: int = 1, is_internal: bool = False
) -> TopicImage:
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=tuple(PartitionImage(number, leader, 3, (1,), (1,)) for number in range(partition_count)),
        configs={},
        log_config=LogConfig(),
        is_internal=is_internal,
    )


def image_of(*topics: TopicImage, nodes: tuple[Node, ...] = (NODE,)) -> MetadataImage:
    return MetadataImage(
        offset=42,
        cluster_id=CLUSTER_ID,
        controller_id=1,
        nodes={node.node_id: node for node in nodes},
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
    )


class FakeController:
    """The part of bmq.proxy.services.Controller that the proxy's own handlers use."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.created: list[str] = []
        self.refuse_creation: ErrorCode | None = None
        self.blocks_given = 0
        self.refuse_blocks: ErrorCode | None = None

    async def auto_create_topic(self, name: str) -> None:
        await asyncio.sleep(0)
        if self.refuse_creation is not None:
            raise KafkaError(self.refuse_creation)
        self.created.append(name)
        made = topic_image(name, UUID(int=1000 + len(self.created)), 2)
        self.image = replace(
            self.image,
            topics={**self.image.topics, name: made},
            topics_by_id={**self.image.topics_by_id, made.topic_id: made},
        )

    async def allocate_producer_ids(self) -> range:
        await asyncio.sleep(0)
        if self.refuse_blocks is not None:
            raise KafkaError(self.refuse_blocks)
        first = 1000 * self.blocks_given
        self.blocks_given += 1
        return range(first, first + 4)


@dataclass
class Proxy:
    server: KafkaServer
    services: Services
    controller: FakeController
    partitions: FakePartitions
    host: str
    port: int
    clients: list[Client] = field(default_factory=list)

    @property
    def stats(self) -> ProxyStats:
        return self.server.stats

    def log(self, partition: int = 0) -> FakePartitionLog:
        return next(log for key, log in self.partitions.logs.items() if key.partition == partition)

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**26)
        self.clients.append(Client(reader, writer))
        return self.clients[-1]


def services_over(controller: FakeController, partitions: FakePartitions, stats: ProxyStats | None = None) -> Services:
    """For handlers that need neither fetches nor groups."""
    return Services(
        node=NODE,
        store=FakeStore().client("proxy"),
        partitions=partitions,
        controller=controller,  # type: ignore[arg-type]
        groups=None,  # type: ignore[arg-type]
        transactions=None,  # type: ignore[arg-type]
        markers=None,  # type: ignore[arg-type]
        clock=FakeClock(),
        appender=Appender(partitions, retries=False),
        fetcher=None,  # type: ignore[arg-type]
        producer_ids=ProducerIds(controller.allocate_producer_ids),
        stats=stats or ProxyStats(),
        loop=asyncio.get_running_loop(),
    )


async def start_proxy(
    limits: ProxyLimits | None = None,
    *,
    partition_count: int = 6,
    stalls: StallWatch | None = None,
    security: ListenerSecurity | None = None,
    logins: Callable[[FakeController], SaslLogins] | None = None,
    listener_socket: ListenerSocket | None = None,
) -> Proxy:
    """Topic "t" with its partitions, all led here."""
    partitions = FakePartitions()
    for number in range(partition_count):
        partitions.add(TOPIC_ID, number, leader_epoch=3)
    controller = FakeController(image_of(topic_image("t", TOPIC_ID, partition_count)))
    stats = ProxyStats()
    services = services_over(controller, partitions, stats)
    services.logins = None if logins is None else logins(controller)
    server = KafkaServer(limits or ProxyLimits(), stats, stalls=stalls)
    host, port = await server.bind("127.0.0.1", 0, listener_socket or ListenerSocket(security or ListenerSecurity()))
    await server.serve(services)
    return Proxy(server, services, controller, partitions, host, port)


class Client:
    """Sends frames and reads answers, both as pipelined as a test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    def send(self, api_key: int, version: int, message: Any, client_id: str | None = "test") -> int:
        """The correlation id."""
        self._correlation_id += 1
        self.send_frame(encode_request(api_key, version, self._correlation_id, client_id, message))
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(4, "big") + frame)

    async def read_frame(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def answer(self, api_key: int, version: int) -> tuple[int, Any]:
        """(correlation id, message) of the next answer."""
        return decode_response(api_key, version, await self.read_frame())

    async def ask(self, api_key: int, version: int, message: Any, client_id: str | None = "test") -> Any:
        sent = self.send(api_key, version, message, client_id)
        answered, response = await self.answer(api_key, version)
        assert answered == sent
        return response

    async def is_closed_by_server(self) -> bool:
        """Waits for the end of the stream; False when there is an answer before it."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


def batch(*values: bytes) -> bytes:
    return bytes(encode_batch([Record(None, value, (), 1_700_000_000_000) for value in values or (b"v",)]))


def produce_request(
    records: dict[int, bytes | None], *, topic: str = "t", topic_id: UUID | None = TOPIC_ID, **fields: Any
) -> ProduceRequest:
    """Records by partition."""
    data = [PartitionProduceData(index=number, records=raw) for number, raw in records.items()]
    return ProduceRequest(
        **{"acks": -1, "timeout_ms": 30_000, **fields},
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)],
    )


KERNEL_WAIT_S: Final = 0.005
KERNEL_WAITS_MAX: Final = 2_000


async def until(is_true: Any, turns_max: int = 20_000) -> None:
    """Let the loop run until something holds. Its clock is not involved: turns of the loop, and then real time for the kernel,
    which delivers what a socket sends late where the machine is busy.
    """
    for _ in range(turns_max):
        if is_true():
            return
        await asyncio.sleep(0)
    for _ in range(KERNEL_WAITS_MAX):
        if is_true():
            return
        await asyncio.to_thread(time.sleep, KERNEL_WAIT_S)
    raise AssertionError("it never came true")
