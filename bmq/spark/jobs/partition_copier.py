"""Copies one source partition into the target, exactly once, on an executor.

Each transaction has records and the position after them. A new task takes the partition's transactional id, which fences its
predecessor and settles its last transaction. Only then does it read the position. So exactly the records before the position
are copied, also after kills, and while an old task is still running. A failed transaction is not repaired: the task fails,
and the next one begins in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer

from bmq.spark.jobs.cluster import kafka_errors, kafka_failure
from bmq.spark.jobs.copy_settings import CopySettings, Partitioner
from bmq.spark.jobs.offset_translation import MapEntry
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.positions import (
    ANSWER_WAIT_S,
    CopyNames,
    GroupOffsets,
    Position,
    commit_in_transaction,
    transactional_producer,
)

_ANY_PARTITION: Final = -1
_RECORD_BYTES_MAX: Final = 100_000_000
_PRODUCER: Final[Mapping[str, Any]] = {
    "linger.ms": 5,
    "compression.type": "lz4",
    # Only the target topic limits the size of records, not the client.
    "message.max.bytes": _RECORD_BYTES_MAX,
    "queue.buffering.max.messages": 0,
    "partitioner": "murmur2_random",
}


class PartitionCopier:
    """Call `take` with rows in offset order, then `finish`; `close` in any case."""

    def __init__(self, settings: CopySettings, topic: str, partition: int) -> None:
        """Raises JobFailed, BrokenOff."""
        self._settings = settings
        self._copy = settings.of(topic)
        self._partition = partition
        names = CopyNames(settings.copy, topic, self._copy.target_topic, self._copy.place_count)
        group, self._place = names.place(partition)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.copied = 0
        config = {**_PRODUCER, **settings.producer, **settings.config}
        self._producer: Producer = transactional_producer(config, names.transactional_id(partition))
        self._offsets = GroupOffsets(settings.config, group)
        try:
            position = self._offsets.read([self._place])[0]
            if position is None:
                raise JobFailed(f"the position of {topic}-{partition} is gone from group {group} of the target")
            if position.source_topic_id != self._copy.source_topic_id:
                raise JobFailed(f"topic {topic!r} was deleted and made again since its copy began")
            if position.target_topic_id not in ("", self._copy.target_topic_id):
                raise JobFailed(f"topic {self._copy.target_topic!r} was deleted and made again since the copy began")
        except BaseException:
            self._offsets.close()
            raise
        self.position: Position = replace(
            position, target_topic_id=self._copy.target_topic_id, origins=self._copy.origins
        )

    def take(self, rows: pa.RecordBatch) -> None:
        """Take rows of this partition; those before the position were copied already. Raises JobFailed, BrokenOff."""
        offsets = rows.column("offset").to_numpy()
        end = self.position.end_offset if self.position.end_offset >= 0 else np.iinfo(np.int64).max
        low, high = np.searchsorted(offsets, (self.position.offset, end))
        records_max = self._settings.transaction_records_max
        for start in range(int(low), int(high), records_max):
            part = rows.slice(start, min(records_max, int(high) - start))
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.nbytes
            if self._pending_rows >= records_max or self._pending_bytes >= self._settings.transaction_bytes_max:
                self._write(0)

    def finish(self) -> None:
        """The range has no more rows: move the position to its end. Raises JobFailed, BrokenOff."""
        self._write(self._settings.end_of(self._copy.source_topic, self._partition))

    def _write(self, end_offset: int) -> None:
        """Write all taken rows in one transaction, with the position after them, or `end_offset` if that is further.

        Without rows only the position: markers may follow records that are written already.
        """
        batches, self._pending = self._pending, []
        self._pending_rows = self._pending_bytes = 0
        behind_rows = batches[-1].column("offset")[-1].as_py() + 1 if batches else self.position.offset
        position = replace(self.position, offset=max(behind_rows, end_offset))
        if position == self.position:
            return
        with kafka_errors(f"records cannot be written to {self._place.topic}"):
            self._producer.begin_transaction()
            if batches:
                self._produce(batches)
        commit_in_transaction(self._producer, self._offsets, self._place, position)
        self.position = position

    def renew(self) -> None:
        """Commit the position again: groups lose offsets that were not committed for a week."""
        with kafka_errors(f"the position in {self._place.topic} cannot be renewed"):
            self._producer.begin_transaction()
        commit_in_transaction(self._producer, self._offsets, self._place, self.position)

    def move_back(self, offset: int) -> None:
        """Commit an earlier position: the source's log was cut there. Raises JobFailed, BrokenOff."""
        self.position = replace(self.position, offset=offset)
        self.renew()

    def close(self) -> None:
        """Close; an open transaction is left to the next producer of its id, which aborts it."""
        self._offsets.close()
        self._producer.purge()

    def _produce(self, batches: list[pa.RecordBatch]) -> None:
        is_by_key = self._settings.partitioner is Partitioner.KEY
        partition = _ANY_PARTITION if is_by_key else self._partition
        deliveries = Deliveries()
        count = sum(batch.num_rows for batch in batches)
        number = 0
        for batch in batches:
            for key, value, timestamp_ms, headers in _records(batch):
                self._send(
                    self._copy.target_topic,
                    value,
                    key,
                    partition=partition,
                    timestamp=timestamp_ms,
                    headers=headers,
                    on_delivery=deliveries.note if number in (0, count - 1) else None,
                )
                number += 1
        self.copied += count
        if self._settings.map_topic:
            self._map(batches, deliveries, count)

    def _map(self, batches: list[pa.RecordBatch], deliveries: Deliveries, count: int) -> None:
        """Record in the same transaction which source offsets became which target offsets."""
        if self._producer.flush(ANSWER_WAIT_S):
            raise BrokenOff(f"{self._copy.target_topic} did not take records within {ANSWER_WAIT_S:g} s")
        first, last = deliveries.offsets()
        if last - first + 1 != count:
            raise JobFailed(
                f"another program writes into {self._copy.target_topic}-{self._partition}: a mirror has to be alone"
            )
        offsets = np.concatenate([batch.column("offset").to_numpy() for batch in batches])
        entry = MapEntry.of(self._copy.source_topic, self._partition, runs_of(offsets, first), self._copy.ids)
        self._send(self._settings.map_topic, entry.value, entry.key)

    def _send(self, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, **{name: it for name, it in more.items() if it is not None})
                return
            except BufferError:
                self._producer.poll(1.0)


