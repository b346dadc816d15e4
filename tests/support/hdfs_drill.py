"""A server on HDFS for a drill, and a client that knows what was acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bmq.dev.hdfs import HdfsCluster
from testing.servers import BmqServer

WAIT_S: Final = 60.0
SETTINGS: Final[Mapping[str, str]] = {
    "BMQ_HDFS__REPLICATION": "1",
    "BMQ_KAFKA": '{"offsets.topic.num.partitions": "1"}',
}


class Drill:
    """A server on a root of its own, and a client that knows what was acknowledged."""

    def __init__(
        self, hdfs: HdfsCluster, directory: Path, root: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self.hdfs = hdfs
        self.root = root
        self.server = BmqServer(directory / "server", {**SETTINGS, **(settings or {})}, store=f"{hdfs.url}{root}")
        self.acknowledged: dict[str, list[bytes]] = {}
        self._number = 0

    def produce(self, topic: str = "t", *, timeout_ms: int = 8_000) -> KafkaError | None:
        """One record; why it was refused."""
        outcomes: list[KafkaError | None] = []
        value = b"%d" % self._number
        self._number += 1
        producer = Producer(
            {"bootstrap.servers": self.server.bootstrap, "message.timeout.ms": timeout_ms, "log_level": 0}
        )
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(WAIT_S)
        (error,) = outcomes
        if error is None:
            self.acknowledged.setdefault(topic, []).append(value)
        return error

    def takes_records(self, topic: str = "t") -> bool:
        return self.produce(topic) is None

    def read(self, topic: str = "t") -> list[bytes]:
        """Every record of a topic."""
        consumer = Consumer({"bootstrap.servers": self.server.bootstrap, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        values: list[bytes] = []
        while len(values) < end:
            message = consumer.poll(WAIT_S)
            assert message is not None and message.error() is None
            values.append(message.value())
        consumer.close()
        return values

    def check(self) -> None:
        """Every acknowledged record is there, once, in order. (One that was refused may be there too.)"""
        for topic, values in self.acknowledged.items():
            assert [value for value in self.read(topic) if value in values] == values
