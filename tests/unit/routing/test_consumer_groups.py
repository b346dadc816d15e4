"""Consumer groups of the new protocol behind any proxy: carried to their coordinators, repeated only where that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.request_context import Received
from tests.unit.routing.group_cluster import GroupClient, GroupCluster, asking, virtual
from tests.unit.routing.test_groups import lose_the_answer_after

pytestmark = pytest.mark.unit

Story = Callable[[GroupCluster, GroupClient], Awaitable[None]]


def told(story: Story) -> None:
    async def main() -> None:
        cluster = GroupCluster()
        await story(cluster, GroupClient(cluster.nodes[1].groups))
        await cluster.close()

    virtual(main)


async def beat(client: GroupClient, group_id: str, member_id: str, epoch: int, **fields: Any) -> Any:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": (), **fields}
    request = ConsumerGroupHeartbeatRequest(
        **{"group_id": group_id, "member_id": member_id, "member_epoch": epoch, "topic_partitions": None, **fields}
    )
    return await client.groups.handle(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, asking(1))


def test_a_group_is_the_same_at_every_proxy() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        answer = await beat(client, group_id, "A", 0)
        assert (answer.error_code, answer.member_epoch, len(answer.assignment.topic_partitions)) == (0, 2, 1)
        for node in cluster.nodes.values():
            other = GroupClient(node.groups)
            assert (await beat(other, group_id, "A", 2)).error_code == 0
            assert (await beat(other, group_id, "B", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    told(story)


@pytest.mark.parametrize("owner", [1, 2])
def test_a_refusal_that_quotes_the_longest_name_comes_through(owner: int) -> None:
    """With the name whole in it, the message would be longer than a string of the protocol: no proxy could parse it."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        longest = "\u20ac" * 10_922
        answer = await beat(client, cluster.group_at(owner), "A", 0, server_assignor=longest)
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert answer.error_message.startswith("ServerAssignor \u20ac")
        answer = await beat(client, cluster.group_at(owner), longest, 7)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        names = (f"{number:02}{longest[:-1]}" for number in range(99))
        absent = next(name for name in names if cluster.owner_of(name) == owner)
        described = ConsumerGroupDescribeRequest(group_ids=[absent])
        answer = await client.groups.handle(ApiKey.CONSUMER_GROUP_DESCRIBE, described, asking(1))
        assert [group.error_code for group in answer.groups] == [ErrorCode.GROUP_ID_NOT_FOUND]
        classic = DescribeGroupsRequest(groups=[absent])
        answer = await client.groups.handle(ApiKey.DESCRIBE_GROUPS, classic, asking(6))
        assert [group.error_code for group in answer.groups] == [ErrorCode.GROUP_ID_NOT_FOUND]

    told(story)


@pytest.mark.parametrize(("owner", "age_s", "is_known"), [(1, 0, True), (1, 11, False), (2, 0, False)])
def test_a_repeated_heartbeat_is_answered_where_its_coordinator_is(owner: int, age_s: float, is_known: bool) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(owner)
        await beat(client, group_id, "A", 0)
        cluster.clock.advance(60_000)  # it is settled
        request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="A", member_epoch=2, topic_partitions=None)
        frame = bytearray(encode_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 7, "client", request))
        context = replace(asking(1), received=Received(frame, request))
        answer = await client.groups.handle(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, context)
        received_s = asyncio.get_running_loop().time() - age_s
        body = client.groups.repeated_heartbeat(frame, parse_request_header(frame), context, received_s)
        assert (body is not None) == is_known
        assert body is None or decode("response", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body) == answer

    told(story)


def test_groups_of_many_owners_are_described_in_order() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        names = [cluster.group_at(3), "none", cluster.group_at(1), cluster.group_at(2)]
        for group_id in (names[0], names[2]):
            await beat(client, group_id, "A", 0)
        await client.stable(names[3])
        answer = await client.groups.handle(
            ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(group_ids=names), asking(1)
        )
        assert [group.group_id for group in answer.groups] == names
        assert [group.error_code for group in answer.groups] == [0, 69, 0, 69]
        assert [member.client_host for member in answer.groups[0].members] == ["/192.0.2.7"]
        cluster.kill(3)
        answer = await client.groups.handle(
            ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(group_ids=names), asking(1)
        )
        codes = {group.group_id: group.error_code for group in answer.groups}
        assert codes[names[0]] == ErrorCode.COORDINATOR_NOT_AVAILABLE and codes[names[2]] == 0

    told(story)


@pytest.mark.parametrize(
    ("epoch", "fields", "code"),
    [
        (0, {}, 0),  # known by now, and it owns nothing
        (-1, {}, 0),  # gone by now
        (2, {}, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (0, {"instance_id": "i"}, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_is_sent_again_when_an_answer_was_lost(epoch: int, fields: dict[str, Any], code: int) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        if epoch:
            assert (await beat(client, group_id, "A", 0)).error_code == 0
        cluster.links.lose_answers(1)
        answer = await beat(client, group_id, "A", epoch, **fields)
        assert answer.error_code == code
        if epoch < 0:
            assert (answer.member_id, answer.member_epoch) == ("A", -1)

    told(story)


def test_a_heartbeat_that_its_coordinator_wrote_and_could_not_answer_is_not_sent_again() -> None:
    """Its member would be told that it is fenced, for the epoch that it has not heard of."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        await beat(client, group_id, "A", 0)
        log = cluster.logs[cluster.shard(group_id)]
        log.is_acknowledging = False
        cluster.clock.advance(5_000)  # a new assignment is due
        changed = {"subscribed_topic_names": ["t", "u"], "rebalance_timeout_ms": 60_000}
        asked = asyncio.create_task(beat(client, group_id, "A", 2, **changed))
        await asyncio.sleep(0.1)
        cluster.move(cluster.shard(group_id), 3)
        log.acknowledge()
        log.is_acknowledging = True
        assert (await asked).error_code == ErrorCode.NOT_COORDINATOR
        answer = await beat(client, group_id, "A", 2, topic_partitions=(), **changed)
        assert (answer.error_code, answer.member_epoch) == (0, 3)

    told(story)


def test_a_failover_is_a_short_wait_and_no_rebalance() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        await beat(client, group_id, "A", 0)
        cluster.kill(2)
        cluster.bury(2, 3)
        answer = await beat(client, group_id, "A", 2)
        assert (answer.error_code, answer.member_epoch) == (0, 2)

    told(story)


def test_a_deletion_whose_answer_was_lost_does_not_take_a_living_group_for_gone() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        other = GroupClient(cluster.nodes[3].groups)
        await beat(client, group_id, "A", 0)
        await beat(client, group_id, "A", -1)
        lose_the_answer_after(cluster, lambda: beat(other, group_id, "B", 0))
        deleted = await client.groups.handle(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group_id]), asking(2)
        )
        assert deleted.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await beat(client, group_id, "B", 2)).error_code == 0
        await beat(client, group_id, "B", -1)
        cluster.links.lose_answers(1)
        deleted = await client.groups.handle(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group_id]), asking(2)
        )
        assert deleted.results[0].error_code == 0

    told(story)
