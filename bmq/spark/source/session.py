"""The driver's view of the cluster: which partitions and offsets to read, and what each task reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Final
from uuid import UUID

from bmq.log.checksummed_parts import CorruptParts
from bmq.log.store import SegmentStore, StoreError
from bmq.protocol.errors import BmqError
from bmq.spark.source.cluster import ClusterClient, UnknownTopic
from bmq.spark.source.options import (
    EARLIEST,
    LATEST,
    ROOT_NONE,
    AtTimestamp,
    BadOption,
    EachOffset,
    Everywhere,
    Partition,
    Position,
    ReadOptions,
)
from bmq.spark.source.plan import ENTRY_BYTES_MIN, PartitionSnapshot, RangeToRead, cover, offset_after, plan, share
from bmq.spark.source.read import Access, require_no_loss
from bmq.spark.source.snapshot import snapshot_partition
from bmq.spark.source.storage import open_store, require_cluster, token_for_executors
from bmq.spark.source.stream_offset import Cluster, StreamOffset, starts

LOOKS_MAX: Final = 16
"""Partitions whose directories are read concurrently."""


class PlanFailed(BmqError):
    """A partition's store could not be read, or is damaged; the message names both."""


class Session:
    """Create it with `opened`."""

    def __init__(self, options: ReadOptions, cluster: ClusterClient) -> None:
        self._options = options
        self._cluster = cluster
        self.topic_ids: dict[str, UUID] = {}
        self.partitions: tuple[Partition, ...] = ()

    @classmethod
    @asynccontextmanager
    async def opened(cls, options: ReadOptions, *, may_lack: bool = False) -> AsyncIterator[Session]:
        """A session with the subscribed partitions. Raises UnknownTopic, ClusterAway.

        `may_lack`: leave out named topics and partitions that do not exist.
        """
        cluster = ClusterClient(
            options.bootstrap,
            options.client_id,
            Random(),
            timeout_s=options.request_timeout_s,
            patience_s=options.plan_timeout_s,
        )
        try:
            session = cls(options, cluster)
            await session._find_partitions(may_lack=may_lack)
            yield session
        finally:
            await cluster.close()

    async def _find_partitions(self, *, may_lack: bool) -> None:
        subscription = self._options.subscription
        topics = await self._cluster.topics(subscription.names)
        missing = [name for name in subscription.names or () if name not in topics]
        if missing and not may_lack:
            raise UnknownTopic(f"the cluster has no topic {', '.join(missing)}")
        taken = {
            name: topic
            for name, topic in sorted(topics.items())
            if subscription.takes(name) and not (topic.is_internal and subscription.pattern)
        }
        for name, topic_id in self._options.topic_ids.items():
            if name in taken and taken[name].topic_id != topic_id:
                raise UnknownTopic(f"topic {name} was deleted and made again: the one to be read is gone")
        found = [(name, number) for name, topic in taken.items() for number in topic.partitions]
        if subscription.partitions:
            unknown = sorted(set(subscription.partitions) - set(found))
            if unknown and not may_lack:
                raise UnknownTopic(f"the cluster has no partition {', '.join(f'{t}-{p}' for t, p in unknown)}")
            found = [one for one in subscription.partitions if one not in unknown]
        self.partitions = tuple(found)
        self.topic_ids = {name: topic.topic_id for name, topic in taken.items()}

    # --- offsets

    async def earliest(self) -> dict[Partition, int]:
        return await self._at(EARLIEST)

    async def latest(self) -> dict[Partition, int]:
        """The ends of readable records: high watermarks, or last stable offsets."""
        return await self._at(LATEST)

    async def resolve(self, position: Position, name: str, *, is_latest_without_match: bool) -> dict[Partition, int]:
        """The offsets for `name` (startingOffsets …). Raises BadOption."""
        match position:
            case Everywhere(offset):
                return await self._at(offset)
            case EachOffset(offsets):
                self._require_each(offsets, name)
                found = {one: offset for one, offset in offsets.items() if offset >= 0}
                for place in (EARLIEST, LATEST):
                    found |= await self._asked({one: place for one, offset in offsets.items() if offset == place})
                return found
            case AtTimestamp(everywhere_ms, each_ms):
                if everywhere_ms is None:
                    self._require_each(each_ms, name)
                found = await self._asked({one: position.of(one) for one in self.partitions})
                missing = {one: LATEST for one, offset in found.items() if offset < 0}
                if missing and not is_latest_without_match:
                    topic, partition = min(missing)
                    raise BadOption(
                        f"{name}: {topic}-{partition} has no record at or past {position.of((topic, partition))};"
                        " with startingOffsetsByTimestampStrategy=latest it is read from its end"
                    )
                return found | await self._asked(missing)

    def _require_each(self, given: Mapping[Partition, int], name: str) -> None:
        """Like KafkaOffsetReader, requires offsets for exactly the subscribed partitions."""
        here = set(self.partitions)
        for what, wrong in (
            ("does not name", here - given.keys()),
            ("names, without a subscription to it,", given.keys() - here),
        ):
            if wrong:
                raise BadOption(f"{name} {what} {', '.join(f'{t}-{p}' for t, p in sorted(wrong))}")

    async def _at(self, place: int) -> dict[Partition, int]:
        return await self._asked(dict.fromkeys(self.partitions, place))

    async def _asked(self, timestamps: Mapping[Partition, int]) -> dict[Partition, int]:
        return await self._cluster.offsets(timestamps, is_committed=self._options.is_committed)

    # --- plans

    async def batch(self) -> tuple[list[RangeToRead], Access]:
        """Plan a whole batch read. Raises BadOption, DataLoss, StoreUnreadable, PlanFailed, ClusterAway."""
        options = self._options
        earliest, latest = await self.earliest(), await self.latest()
        starting = await self.resolve(
            options.starting, "startingOffsets", is_latest_without_match=options.is_latest_without_match
        )
        ending = await self.resolve(options.ending, "endingOffsets", is_latest_without_match=True)
        ranges: dict[Partition, tuple[int, int]] = {}
        for one in self.partitions:
            start, end = starting[one], ending[one]
            # The log may have grown since its end was read; only offsets given by the user can be wrong.
            start = start if _is_given(options.starting, one) else min(start, latest[one])
            end = end if _is_given(options.ending, one) else min(end, latest[one])
            ranges[one] = self._within(one, start, end, earliest[one], latest[one])
        return await self.plan(ranges)

    async def stream_ranges(self, seen: StreamOffset, end: StreamOffset) -> dict[Partition, tuple[int, int]]:
        """The ranges of a stream's batch. Raises DataLoss."""
        begins = starts(seen, end)
        earliest = await self.earliest()
        ranges: dict[Partition, tuple[int, int]] = {}
        for one, last in end.offsets.items():
            topic, partition = one
            begin = begins[one]
            if begin >= last:
                continue
            is_here = one in earliest and str(self.topic_ids[topic]) == end.topic_ids.get(topic)
            if not is_here:
                require_no_loss(
                    f"{topic}-{partition}: offsets {begin} to {last - 1} are gone, the topic was deleted",
                    self._options.fail_on_data_loss,
                )
                continue
            ranges[one] = self._within(one, begin, last, earliest[one], last)
        return ranges

    def _within(self, one: Partition, start: int, end: int, earliest: int, latest: int) -> tuple[int, int]:
        """The part of a range that the log has. Raises DataLoss unless it has all of it."""
        name, rule = f"{one[0]}-{one[1]}", self._options.fail_on_data_loss
        if start < min(earliest, end):
            require_no_loss(f"{name} was to be read from offset {start}, and begins at {earliest}", rule)
        if max(start, end) > latest:
            require_no_loss(f"{name} was to be read up to offset {max(start, end)}, and ends at {latest}", rule)
        return max(start, earliest), min(end, latest)

    async def plan(self, ranges: Mapping[Partition, tuple[int, int]]) -> tuple[list[RangeToRead], Access]:
        """The tasks' parts, and how they access them. Raises StoreUnreadable, PlanFailed."""
        options = self._options
        root = await self._root()

        async def planned_for(bytes_per_partition: int) -> list[RangeToRead]:
            """`bytes_per_partition`: only of segments larger than about this the indexes are read."""
            snapshots = await self._snapshots(root, ranges, bytes_per_partition)
            return plan(
                [(snapshots[one], start, end) for one, (start, end) in ranges.items()],
                bytes_per_partition=options.bytes_per_partition,
                records_per_partition=options.records_per_partition,
                min_partitions=options.min_partitions,
            )

        planned = await planned_for(options.bytes_per_partition)
        size_bytes = sum(piece.size_bytes for one in planned for piece in one.pieces)
        if (smaller_bytes := size_bytes // options.min_partitions) < options.bytes_per_partition:
            planned = await planned_for(smaller_bytes)
        access = Access(
            servers=tuple(dict.fromkeys((*self._cluster.proxies, *options.bootstrap))),
            root=root,
            hdfs_user=options.hdfs_user,
            client_id=options.client_id,
            is_committed=options.is_committed,
            fail_on_data_loss=options.fail_on_data_loss,
            request_timeout_s=options.request_timeout_s,
            poll_timeout_s=options.poll_timeout_s,
            hdfs_token=await token_for_executors(root, Random(), hdfs_user=options.hdfs_user),
        )
        return planned, access

    async def within_bytes(self, seen: StreamOffset, end: StreamOffset, size_bytes: int) -> StreamOffset:
        """An end about `size_bytes` further on, in proportion to each partition's bytes, exact to an index entry."""
        ranges = {one: (begin, end.offsets[one]) for one, begin in starts(seen, end).items()}
        root = await self._root()
        snapshots = await self._snapshots(root, ranges, self._options.bytes_per_partition)
        pieces = {one: cover(snapshots[one], *ranges[one]) for one in ranges}
        # One byte for an unknown size, so that the partition is not left out for ever.
        sizes = {one: max(1, sum(piece.size_bytes for piece in pieces[one])) for one, (b, e) in ranges.items() if b < e}
        shares = share(size_bytes, sizes)

        def reached(one: Partition) -> int:
            begin, last = ranges[one]
            return min(last, max(begin + 1, offset_after(snapshots[one], pieces[one], shares[one])))

        offsets = {one: reached(one) for one, size in shares.items() if size < sizes[one]}
        # A segment that no task has to cut has no index here: then its end was reached, however far it is.
        reaches = {one: (ranges[one][0], offset) for one, offset in offsets.items()}
        far = {
            one: whole
            for one, whole in reaches.items()
            if sum(piece.size_bytes for piece in cover(snapshots[one], *whole)) > shares[one] + ENTRY_BYTES_MIN
        }
        snapshots |= await self._snapshots(root, far, 2 * ENTRY_BYTES_MIN) if far else {}
        pieces |= {one: cover(snapshots[one], *whole) for one, whole in far.items()}
        offsets |= {one: reached(one) for one in far}
        return StreamOffset({**end.offsets, **offsets}, end.begin, end.topic_ids)

    async def cluster(self) -> Cluster:
        """The cluster's present state."""
        earliest, latest = await self.earliest(), await self.latest()
        return Cluster(earliest, latest, {topic: str(topic_id) for topic, topic_id in self.topic_ids.items()})

    async def _root(self) -> str:
        """Empty: do not read the store."""
        root = self._options.root
        if root.lower() == ROOT_NONE:
            return ""
        return root or await self._cluster.root()

    async def _snapshots(
        self, root: str, ranges: Mapping[Partition, tuple[int, int]], bytes_per_partition: int
    ) -> dict[Partition, PartitionSnapshot]:
        if not root:
            return {one: PartitionSnapshot(one[0], str(self.topic_ids[one[0]]), one[1]) for one in ranges}
        store = open_store(root, Random(), hdfs_user=self._options.hdfs_user)
        try:
            await require_cluster(store, root, self._cluster.cluster_id)
            turns = asyncio.Semaphore(LOOKS_MAX)

            async def look(one: Partition, start: int, end: int) -> PartitionSnapshot:
                async with turns:
                    return await self._snapshot(store, one, start, end, bytes_per_partition)

            found = await asyncio.gather(*(look(one, *ends) for one, ends in ranges.items()))
            return dict(zip(ranges, found, strict=True))
        finally:
            await store.close()

    async def _snapshot(
        self, store: SegmentStore, one: Partition, start: int, end: int, bytes_per_partition: int
    ) -> PartitionSnapshot:
        topic, partition = one
        try:
            return await snapshot_partition(
                store,
                topic,
                self.topic_ids[topic],
                partition,
                start=start,
                end=end,
                is_committed=self._options.is_committed,
                bytes_per_partition=bytes_per_partition,
            )
        except (StoreError, CorruptParts) as error:
            raise PlanFailed(f"{topic}-{partition} cannot be planned from its files: {error}") from error


def _is_given(position: Position, one: Partition) -> bool:
    """Whether the user wrote the partition's offset as a number."""
    return isinstance(position, EachOffset) and position.offsets[one] >= 0
