"""One of the two servers: carries out steps, tells how far its logs are compacted, and what consumers read of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from testing.compaction import Progress
from testing.processes import eventually
from testing.servers import Server
from tests.soak.compaction.history import CODECS, TRANSACTIONS, Step

CALL_S: Final = 60.0
READ_S: Final = 60.0


class Read(NamedTuple):
    """A record as a consumer gets it, but for its timestamp."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Contender:
    """`compacted`: of a topic and a partition, the offset below which its log is compacted."""

    def __init__(self, name: str, server: Server, compacted: Progress) -> None:
        self.name = name
        self.compacted = compacted
        self._bootstrap = server.bootstrap
        common = {"bootstrap.servers": server.bootstrap, "linger.ms": 5, "log_level": 3}
        self._producers: dict[str | int, Producer] = {
            codec: Producer({**common, "compression.type": codec, "enable.idempotence": codec != "gzip"})
            for codec in CODECS
        }
        for number in range(TRANSACTIONS):
            self._producers[number] = Producer(
                {
                    **common,
                    "transactional.id": f"history-{number}",
                    "transaction.timeout.ms": 600_000,
                    "compression.type": CODECS[number],
                }
            )
            self._producers[number].init_transactions(CALL_S)
        self._open: dict[int, set[int]] = {}  # partitions of each open transaction
        self._admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def make_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(CALL_S)

    def carry_out(self, topic: str, step: Step) -> None:
        producer = self._producers[step.producer]
        if isinstance(step.producer, int) and step.producer not in self._open:
            producer.begin_transaction()
            self._open[step.producer] = set()
        for write in step.writes:
            producer.produce(topic, write.value, write.key, write.partition, headers=list(write.headers))
        if producer.flush(CALL_S):
            raise RuntimeError(f"{self.name} did not take a step within {CALL_S:g} s")
        if isinstance(step.producer, int):
            self._open[step.producer].update(write.partition for write in step.writes)
            if step.ends is not None:
                self._end(topic, step.producer, is_commit=step.ends)

    def _end(self, topic: str, number: int, *, is_commit: bool) -> None:
        """End a transaction, and wait for its markers: what is written next has to come behind them on both sides."""
        producer, partitions = self._producers[number], self._open.pop(number)
        before = self._ends(topic, partitions)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(CALL_S)
        expected = {partition: end + 1 for partition, end in before.items()}
        eventually(lambda: self._ends(topic, partitions) == expected, CALL_S, f"{self.name} writes the markers")

    def _ends(self, topic: str, partitions: set[int]) -> dict[int, int]:
        if not partitions:
            return {}
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        found = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        return {one.partition: future.result(CALL_S).offset for one, future in found.items()}

    def write_sentinels(self, topic: str, partitions: int, key: bytes) -> dict[tuple[str, int], int]:
        """One record in each partition; its offset."""
        found: dict[tuple[str, int], int] = {}

        def placed(error: KafkaError | None, message: object) -> None:
            if error is not None:
                raise RuntimeError(f"{self.name}: {error}")
            found[topic, message.partition()] = message.offset()  # type: ignore[attr-defined]

        producer = self._producers["none"]
        for partition in range(partitions):
            producer.produce(topic, b"s", key, partition, on_delivery=placed)
        producer.flush(CALL_S)
        if len(found) < partitions:
            raise RuntimeError(f"{self.name} did not take all sentinels")
        return found

    def read(self, topic: str, ends: dict[tuple[str, int], int], *, is_committed: bool) -> dict[int, list[Read]]:
        """The records below these offsets, by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"reader-of-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if is_committed else "read_uncommitted",
                "enable.partition.eof": True,
                "check.crcs": True,
                "log_level": 3,
            }
        )
        partitions = [partition for name, partition in ends if name == topic]
        found: dict[int, list[Read]] = {partition: [] for partition in partitions}
        left = set(partitions)
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            while left:
                message = consumer.poll(READ_S)
                if message is None:
                    raise RuntimeError(f"{self.name} gave nothing more of {topic} {sorted(left)} for {READ_S:g} s")
                error = message.error()
                partition = message.partition()
                assert partition is not None
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise RuntimeError(f"{self.name}: {error}")
                    left.discard(partition)
                    continue
                offset = message.offset()
                assert offset is not None
                if offset < ends[topic, partition]:
                    headers = tuple(message.headers() or ())
                    found[partition].append(Read(offset, message.key(), message.value(), headers))
        finally:
            consumer.close()
        return found