class Deliveries:
    """The offsets of the first and the last record of a transaction."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._error: KafkaError | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        """The producer's delivery callback."""
        if error is not None:
            self._error = error
        else:
            self._offsets.append(message.offset() or 0)

    def offsets(self) -> tuple[int, int]:
        """Raises JobFailed, BrokenOff when records were not delivered."""
        if self._error is not None:
            raise kafka_failure("records were refused", self._error)
        if not self._offsets:
            raise BrokenOff("records were not delivered")
        return min(self._offsets), max(self._offsets)


def runs_of(offsets: npt.NDArray[np.int64], target_offset: int) -> list[tuple[int, int, int]]:
    """(source offset, target offset, count) of each run without a gap; target offsets count up from `target_offset`."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(offsets) != 1) + 1])
    counts = np.diff(np.append(starts, len(offsets)))
    return [
        (source, target_offset + start, count)
        for source, start, count in zip(offsets[starts].tolist(), starts.tolist(), counts.tolist(), strict=True)
    ]


def _records(batch: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None, int, Any]]:
    """(key, value, milliseconds, headers) of each row, because the client takes single records."""
    timestamps = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    headers = batch.column("headers").to_pylist()
    return zip(
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        timestamps.tolist(),
        [[(each["key"], each["value"]) for each in row] if row else None for row in headers],
        strict=True,
    )
