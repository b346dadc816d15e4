"""Committed offsets of one shard's groups: how commits, fetches, deletions and expiry work. Decisions only.

Decisions return records; only `replay` changes what is committed. A group that only commits (and never has members)
needs no record of its own: it exists while it has offsets. Rules and error codes are those of Kafka's
OffsetMetadataManager.

A commit is `in flight` between its decision and its replay. Deletions include keys in flight, so that a commit that is
not visible yet also gets its tombstone. Offsets pending in open transactions (pending_offsets.py) are deleted too;
partitions and groups with pending offsets do not expire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.offsets.offset_columns import PackedOffsets, TopicOffsets, committed_of
from bmq.coordinator.offsets.pending_offsets import PendingOffsets
from bmq.coordinator.topics import Topics, find_topic
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from bmq.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from bmq.protocol.messages.offset_commit_response import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from bmq.protocol.messages.offset_delete_request import OffsetDeleteRequestTopic
from bmq.protocol.messages.offset_delete_response import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequestTopics
from bmq.protocol.messages.offset_fetch_response import OffsetFetchResponsePartitions, OffsetFetchResponseTopics

Partition = tuple[str, int]
"""(topic, partition)"""

Record = tuple[bytes, bytes | None]

NO_OFFSET: Final = -1

GROUP_NAMES_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of the group's name in all records of one commit: a small request can name many partitions, also twice."""

_Columns = tuple[Sequence[int], Sequence[int], Sequence[int], int, UUID]
"""Partitions, offsets and leader epochs of one commit, its time, and the topic's id."""


class Subscriber(Protocol):
    """A group of either protocol, which can keep offsets from being deleted."""

    def is_subscribed_to(self, topic: str) -> bool: ...
    @property
    def may_expire_offsets(self) -> bool:
        """Whether offsets of topics it is not subscribed to may expire."""

    @property
    def empty_since_ms(self) -> int | None:
        """Start of their retention, by the wall clock; None: it counts from each commit."""


class Commit(NamedTuple):
    """A decided commit. `records` are in the order of `partitions`; `topics` is the whole answer if they are
    written."""

    partitions: list[Partition]
    records: list[Record]
    topics: list[OffsetCommitResponseTopic]


