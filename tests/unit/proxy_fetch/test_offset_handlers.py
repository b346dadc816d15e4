"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords in every version, from bytes to bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.config import LogConfig
from bmq.log.partition_log import TopicPartition
from bmq.log.store import StorageUnavailable
from bmq.metadata.image import OFFSETS_TOPIC_NAME
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from bmq.proxy.handlers.list_offsets import epoch_at
from bmq.proxy.handlers.offset_for_leader_epoch import START_WAIT_MAX_S
from tests.fakes.partition_log import FakePartitionLog
from tests.simulation.loop import VirtualTimeLoop
from tests.unit.proxy_fetch.cluster import LEADER_EPOCH, OTHER_ID, TOPIC_ID, FetchCluster, image_of, topic

pytestmark = pytest.mark.unit

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def versions(api_key: ApiKey) -> range:
    return range(APIS[api_key].version_min, APIS[api_key].version_max + 1)


@pytest.fixture
async def cluster() -> AsyncIterator[FetchCluster]:
    made = FetchCluster(2)
    for timestamp_ms in (1000, 3000, 2000, 4000):
        made.produce(0, timestamp_ms=timestamp_ms)
    yield made
    await made.fetcher.close()


async def listed(
    cluster: FetchCluster,
    timestamps: Sequence[tuple[int, int]],
    version: int = 11,
    *,
    name: str = "t",
    epoch: int = -1,
    isolation_level: int = 0,
) -> list[Any]:
    """The answers for (partition, timestamp) pairs."""
    wanted = [ListOffsetsPartition(partition_index=p, timestamp=ts, current_leader_epoch=epoch) for p, ts in timestamps]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=name, partitions=wanted)]
    )
    response = await cluster.ask(ApiKey.LIST_OFFSETS, version, request)
    assert response.topics[0].name == name
    return list(response.topics[0].partitions)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
