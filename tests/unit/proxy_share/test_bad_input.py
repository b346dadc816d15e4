"""Requests of share groups that are wrong, too large, too old, or for something else.

| case | test |
|---|---|
| acknowledgements from another node's session, and after a rejoin | here |
| acknowledgements for a topic that was made again | here |
| a quarter of a million acknowledgement types, and a million | here |
| a session that does not fit in place of the member's earlier one | here |
| MaxRecords negative, BatchSize 0 or negative | here |
| 10,000 partitions in one session, 100,000 sessions | here |
| member id of 37 characters | test_share_fetch (78, 79), coordinator/share_membership/test_bad_share_groups (76) |
| acknowledgements unsorted, overlapping, without a type; a renewal without the flag | test_acknowledgements |
| AcknowledgementBatches null | conformance/cases/frames: null in each field that cannot be null |
| by_duration:PT-1S | controller/test_config_requests, test_group_terms |
| limits lowered while records are out | coordinator/share_state/test_lowered_limits |
| a damaged snapshot of a shard | coordinator/share_state/test_shard, coordinator/test_damaged_snapshot |
| a group of another type with the name | coordinator/share_membership/test_share_api, coordinator/share_membership/test_bad_share_groups |
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, TooManyElements
from bmq.protocol.share_state_messages import RECORD_LIMIT
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.requests import ShareRequests
from bmq.proxy.share.sessions import SESSION_PARTITIONS_MAX, SESSIONS_MAX, ShareSessionCache
from tests.unit.proxy_fetch.cluster import TOPIC_ID
from tests.unit.proxy_share.share_client import Member, ShareCluster, acquired_of, partitions_of, turns

pytestmark = pytest.mark.unit


class OtherNode:
    """A second proxy over the same shards and logs."""

    def __init__(self, cluster: ShareCluster) -> None:
        self.services = cluster.services
        self.states = cluster.states
        self.fetch_cluster = cluster.fetch_cluster
        self.consumers = ShareConsumers(cluster.fetch_cluster.fetcher.shared, cluster.states)
        self.requests = ShareRequests(self.consumers)


async def refused(work: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await work
    return raised.value.code


async def test_acknowledgements_count_wherever_the_member_has_a_session(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=4)
    here = Member(cluster)
    assert acquired_of(await here.fetch()) == [(0, 3, 1)]
    other: Any = OtherNode(cluster)
    there = Member(other)
    assert await refused(there.acknowledge({0: [(0, 0, [1])]}, epoch=1)) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await refused(there.acknowledge({0: [(0, 0, [1])]}, epoch=0)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    there.epoch = 0
    assert acquired_of(await there.fetch()) == []
    assert partitions_of(await there.acknowledge({0: [(0, 1, [1])]}))[0].error_code == 0
    there.lose()  # it has acquired nothing there
    await asyncio.sleep(0)
    assert cluster.states.of("g", TOPIC_ID, 0).locked == [2, 3]
    assert partitions_of(await here.acknowledge({0: [(2, 3, [1])]}))[0].error_code == 0
    await other.consumers.close()


async def test_acknowledgements_count_after_a_rejoin_and_not_for_another_member(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=4)
    member = Member(cluster)
    await member.fetch()
    assert acquired_of(await member.fetch(epoch=0)) == [], "the locks of the earlier session run on"
    assert partitions_of(await member.acknowledge({0: [(0, 1, [1])]}))[0].error_code == 0
    stranger = Member(cluster, "stranger")
    await stranger.fetch()
    assert partitions_of(await stranger.acknowledge({0: [(2, 3, [1])]}))[0].error_code == ErrorCode.INVALID_RECORD_STATE
    assert await refused(member.acknowledge({0: [(2, 3, [1])]}, epoch=1)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_acknowledgements_for_a_topic_that_was_made_again(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster)
    await member.fetch()
    controller: Any = cluster.services.controller
    before = controller.image
    again = replace(before.topics["t"], topic_id=UUID(int=0xABCD))
    controller.image = replace(before, topics={"t": again}, topics_by_id={again.topic_id: again})
    found = partitions_of(await member.acknowledge({0: [(0, 1, [1])]}))
    assert found[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert partitions_of(await member.fetch([]))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("last", "code"), [(248_999, ErrorCode.INVALID_REQUEST), (1, ErrorCode.INVALID_REQUEST)])
async def test_a_quarter_of_a_million_acknowledgement_types(cluster: ShareCluster, last: int, code: ErrorCode) -> None:
    cluster.fetch_cluster.produce(0, count=2)
    member = Member(cluster)
    await member.fetch()
    found = partitions_of(await member.acknowledge({0: [(0, last, [1] * 249_000)]}))
    assert found[0].error_code == code
    assert cluster.states.of("g", TOPIC_ID, 0).locked == [0, 1]


async def test_a_million_acknowledgement_types_are_not_even_read(cluster: ShareCluster) -> None:
    """The connection is closed, as for any request with so many elements."""
    with pytest.raises(TooManyElements, match="acknowledge_types claims 1000000 elements"):
        await Member(cluster).acknowledge({0: [(0, 999_999, [1] * 1_000_000)]})


async def test_a_session_that_does_not_fit_leaves_the_earlier_one_of_its_member(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0, count=2)
    cluster.consumers.sessions.partitions_max = 1
    member = Member(cluster)
    assert acquired_of(await member.fetch()) == [(0, 1, 1)]
    assert await refused(member.fetch([0, 1], epoch=0)) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert partitions_of(await member.acknowledge({0: [(0, 0, [1])]}, epoch=1))[0].error_code == 0
    member.lose()
    while cluster.states.of("g", TOPIC_ID, 0).locked:
        await turns()


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({"max_records": -1}, []),
        ({"max_records": -(2**31)}, []),
        ({"max_bytes": -1}, []),
        ({"batch_size": 0}, [(0, 2, 1)]),
        ({"batch_size": -(2**31)}, [(0, 2, 1)]),
        ({"batch_size": 0, "max_records": 2, "share_acquire_mode": RECORD_LIMIT}, [(0, 1, 1)]),
        ({"min_bytes": -1, "max_wait_ms": -1}, [(0, 2, 1)]),
    ],
)
async def test_limits_that_are_zero_or_negative(
    cluster: ShareCluster, fields: dict[str, int], given: list[tuple[int, int, int]]
) -> None:
    cluster.fetch_cluster.produce(0, count=3)
    response = await Member(cluster).fetch(**fields)  # type: ignore[arg-type]
    assert (response.error_code, acquired_of(response)) == (0, given)


async def test_ten_thousand_partitions_in_one_session(cluster: ShareCluster) -> None:
    cluster.fetch_cluster.produce(0)
    member = Member(cluster)
    found = partitions_of(await member.fetch(range(10_000)))
    assert len(found) == 10_000 and [one.error_code for one in found.values()][2:] == [3] * 9_998
    assert cluster.consumers.sessions.partition_count == 10_000
    assert await refused(Member(cluster, "b").fetch(range(SESSION_PARTITIONS_MAX + 1))) == ErrorCode.INVALID_REQUEST
    more = range(10_000, SESSION_PARTITIONS_MAX + 1)
    assert await refused(member.fetch(more)) == ErrorCode.INVALID_REQUEST
    assert cluster.consumers.sessions.partition_count == 10_000, "what is refused is not remembered"


def test_of_a_hundred_thousand_sessions_those_that_fit_are_kept() -> None:
    cache = ShareSessionCache()
    named = [TopicPartition(TOPIC_ID, 0)]
    codes = [
        cache.fetch(("g", str(number)), 0, named, (), has_acknowledgements=False, connection=number).error_code
        for number in range(100_000)
    ]
    assert codes[:SESSIONS_MAX] == [ErrorCode.NONE] * SESSIONS_MAX
    assert set(codes[SESSIONS_MAX:]) == {ErrorCode.SHARE_SESSION_LIMIT_REACHED}
    assert (len(cache), cache.partition_count) == (SESSIONS_MAX, SESSIONS_MAX)
    assert not any(cache.has_connection(number) for number in range(SESSIONS_MAX, 100_000))
    for number in range(SESSIONS_MAX):
        cache.lost(number)
    assert (len(cache), cache.partition_count) == (0, 0)