class Offsets:
    """group -> topic -> partition -> last committed offset; and `pending`, offsets of open transactions.

    Offsets restored from a snapshot stay packed until their group is first used, so that requests after a failover do
    not wait until all groups are unpacked.
    """

    def __init__(self, config: CoordinatorConfig) -> None:
        self.count = 0
        self.pending = PendingOffsets()
        self._by_group: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        self._packed: dict[str, list[PackedOffsets]] = {}  # no group is in this and in _by_group
        self._latest: dict[str, dict[str, _Columns]] = {}  # group -> topic; newer than _by_group
        self._config = config
        self._in_flight: dict[str, dict[int, Sequence[Partition]]] = {}  # group -> ticket
        self._next_ticket = 0

    # ---------------------------------------------------------------- the log

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply a durable commit; None deletes."""
        if value is None:
            self.pending.erase(key)
            self._forget(key)
            return
        if self.pending.count:
            self.pending.overtake(key)
        self._put(key, value)

    def replay_topic(
        self,
        group_id: str,
        topic: str,
        topic_id: UUID,
        indexes: Sequence[int],
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        commit_timestamp_ms: int,
    ) -> None:
        """Like `replay` for each of these partitions, without metadata; kept as columns until the group is read."""
        if self.pending.count:
            for index in indexes:
                self.pending.overtake(OffsetCommitKey(group_id, topic, index))
        columns = (indexes, offsets, leader_epochs, commit_timestamp_ms, topic_id)
        latest = self._latest.get(group_id)
        if latest is None:
            latest = self._latest[group_id] = {}
        before = latest.get(topic)
        if before is not None and before[0] is indexes:
            latest[topic] = columns  # the same partitions, all counted already
            return
        topics = self._unfolded(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        if before is not None:
            partitions.update(_rows_of(before))
        count = len(partitions)
        partitions.update(_rows_of(columns))
        self.count += len(partitions) - count
        latest[topic] = columns

    def replay_pending(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int
    ) -> None:
        """Add a durable offset of the producer's open transaction; None deletes at once."""
        if value is None:
            self.replay(key, None)
        else:
            self.pending.add(producer_id, key, value, record_offset)

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """The producer's transaction has ended."""
        for key, value in self.pending.end(producer_id, is_commit=is_commit):
            self._put(key, value)

    def _put(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        topics = self._topics_of(key.group)
        if topics is None:
            topics = self._by_group[key.group] = {}
        partitions = topics.get(key.topic)
        if partitions is None:
            partitions = topics[key.topic] = {}
        if key.partition not in partitions:
            self.count += 1
        partitions[key.partition] = value

    def _forget(self, key: OffsetCommitKey) -> None:
        topics = self._topics_of(key.group)
        partitions = None if topics is None else topics.get(key.topic)
        if topics is None or partitions is None or partitions.pop(key.partition, None) is None:
            return
        self.count -= 1
        if not partitions:
            del topics[key.topic]
            if not topics:
                del self._by_group[key.group]

    def restore(self, part: PackedOffsets) -> None:
        """Add offsets from a snapshot, before anything of the group is replayed. Raises MalformedMessage."""
        parts = self._packed.setdefault(part.group, [])
        if part.group in self._by_group or any(part.topic == other.topic for other in parts):
            raise MalformedMessage("a group snapshot that has a group's offsets in a topic twice")
        self.count += part.offset_count
        parts.append(part)

    def copied(self) -> list[TopicOffsets | PackedOffsets]:
        """A copy of all committed offsets for a snapshot; later changes do not show in it."""
        for group_id in list(self._latest):
            self._topics_of(group_id)
        copies: list[TopicOffsets | PackedOffsets] = [part for parts in self._packed.values() for part in parts]
        copies += (
            TopicOffsets(group_id, topic, dict(partitions))
            for group_id, topics in self._by_group.items()
            for topic, partitions in topics.items()
        )
        return copies

    def _topics_of(self, group_id: str) -> dict[str, dict[int, OffsetCommitValue]] | None:
        """The group's committed offsets; everything that reads or changes them calls this."""
        topics = self._unfolded(group_id)
        if topics is not None:
            for topic, columns in self._latest.pop(group_id, {}).items():
                topics[topic].update(_rows_of(columns))
        return topics

    def _unfolded(self, group_id: str) -> dict[str, dict[int, OffsetCommitValue]] | None:
        """Like `_topics_of`, but without the newer values in `_latest`."""
        packed = self._packed.get(group_id)
        if packed is None:
            return self._by_group.get(group_id)
        topics = {part.topic: part.unpacked() for part in packed}
        self._by_group[group_id] = topics
        del self._packed[group_id]
        return topics

    def begin(self, group_id: str, partitions: Sequence[Partition]) -> int:
        """Register a decided commit as in flight; pass the ticket to `end`, whether it succeeds or not."""
        ticket = self._next_ticket = self._next_ticket + 1
        tickets = self._in_flight.get(group_id)
        if tickets is None:
            self._in_flight[group_id] = {ticket: partitions}
        else:
            tickets[ticket] = partitions
        return ticket

    def end(self, group_id: str, ticket: int) -> None:
        tickets = self._in_flight[group_id]
        del tickets[ticket]
        if not tickets:
            del self._in_flight[group_id]

    def in_flight(self, group_id: str) -> list[int]:
        """The tickets of the group's commits in flight."""
        return list(self._in_flight.get(group_id, ()))

    def _unapplied(self, group_id: str) -> Iterator[Partition]:
        for partitions in self._in_flight.get(group_id, {}).values():
            yield from partitions

    def has_group(self, group_id: str) -> bool:
        """Whether it has committed or pending offsets."""
        return group_id in self._by_group or group_id in self._packed or self.pending.has_group(group_id)

    def group_ids(self) -> list[str]:
        """All groups with committed or pending offsets."""
        group_ids = [*self._by_group, *self._packed]
        group_ids += (
            group_id
            for group_id in self.pending.group_ids()
            if group_id not in self._by_group and group_id not in self._packed
        )
        return group_ids

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        """The group's committed offsets by topic and partition."""
        return self._topics_of(group_id) or {}

    def positions(self, group_id: str) -> dict[str, dict[int, int]]:
        """The group's committed offsets as numbers, for metrics: unlike `committed` it leaves the columns of the last
        commits as they are. Raises MalformedMessage.
        """
        packed = self._packed.get(group_id)
        rows = {part.topic: part.unpacked() for part in packed} if packed is not None else self._by_group.get(group_id)
        found = {topic: {index: value.offset for index, value in of.items()} for topic, of in (rows or {}).items()}
        for topic, columns in self._latest.get(group_id, {}).items():
            found.setdefault(topic, {}).update(zip(columns[0], columns[1], strict=True))
        return found

    def count_of(self, group_id: str) -> int:
        """The number of the group's committed offsets."""
        packed = self._packed.get(group_id)
        if packed is not None:
            return sum(part.offset_count for part in packed)
        return sum(len(partitions) for partitions in self._by_group.get(group_id, {}).values())

    # ---------------------------------------------------------------- commit

    def commit(self, request: OffsetCommitRequest, topics: Topics, error: ErrorCode, now_ms: int) -> Commit:
        """Decide an OffsetCommit. `error`: the group's verdict on this member, returned for every valid partition.

        Unknown topics and partitions and metadata that is too long have their own errors.
        """
        decided = Commit([], [], [])
        count = sum(len(asked.partitions) for asked in request.topics)
        if count * len(request.group_id) > GROUP_NAMES_BYTES_MAX and error is ErrorCode.NONE:
            error = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka answers to records that are too large together
        for asked in request.topics:
            decided.topics.append(self._commit_topic(request, asked, topics, error, now_ms, decided))
        return decided

    def _commit_topic(
        self,
        request: OffsetCommitRequest,
        asked: OffsetCommitRequestTopic,
        topics: Topics,
        error: ErrorCode,
        now_ms: int,
        decided: Commit,
    ) -> OffsetCommitResponseTopic:
        topic = find_topic(topics, asked.name, asked.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if asked.topic_id is None else ErrorCode.UNKNOWN_TOPIC_ID
        answers = []
        for part in asked.partitions:
            index = part.partition_index
            if topic is None:
                code = unknown
            elif not 0 <= index < len(topic.partitions):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif error is not ErrorCode.NONE:
                code = error
            elif part.committed_metadata and len(part.committed_metadata) > self._config.offset_metadata_max_bytes:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                code = ErrorCode.NONE
                expires = request.retention_time_ms >= 0  # before v5 clients could set the retention
                value = OffsetCommitValue(
                    offset=part.committed_offset,
                    leader_epoch=part.committed_leader_epoch,
                    metadata=part.committed_metadata or "",
                    commit_timestamp_ms=now_ms,
                    expire_timestamp_ms=now_ms + request.retention_time_ms if expires else -1,
                    topic_id=None if expires else topic.topic_id,
                )
                key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                decided.partitions.append((topic.name, index))
                decided.records.append((encode_key(key), encode_value(value)))
            answers.append(OffsetCommitResponsePartition(partition_index=index, error_code=code))
        return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers)

    # ---------------------------------------------------------------- fetch

    def fetch(
        self,
        group_id: str,
        asked: Sequence[OffsetFetchRequestTopics],
        topics: Topics,
        *,
        require_stable: bool = False,
    ) -> list[OffsetFetchResponseTopics]:
        """The committed offsets of these partitions; -1 where there is none.

        `require_stable`: UNSTABLE_OFFSET_COMMIT where an open transaction may still change the offset (KIP-447).
        """
        answers = []
        committed = self.committed(group_id)
        unstable = self.pending.partitions_of(group_id) if require_stable else ()
        for part in asked:
            topic = find_topic(topics, part.name, part.topic_id)
            if topic is None and part.topic_id is not None:
                partitions = [_unknown_topic(index) for index in part.partition_indexes]
            else:
                name = part.name if topic is None else topic.name
                current_id = None if topic is None else topic.topic_id
                values = committed.get(name, {})
                partitions = [
                    _unstable(index) if (name, index) in unstable else _fetched(index, values.get(index), current_id)
                    for index in part.partition_indexes
                ]
            answers.append(OffsetFetchResponseTopics(name=part.name, topic_id=part.topic_id, partitions=partitions))
        return answers

    def fetch_all(
        self, group_id: str, topics: Topics, *, by_id: bool, require_stable: bool = False
    ) -> list[OffsetFetchResponseTopics]:
        """All offsets the group has committed. `by_id` (v10): no deleted topics; `require_stable`: as in `fetch`."""
        answers = []
        unstable = self.pending.partitions_of(group_id) if require_stable else ()
        for name, values in self.committed(group_id).items():
            topic = topics.topics.get(name)
            if topic is None and by_id:
                continue
            current_id = None if topic is None else topic.topic_id
            partitions = [
                _unstable(index) if (name, index) in unstable else _fetched(index, value, current_id)
                for index, value in values.items()
                if not _is_of_another(value, current_id)
            ]
            if partitions:
                topic_id = current_id if by_id else None
                answers.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
        return answers

    # ---------------------------------------------------------------- delete

    def delete(
        self, group_id: str, group: Subscriber | None, asked: Sequence[OffsetDeleteRequestTopic], topics: Topics
    ) -> tuple[list[Record], list[OffsetDeleteResponseTopic]]:
        """Decide an OffsetDelete: tombstones, unless the group is subscribed to the topic.

        Unknown topics and partitions have their own errors.
        """
        known = set(self._partitions_of(group_id))
        records: list[Record] = []
        answers = []
        for part in asked:
            topic = topics.topics.get(part.name)
            is_subscribed = group is not None and group.is_subscribed_to(part.name)
            partitions = []
            for partition in part.partitions:
                index = partition.partition_index
                code = ErrorCode.NONE
                if topic is None or not 0 <= index < len(topic.partitions):
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif is_subscribed:
                    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                if code is ErrorCode.NONE and (part.name, index) in known:
                    records.append(_tombstone(group_id, (part.name, index)))
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
            answers.append(OffsetDeleteResponseTopic(name=part.name, partitions=partitions))
        return records, answers

    def delete_group(self, group_id: str) -> list[Record]:
        """Tombstones for all offsets of the group, also those in flight."""
        return [_tombstone(group_id, partition) for partition in self._partitions_of(group_id)]

    def delete_topics(self, names: frozenset[str]) -> list[Record]:
        """Tombstones for every offset of deleted topics."""
        for group_id in [group_id for group_id, parts in self._packed.items() if any(p.topic in names for p in parts)]:
            self._topics_of(group_id)
        doomed = {
            (group_id, (name, index))
            for group_id, topics in self._by_group.items()
            for name in names & topics.keys()
            for index in topics[name]
        }
        doomed.update(
            (group_id, partition)
            for group_id in self._in_flight
            for partition in self._unapplied(group_id)
            if partition[0] in names
        )
        doomed.update(
            (group_id, partition)
            for group_id in self.pending.group_ids()
            for partition in self.pending.partitions_of(group_id)
            if partition[0] in names
        )
        return [_tombstone(group_id, partition) for group_id, partition in sorted(doomed)]

    def expire(self, group_id: str, group: Subscriber | None, now_ms: int) -> tuple[list[Record], bool]:
        """(tombstones for expired offsets, whether the group is left without any).

        While a group has members, only topics that no member subscribes to expire. For an empty group that had members
        retention counts from the moment it became empty (KIP-211); for a group that never had any, from each commit.
        """
        unsettled = set(self._unapplied(group_id))
        unsettled |= self.pending.partitions_of(group_id)
        if group is not None and not group.may_expire_offsets:
            return [], False
        since_ms = None if group is None else group.empty_since_ms
        expired: list[Record] = []
        is_empty = not unsettled
        for topic, partitions in self.committed(group_id).items():
            is_kept = group is not None and group.is_subscribed_to(topic)
            for index, value in partitions.items():
                if is_kept or (topic, index) in unsettled or not self._is_over(value, since_ms, now_ms):
                    is_empty = False
                else:
                    expired.append(_tombstone(group_id, (topic, index)))
        return expired, is_empty

    def _is_over(self, value: OffsetCommitValue, since_ms: int | None, now_ms: int) -> bool:
        if value.expire_timestamp_ms >= 0:
            return now_ms >= value.expire_timestamp_ms
        from_ms = value.commit_timestamp_ms if since_ms is None else since_ms
        return now_ms - from_ms >= self._config.offsets_retention_ms

    def _partitions_of(self, group_id: str) -> list[Partition]:
        committed = {(topic, index) for topic, partitions in self.committed(group_id).items() for index in partitions}
        committed.update(self._unapplied(group_id))
        committed |= self.pending.partitions_of(group_id)
        return sorted(committed)


def refused(topics: Iterable[OffsetCommitRequestTopic], error: ErrorCode) -> list[OffsetCommitResponseTopic]:
    """The answer to an OffsetCommit that failed as a whole."""
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                for part in topic.partitions
            ],
        )
        for topic in topics
    ]


def _rows_of(columns: _Columns) -> Iterator[tuple[int, OffsetCommitValue]]:
    indexes, offsets, leader_epochs, commit_timestamp_ms, topic_id = columns
    rows = zip(offsets, leader_epochs, repeat(""), repeat(commit_timestamp_ms), repeat(-1), repeat(topic_id))
    return zip(indexes, map(committed_of, rows), strict=True)


def _is_of_another(value: OffsetCommitValue, current_id: UUID | None) -> bool:
    """Whether it was committed for a deleted topic of the same name."""
    return value.topic_id is not None and current_id is not None and value.topic_id != current_id


def _fetched(index: int, value: OffsetCommitValue | None, current_id: UUID | None) -> OffsetFetchResponsePartitions:
    if value is None or _is_of_another(value, current_id):
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )


def _unknown_topic(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID
    )


def _tombstone(group_id: str, partition: Partition) -> Record:
    topic, index = partition
    return encode_key(OffsetCommitKey(group=group_id, topic=topic, partition=index)), None
