"""A topic whose records have tags, one in a hundred `a`, views of it, and consumers of either."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.cluster.admin import Connection, check, create_topic, create_topics_request, wait_for_leaders
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

ONE_IN: Final = 100
"""Records, of which one has the tag `a`."""
RECORD_BYTES: Final = 1_024
READ_S_MAX: Final = 120.0
_ACKS: Final = -1
_LOOK_S: Final = 0.005
_POLL_S: Final = 0.5
_AT_ONCE: Final = 500
"""Messages of one call, which waits for the rest of them as long as it may."""
_STATISTICS_MS: Final = 100


def batch_of(first: int, count: int) -> bytes:
    """Records with the numbers [first, first + count) of a topic."""
    value = b"x" * RECORD_BYTES
    tags = (b"a" if number % ONE_IN == 0 else b"b" for number in range(first, first + count))
    return bytes(encode_batch([Record(None, value, (("bmq-tag", tag),), int(time.time() * 1000)) for tag in tags]))


def produce(connection: Connection, topic: str, batches: Sequence[bytes]) -> None:
    """To partition 0, one request for each batch. Raises AdminFailed."""
    for batch in batches:
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id=None, acks=_ACKS, timeout_ms=30_000, topic_data=[data])
        answer = connection.call(ApiKey.PRODUCE, request)
        check(f"produce to {topic}", answer.responses[0].partition_responses[0].error_code)


def make_base(addresses: Sequence[str], topic: str) -> None:
    """One partition. Raises AdminFailed."""
    create_topic(addresses, create_topics_request(topic, 1, 1))
    wait_for_leaders(addresses, topic, 1)


def make_view(addresses: Sequence[str], view: str, base: str, text: str) -> None:
    """Raises AdminFailed."""
    create_topic(addresses, create_topics_request(view, -1, -1, {"bmq.view.of": base, "bmq.view.filter": text}))
    wait_for_leaders(addresses, view, 1)


class Reader:
    """A consumer of partition 0 from an offset on. `received_bytes`: as librdkafka counts them, within the last 0.1 s."""

    def __init__(self, bootstrap: str, topic: str, offset: int) -> None:
        self.received_bytes = self.records = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._told,
            }
        )
        self._consumer.get_watermark_offsets(TopicPartition(topic, 0), READ_S_MAX)  # it is connected then
        self._consumer.assign([TopicPartition(topic, 0, offset)])

    def _told(self, statistics: str) -> None:
        found: Mapping[str, Any] = json.loads(statistics)
        self.received_bytes = int(found["rx_bytes"])

    def poll(self, wait_s: float) -> bool:
        """Take what is there; whether it is at the end. Raises LoadFailed."""
        is_at_end = False
        for message in self._consumer.consume(_AT_ONCE, wait_s):
            error = message.error()
            if error is None:
                self.records += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                is_at_end = True
            else:
                raise LoadFailed(str(error))
        return is_at_end

    def close(self) -> None:
        self._consumer.close()


def read(bootstrap: str, topic: str, wanted: int) -> dict[str, float]:
    """All records of a topic by a new consumer that is connected; `seconds`: until it has the last one.

    Raises LoadFailed if they are not so many.
    """
    began_s = time.perf_counter()
    reader = Reader(bootstrap, topic, 0)
    try:
        began_s, seconds, is_at_end = time.perf_counter(), 0.0, False
        while not is_at_end:
            is_at_end = reader.poll(_LOOK_S)
            seconds = seconds or (time.perf_counter() - began_s if reader.records >= wanted else 0.0)
            if time.perf_counter() - began_s > READ_S_MAX:
                raise LoadFailed(f"{topic} was not read within {READ_S_MAX:g} s")
        reader.poll(_POLL_S)  # its last statistics
        if reader.records != wanted:
            raise LoadFailed(f"{reader.records} records of {topic} in place of {wanted}")
        return {"seconds": seconds, "received_bytes": reader.received_bytes, "records": reader.records}
    finally:
        reader.close()