async def test_first_and_last_offsets(cluster: FetchCluster, version: int) -> None:
    await cluster.log(0).delete_records(1)
    first, empty = await listed(cluster, [(0, EARLIEST), (1, EARLIEST)], version)
    assert (first.error_code, first.offset, first.timestamp) == (0, 1, -1)
    assert (empty.error_code, empty.offset) == (0, 0)
    last, empty = await listed(cluster, [(0, LATEST), (1, LATEST)], version)
    assert (last.error_code, last.offset, last.timestamp) == (0, 4, -1)
    assert (empty.error_code, empty.offset) == (0, 0)
    assert {one.leader_epoch for one in (first, last, empty)} == {LEADER_EPOCH if version >= 4 else -1}


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
async def test_special_timestamps_belong_to_versions(cluster: FetchCluster, version: int) -> None:
    expected = {-3: (7, 3, 4000), -4: (8, 0, -1), -5: (9, -1, -1), -6: (11, -1, -1), -7: (99, -1, -1)}
    for timestamp, (since, offset, found_ms) in expected.items():
        (one,) = await listed(cluster, [(0, timestamp)], version)
        if version < since:
            assert (one.error_code, one.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        else:
            assert (one.error_code, one.offset, one.timestamp) == (0, offset, found_ms)


async def test_timestamps(cluster: FetchCluster) -> None:
    for timestamp, expected in {0: (0, 1000), 1001: (1, 3000), 3001: (3, 4000), 4001: (-1, -1)}.items():
        (one,) = await listed(cluster, [(0, timestamp)])
        assert (one.error_code, one.offset, one.timestamp) == (0, *expected)
        assert one.leader_epoch == (LEADER_EPOCH if one.offset >= 0 else -1)


async def test_read_committed_sees_nothing_past_the_last_stable_offset(cluster: FetchCluster) -> None:
    cluster.log(0).last_stable_offset_bound = 3
    pairs = [(0, timestamp) for timestamp in (LATEST,)]
    assert [one.offset for one in await listed(cluster, pairs, isolation_level=1)] == [3]
    assert [one.offset for one in await listed(cluster, pairs, isolation_level=0)] == [4]
    for timestamp in (3500, MAX_TIMESTAMP):
        assert [one.offset for one in await listed(cluster, [(0, timestamp)], isolation_level=1)] == [-1]


@pytest.mark.parametrize("version", range(2, 12))
async def test_an_unknown_isolation_level_is_kafkas_unknown_error_of_each_partition(
    cluster: FetchCluster, version: int
) -> None:
    found = await listed(cluster, [(0, LATEST), (7, LATEST), (0, EARLIEST)], version, isolation_level=9)
    assert [one.partition_index for one in found] == [0, 7, 0]
    assert {(one.error_code, one.offset, one.timestamp) for one in found} == {(ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)}


async def test_the_last_offset_is_told_by_the_owner_alone(cluster: FetchCluster) -> None:
    cluster.log(0).is_owner = False
    last, first = await listed(cluster, [(0, LATEST), (1, EARLIEST)])
    assert (last.error_code, last.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert first.error_code == 0


async def test_errors_of_list_offsets_stay_with_their_partition(cluster: FetchCluster) -> None:
    twice = await listed(cluster, [(0, LATEST), (0, EARLIEST), (1, LATEST), (7, LATEST), (-1, LATEST)])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error_code for one in twice] == [ErrorCode.INVALID_REQUEST, 0, unknown, unknown]
    assert [one.error_code for one in await listed(cluster, [(0, LATEST)], name="nope")] == [unknown]
    for epoch, code in {LEADER_EPOCH - 1: ErrorCode.FENCED_LEADER_EPOCH, 9: ErrorCode.UNKNOWN_LEADER_EPOCH}.items():
        assert [one.error_code for one in await listed(cluster, [(0, LATEST)], epoch=epoch)] == [code]
    assert cluster.services.stats.errors[ApiKey.LIST_OFFSETS, unknown] == 3


async def test_an_idle_partition_is_started(cluster: FetchCluster) -> None:
    cluster.partitions.idle.add(TopicPartition(TOPIC_ID, 0))
    assert [one.offset for one in await listed(cluster, [(0, LATEST)])] == [4]


@given(
    lengths=st.dictionaries(st.integers(0, 9), st.integers(1, 4), min_size=1, max_size=5),
    last_epoch=st.integers(9, 12),
    offset=st.integers(0, 25),
)
def test_the_epoch_of_an_offset(lengths: dict[int, int], last_epoch: int, offset: int) -> None:
    """Against a log that remembers for each offset in which epoch it was written."""
    epochs = [epoch for epoch, length in sorted(lengths.items()) for _ in range(length)]

    class History(FakePartitionLog):
        def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
            if leader_epoch == last_epoch:
                return last_epoch, len(epochs)
            known = [epoch for epoch in lengths if epoch <= leader_epoch]
            if not known:
                return -1, -1
            return max(known), sum(epoch <= leader_epoch for epoch in epochs)

    log = History(TopicPartition(UUID(int=1), 0), leader_epoch=last_epoch)
    if offset < len(epochs) and epochs[offset] != last_epoch:
        assert epoch_at(log, offset) == epochs[offset]
    elif offset >= len(epochs):
        assert epoch_at(log, offset) == last_epoch


# --- OffsetForLeaderEpoch


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
async def test_where_an_epoch_ended(cluster: FetchCluster, version: int) -> None:
    async def ask(partition: int, epoch: int, current: int = -1, name: str = "t") -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])]
        )
        response = await cluster.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request)
        (one,) = response.topics[0].partitions
        assert (response.topics[0].topic, one.partition) == (name, partition)
        return one.error_code, one.leader_epoch, one.end_offset

    assert await ask(0, LEADER_EPOCH, LEADER_EPOCH) == (0, LEADER_EPOCH, 4)
    assert await ask(0, 1) == (0, -1, -1)
    assert await ask(0, 1, 1) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert await ask(0, 1, 9) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert await ask(5, 1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await ask(0, 1, name="nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_partitions_that_start_hold_nobody_up() -> None:
    """The fetches of a consumer wait behind its OffsetForLeaderEpoch: answers of a connection leave in order."""

    async def main() -> None:
        cluster = FetchCluster(200)
        partitions, asked = cluster.partitions, list[int]()

        async def never(topic_partition: TopicPartition) -> Any:
            asked.append(topic_partition.partition)
            await asyncio.Event().wait()

        partitions.leader_of = never  # type: ignore[method-assign]
        partitions.idle.update(key for key in partitions.logs if key.partition)
        wanted = [OffsetForLeaderPartition(partition=number, leader_epoch=LEADER_EPOCH) for number in range(200)]
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=wanted)]
        )
        began_s = asyncio.get_running_loop().time()
        response = await cluster.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(START_WAIT_MAX_S)
        codes = [one.error_code for one in response.topics[0].partitions]
        assert codes == [ErrorCode.NONE, *[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 199]
        assert asked == list(range(1, 200)), "each is started all the same"
        await cluster.fetcher.close()

    loop = VirtualTimeLoop(time_limit_s=60.0)
    try:
        loop.run_until_complete(main())
        assert not loop.failures
    finally:
        loop.discard()


# --- DeleteRecords


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
async def test_records_are_deleted(cluster: FetchCluster, version: int) -> None:
    async def ask(partition: int, offset: int, name: str = "t") -> tuple[int, int]:
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=1000)
        response = await cluster.ask(ApiKey.DELETE_RECORDS, version, request)
        (one,) = response.topics[0].partitions
        assert (response.topics[0].name, one.partition_index) == (name, partition)
        return one.error_code, one.low_watermark

    assert await ask(0, 2) == (0, 2)
    assert await ask(0, 1) == (0, 2)
    assert await ask(0, 5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await ask(0, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    cluster.log(0).is_owner = False
    assert await ask(0, 5) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert await ask(0, -1) == (0, 4)
    assert await ask(9, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await ask(0, 0, "nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    compacted = topic("t", TOPIC_ID, 2, LogConfig(cleanup_policy=frozenset({"compact"})))
    internal = replace(topic(OFFSETS_TOPIC_NAME, OTHER_ID, 1), is_internal=True)
    cluster.controller.image = image_of(compacted, internal)
    assert await ask(0, -1) == (ErrorCode.POLICY_VIOLATION, -1)
    assert await ask(0, 0, OFFSETS_TOPIC_NAME) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


async def test_partitions_that_nobody_ever_wrote_to_are_answered_without_a_start(cluster: FetchCluster) -> None:
    key = TopicPartition(TOPIC_ID, 1)
    cluster.partitions.idle.add(key)
    cluster.partitions.unwritten[key] = LEADER_EPOCH
    wanted = {LATEST: 0, EARLIEST: 0, -4: 0, -5: -1, -6: -1, MAX_TIMESTAMP: -1, 1_000: -1}
    for timestamp, offset in wanted.items():
        (one,) = await listed(cluster, [(1, timestamp)])
        epoch = LEADER_EPOCH if offset == 0 else -1
        assert (one.error_code, one.offset, one.timestamp, one.leader_epoch) == (0, offset, -1, epoch)
    assert cluster.partitions.idle == {key}
    (fenced,) = await listed(cluster, [(1, LATEST)], epoch=LEADER_EPOCH - 1)
    (unknown,) = await listed(cluster, [(1, LATEST)], epoch=LEADER_EPOCH + 1)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert cluster.partitions.idle == {key}


@pytest.mark.parametrize("is_store_away", [False, True])
async def test_a_look_that_is_not_proven_tells_nothing(
    cluster: FetchCluster, monkeypatch: pytest.MonkeyPatch, is_store_away: bool
) -> None:
    key = TopicPartition(TOPIC_ID, 1)
    cluster.partitions.idle.add(key)
    cluster.partitions.unwritten[key] = LEADER_EPOCH

    async def prove_looks() -> bool:
        if is_store_away:
            raise StorageUnavailable("away")
        return False

    monkeypatch.setattr(cluster.partitions, "prove_looks", prove_looks)
    (one,) = await listed(cluster, [(1, LATEST)])
    assert (one.error_code, one.offset) == (0, 0)
    assert not cluster.partitions.idle, "it was started"
