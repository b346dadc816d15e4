"""History of each partition's leaders (since when, and why): the newest changes, kept with the metadata. Pure.

Changes are added one by one as their records are replayed. A snapshot stores them column by column, a topic's many
partitions in one record. They stay in that form until they are read, so that a replay of thousands of partitions does
not make an object for every change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.metadata_records import StateChangesRecord

CHANGES_PER_PARTITION_MAX: Final = 64
CHANGES_MAX: Final = 100_000
_CHANGES_PER_RECORD_MAX: Final = 10_000
_KEPT_SHARE: Final = 0.75
"""Share of `changes_max` kept when there are too many: thinning out scans all partitions, so it must be rare."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """`leader` (-1: nobody) led from `timestamp_ms` on (-1: not known), under `leader_epoch`, because of `reason`."""

    timestamp_ms: int
    leader: int
    leader_epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Packed:
    """`count` changes of a snapshot's record, from its column position `start` on."""

    record: StateChangesRecord
    start: int
    count: int

    def __len__(self) -> int:
        return self.count

    def changes(self) -> list[StateChange]:
        record, end = self.record, self.start + self.count
        return [
            StateChange(
                record.timestamps_ms[at],
                record.leaders[at],
                record.leader_epochs[at],
                record.reasons[record.reason_numbers[at]],
            )
            for at in range(self.start, end)
        ]


_Changes = list[StateChange] | _Packed


class StateChangeHistory:
    """At most `per_partition_max` changes of a partition and `changes_max` in all; the oldest go first."""

    def __init__(self, per_partition_max: int = CHANGES_PER_PARTITION_MAX, changes_max: int = CHANGES_MAX) -> None:
        self._per_partition_max = per_partition_max
        self._changes_max = changes_max
        self._topics: dict[UUID, dict[int, _Changes]] = {}
        self._count = 0

    def __len__(self) -> int:
        """The number of changes kept."""
        return self._count

    def of(self, topic_id: UUID, partition: int) -> Sequence[StateChange]:
        """Newest last; empty for a partition that has had only its first owner."""
        kept = self._topics.get(topic_id, {}).get(partition)
        if kept is None:
            return ()
        return tuple(kept.changes() if isinstance(kept, _Packed) else kept)

    def add(self, topic_id: UUID, partition: int, change: StateChange) -> None:
        """Take in the newest change of a partition."""
        partitions = self._topics.setdefault(topic_id, {})
        kept = partitions.get(partition, [])
        if isinstance(kept, _Packed):
            kept = kept.changes()
        self._count -= len(kept)
        partitions[partition] = kept = [*kept, change][-self._per_partition_max :]
        self._count += len(kept)
        if self._count > self._changes_max:
            self._thin_out()

    def forget(self, topic_id: UUID) -> None:
        """Drop the history of a deleted topic."""
        self._count -= sum(len(kept) for kept in self._topics.pop(topic_id, {}).values())

    def _thin_out(self) -> None:
        """Halve the changes kept per partition as often as needed, then drop whole partitions in insertion order."""
        wanted = int(self._changes_max * _KEPT_SHARE)
        keep = self._per_partition_max
        while self._count > wanted and keep > 1:
            keep = keep // 2
            for partitions in self._topics.values():
                for partition, kept in partitions.items():
                    if len(kept) > keep:
                        changes = kept.changes() if isinstance(kept, _Packed) else kept
                        partitions[partition] = changes[-keep:]
            self._count = sum(len(kept) for partitions in self._topics.values() for kept in partitions.values())
        for topic_id, partitions in list(self._topics.items()):
            while partitions and self._count > wanted:
                self._count -= len(partitions.pop(next(iter(partitions))))
            if not partitions:
                del self._topics[topic_id]

    # --- snapshots

    def records(self) -> Iterator[StateChangesRecord]:
        """The whole history, as records for `take`."""
        for topic_id, partitions in self._topics.items():
            columns = _Columns(topic_id)
            for partition, kept in partitions.items():
                if columns.size + len(kept) > _CHANGES_PER_RECORD_MAX:
                    yield columns.record()
                    columns = _Columns(topic_id)
                columns.add(partition, kept)
            if columns.size:
                yield columns.record()

    def take(self, record: StateChangesRecord) -> None:
        """Read a record of `records`. Raises MalformedMessage when its columns do not fit each other."""
        size = sum(record.counts)
        columns = (record.timestamps_ms, record.leaders, record.leader_epochs, record.reason_numbers)
        if (
            len(record.partitions) != len(record.counts)
            or any(len(column) != size for column in columns)
            or min(record.counts, default=0) < 0
            or not all(0 <= number < len(record.reasons) for number in record.reason_numbers)
        ):
            raise MalformedMessage(f"the columns of state changes of topic {record.topic_id} do not fit each other")
        partitions = self._topics.setdefault(record.topic_id, {})
        start = 0
        for partition, count in zip(record.partitions, record.counts, strict=True):
            self._count += count - len(partitions.get(partition, ()))
            partitions[partition] = _Packed(record, start, count)
            start += count
        if self._count > self._changes_max:
            self._thin_out()


class _Columns:
    """A record being made."""

    def __init__(self, topic_id: UUID) -> None:
        self.size = 0
        self._topic_id = topic_id
        self._partitions: list[int] = []
        self._counts: list[int] = []
        self._timestamps_ms: list[int] = []
        self._leaders: list[int] = []
        self._leader_epochs: list[int] = []
        self._reason_numbers: list[int] = []
        self._reasons: dict[str, int] = {}

    def add(self, partition: int, kept: _Changes) -> None:
        self.size += len(kept)
        self._partitions.append(partition)
        self._counts.append(len(kept))
        if isinstance(kept, _Packed):
            record, part = kept.record, slice(kept.start, kept.start + kept.count)
            self._timestamps_ms += record.timestamps_ms[part]
            self._leaders += record.leaders[part]
            self._leader_epochs += record.leader_epochs[part]
            self._reason_numbers += [self._number_of(record.reasons[n]) for n in record.reason_numbers[part]]
            return
        for change in kept:
            self._timestamps_ms.append(change.timestamp_ms)
            self._leaders.append(change.leader)
            self._leader_epochs.append(change.leader_epoch)
            self._reason_numbers.append(self._number_of(change.reason))

    def _number_of(self, reason: str) -> int:
        return self._reasons.setdefault(reason, len(self._reasons))

    def record(self) -> StateChangesRecord:
        return StateChangesRecord(
            topic_id=self._topic_id,
            partitions=self._partitions,
            counts=self._counts,
            timestamps_ms=self._timestamps_ms,
            leaders=self._leaders,
            leader_epochs=self._leader_epochs,
            reason_numbers=self._reason_numbers,
            reasons=tuple(self._reasons),
        )
