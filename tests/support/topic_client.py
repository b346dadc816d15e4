"""Topics made, deleted and used over raw connections: what no stock client sends at once, and topics by their ids."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.fetch.v13 import request as fetching
from kio.schema.fetch.v13.response import FetchResponse
from kio.schema.produce.v13 import request as producing
from kio.schema.produce.v13.response import ProduceResponse
from kio.static.primitive import i16, i32, i64

from testing import wire
from testing.wire import FetchAnswer, ProduceAnswer, WireClient
from tests.support import kio_client

CREATE_TOPICS, CREATE_VERSION = 19, 4
DELETE_TOPICS, DELETE_VERSION = 20, 3
TIMEOUT_MS = 20_000


class TopicClient(WireClient):
    """One connection. What is sent without waiting is answered in order, by `created` and `deleted`."""

    def send_create(self, *topics: str, partitions: int = 1, config: dict[str, str] | None = None) -> int:
        """CreateTopics, not waited for; the correlation id."""
        configs = config or {}
        settings = b"".join(wire.string(name) + wire.string(value) for name, value in configs.items())
        counts = struct.pack(">ihii", partitions, 1, 0, len(configs))
        bodies = b"".join(wire.string(topic) + counts + settings for topic in topics)
        body = struct.pack(">i", len(topics)) + bodies + struct.pack(">ib", TIMEOUT_MS, 0)
        return self.send(CREATE_TOPICS, CREATE_VERSION, body)

    def created(self, correlation_id: int) -> dict[str, int]:
        """The error code of each topic."""
        reader = self.receive(correlation_id)
        reader.one(">i")
        codes = {}
        for _ in range(reader.one(">i")):
            name = reader.string()
            codes[name] = reader.one(">h")
            reader.raw(max(reader.one(">h"), 0))
        assert reader.left == 0
        return codes

    def create(self, topic: str, **more: Any) -> int:
        return self.created(self.send_create(topic, **more))[topic]

    def send_delete(self, *topics: str) -> int:
        """DeleteTopics, not waited for; the correlation id."""
        names = b"".join(wire.string(topic) for topic in topics)
        body = struct.pack(">i", len(topics)) + names + struct.pack(">i", TIMEOUT_MS)
        return self.send(DELETE_TOPICS, DELETE_VERSION, body)

    def deleted(self, correlation_id: int) -> dict[str, int]:
        """The error code of each topic."""
        reader = self.receive(correlation_id)
        reader.one(">i")
        codes = {reader.string(): reader.one(">h") for _ in range(reader.one(">i"))}
        assert reader.left == 0
        return codes

    def delete(self, topic: str) -> int:
        return self.deleted(self.send_delete(topic))[topic]

    def produce_by_id(self, topic_id: UUID, records: bytes) -> ProduceAnswer:
        """To partition 0."""
        data = producing.PartitionProduceData(index=i32(0), records=records)  # type: ignore[arg-type]
        topic = producing.TopicProduceData(topic_id=topic_id, partition_data=(data,))
        timeout: Any = timedelta(milliseconds=TIMEOUT_MS)
        request = producing.ProduceRequest(acks=i16(-1), timeout=timeout, topic_data=(topic,))
        answer = kio_client.call(self, request, ProduceResponse).responses[0].partition_responses[0]
        return ProduceAnswer(int(answer.error_code), answer.base_offset)

    def fetch_by_id(
        self, topic_id: UUID, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, session_epoch: int = -1
    ) -> FetchAnswer:
        """From partition 0; with `session_epoch` 0 in a new fetch session."""
        partition = fetching.FetchPartition(
            partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(1 << 20)
        )
        wait: Any = timedelta(milliseconds=max_wait_ms)
        request = fetching.FetchRequest(
            max_wait=wait,
            min_bytes=i32(min_bytes),
            session_epoch=i32(session_epoch),
            topics=(fetching.FetchTopic(topic_id=topic_id, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        answer = kio_client.call(self, request, FetchResponse)
        if answer.error_code:
            return FetchAnswer(int(answer.error_code), -1, b"")
        found = answer.responses[0].partitions[0]
        return FetchAnswer(int(found.error_code), found.high_watermark, bytes(found.records or b""))
