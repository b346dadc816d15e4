"""Topics over logs in memory, and what reads their records and writes dead letters into them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from bmq.log.config import LogConfig
from bmq.metadata.image import MetadataImage
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.dead_letters.letter_topics import DeadLetterSettings
from bmq.proxy.dead_letters.producer import DeadLetterProducer
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.record_reads import RecordReader
from bmq.proxy.producer_ids import ProducerIds
from tests.fakes.partition_log import FakePartitionLog
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.cluster import LEADER_EPOCH, TOPIC_ID, FetchCluster, topic

LETTERS_ID = UUID(int=0xD1)
NAME = "dlq.t"


class LetterCluster:
    """Topic "t" of four partitions; "dlq.t" of three. `aside`: how often a batch was opened away from the loop."""

    def __init__(self) -> None:
        self.fetch_cluster = FetchCluster(4)
        self.logs = self.fetch_cluster.partitions
        self.settings = DeadLetterSettings()
        self.aside = 0
        self.created: list[Any] = []
        self.is_creation_shown = True
        self.add(NAME, LETTERS_ID, 3)
        self.reader = RecordReader(lambda: self.fetch_cluster.fetcher.shared, BatchOpener(self.run_aside))
        producer_ids = ProducerIds(self.producer_ids)
        self.appender = RecordAppender(lambda: self.fetch_cluster.services.appender, lambda: producer_ids)
        self.producer = DeadLetterProducer(
            lambda: self.image,
            self.logs,
            self.reader,
            self.appender,
            self.fetch_cluster.services.clock,
            self.create_topics,
            lambda: self.settings,
        )

    async def producer_ids(self) -> range:
        return range(1_000, 2_000)

    @property
    def image(self) -> MetadataImage:
        return self.fetch_cluster.controller.image

    def change(self, **fields: Any) -> None:
        self.fetch_cluster.controller.image = replace(self.image, **fields)

    def add(self, name: str, topic_id: UUID, count: int, *, is_on: bool = True, **log_config: Any) -> None:
        made = topic(name, topic_id, count, LogConfig(**log_config))
        if is_on:
            made = replace(made, configs={TOPIC_CONFIG: "true"})
        for number in range(count):
            self.logs.add(topic_id, number, leader_epoch=LEADER_EPOCH)
        self.change(topics={**self.image.topics, name: made}, topics_by_id={**self.image.topics_by_id, topic_id: made})

    def drop(self, name: str) -> None:
        gone = self.image.topics[name]
        self.change(
            topics={key: one for key, one in self.image.topics.items() if key != name},
            topics_by_id={key: one for key, one in self.image.topics_by_id.items() if key != gone.topic_id},
        )

    async def run_aside(self, work: Callable[[], Any]) -> Any:
        self.aside += 1
        await asyncio.sleep(0)
        return work()

    async def create_topics(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        self.created += request.topics
        if self.is_creation_shown:
            self.add(request.topics[0].name, UUID(int=0xD2), 1)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=request.topics[0].name)])

    def log(self, partition: int = 0, topic_id: UUID = TOPIC_ID) -> FakePartitionLog:
        return next(log for key, log in self.logs.logs.items() if key == (topic_id, partition))

    def produce(self, records: Sequence[Record], partition: int = 0, *, codec: Compression = Compression.NONE) -> None:
        """As one batch."""
        log = self.log(partition)
        data = encode_batch(records, compression=codec)
        log.append(produced_batch(log.topic_partition, memoryview(bytearray(data)), lambda _: None))

    def letters(self, partition: int = 0, topic_id: UUID = LETTERS_ID) -> list[Record]:
        return [record for batch in self.log(partition, topic_id).batches for record in decode_records(batch.data)]

    async def close(self) -> None:
        await self.fetch_cluster.fetcher.close()
