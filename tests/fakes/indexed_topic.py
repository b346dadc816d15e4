"""A topic in memory, as queries on indexes see it: records may be deleted from its start or compacted, and reads may end early."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from bmq.index.errors import SourceAway
from bmq.index.topic_reader import LogRecord, Tail, TopicState


class IndexedTopic:
    """`records_at_once` None: a scan reads all; otherwise it ends after so many records, like one that is out of time."""

    def __init__(self, name: str, topic_id: uuid.UUID, partitions: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.logs: dict[int, list[LogRecord]] = {partition: [] for partition in range(partitions)}
        self.log_starts = dict.fromkeys(range(partitions), 0)
        self.compacted: set[tuple[int, int]] = set()
        self.records_at_once: int | None = None
        self.scanned: list[Mapping[int, tuple[int, int]]] = []
        self.is_away = False
        self.exists = True

    def append(self, partition: int, values: Iterable[bytes | None], *, timestamp_ms: int | None = 0) -> None:
        for value in values:
            offset = len(self.logs[partition])
            self.logs[partition].append(LogRecord(partition, offset, timestamp_ms, b"key", value, (("h", b"1"),)))

    def state(self, topic: str) -> TopicState | None:
        if self.is_away:
            raise SourceAway("topic cannot be asked for: no answer within 10 s")
        if topic != self.name or not self.exists:
            return None
        ends = {partition: len(log) for partition, log in self.logs.items()}
        return TopicState(self.topic_id, dict(self.log_starts), ends)

    def scan(
        self,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        take: Callable[[LogRecord], None],
        *,
        bytes_max: int,
        deadline_s: float,
    ) -> Tail:
        self.scanned.append(dict(ranges))
        reached = {partition: start for partition, (start, _) in ranges.items()}
        records = size = 0
        for partition, (start, end) in ranges.items():
            for record in self.logs[partition][start:end]:
                if size >= bytes_max or records == self.records_at_once:
                    return Tail(reached, records, size)
                if (partition, record.offset) not in self.compacted:
                    take(record)
                    records += 1
                    size += record.scanned_bytes
                reached[partition] = record.offset + 1
        return Tail(reached, records, size)

    def fetch(
        self, topic: str, offsets: Mapping[int, Sequence[int]], *, bytes_max: int, deadline_s: float
    ) -> dict[tuple[int, int], LogRecord | None]:
        found: dict[tuple[int, int], LogRecord | None] = {}
        size = 0
        for partition, wanted in offsets.items():
            for offset in wanted:
                if size >= bytes_max:
                    return found
                record = self.logs[partition][offset]
                is_gone = (partition, offset) in self.compacted or offset < self.log_starts[partition]
                found[partition, offset] = None if is_gone else record
                size += 0 if is_gone else len(record.value or b"")
        return found
