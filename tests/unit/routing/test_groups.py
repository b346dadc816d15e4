"""Groups behind any proxy of a cluster: forwarded to their coordinators, waited for while these move, merged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.internode_client.link import LinkLost
from bmq.log.transactions import TransactionMarker
from bmq.metadata.image import NO_LEADER, OFFSETS_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from bmq.routing.groups import RoutedGroupsConfig
from tests.unit.routing.group_cluster import SHARDS, GroupClient, GroupCluster, asking, virtual

pytestmark = pytest.mark.unit

Story = Callable[[GroupCluster, GroupClient], Awaitable[None]]


def told(story: Story, **options: object) -> None:
    """Run a story on virtual time, with a client of proxy 1."""

    async def main() -> None:
        cluster = GroupCluster(**options)  # type: ignore[arg-type]
        await story(cluster, GroupClient(cluster.nodes[1].groups))
        await cluster.close()

    virtual(main)


def now_s() -> float:
    return asyncio.get_running_loop().time()


# --- the way there


@pytest.mark.parametrize("owner", [1, 2])
def test_a_group_is_the_same_at_every_proxy(owner: int) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(owner)
        member_id = await client.stable(group_id)
        assert await client.commit(group_id, 42, member_id, 1) == 0
        for node in cluster.nodes.values():
            other = GroupClient(node.groups)
            assert await other.beat(group_id, member_id) == 0
            assert await other.beat(group_id, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
            assert await other.fetch(group_id) == [(0, 42)]
        assert [n for n, node in cluster.nodes.items() if node.coordinator.directory.find(group_id)] == [owner]

    told(story)


def test_a_forwarded_member_keeps_its_host() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        await client.stable(group_id)
        answer = await client.groups.handle(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group_id]), asking(5))
        (member,) = answer.groups[0].members
        assert (member.client_id, member.client_host) == ("client", "/192.0.2.7")

    told(story)


def test_a_rebalance_lasts_as_long_as_it_takes() -> None:
    """A JoinGroup at another node waits for members, minutes if need be, not for a time limit of the way there."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        second = asyncio.create_task(client.join(group_id))
        await asyncio.sleep(25)
        assert not second.done()
        first = await client.join(group_id, member_id)
        assert (first.error_code, (await second).error_code, first.generation_id) == (0, 0, 2)

    told(story)


def test_who_waits_for_members_holds_nobody_else_up() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id, small = cluster.group_at(2), cluster.group_at(2, 1)
        member_id = await client.stable(group_id)
        small_id = await client.stable(small)
        waiting = [asyncio.create_task(client.join(group_id)) for _ in range(3)]
        await asyncio.sleep(1)
        cluster.links.purposes.clear()
        assert await client.beat(small, small_id) == 0 and cluster.links.purposes == [""]
        assert (await client.join(small)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "three are the most"
        begun = asyncio.create_task(client.join(group_id, member_id))
        await asyncio.sleep(1)
        assert not begun.done(), "it is refused for now, and tried again"
        waiting[0].cancel()
        assert (await begun).error_code == 0
        assert [(await task).error_code for task in waiting[1:]] == [0, 0]
        assert not +client.groups._waiting

    told(story, config=RoutedGroupsConfig(members_waiting_max=3))


def test_clients_are_sent_to_the_owner_when_it_has_a_proxy() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        for owner in (1, 2, 3):
            group_id = cluster.group_at(owner)
            for node in cluster.nodes.values():
                found = await node.groups.prepare(group_id)
                assert found is not None and (found.node_id, found.host) == (owner, f"host-{owner}")
            assert cluster.nodes[owner].coordinator.directory.find(group_id) is not None

    told(story)


def test_clients_are_sent_to_one_stand_in_when_the_owner_has_none() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        found = {}
        for number in range(40):
            nodes = [await cluster.nodes[n].groups.prepare(f"group-{number}") for n in (1, 2, 3)]
            assert nodes[0] is not None and nodes[0] == nodes[1] == nodes[2]
            found[cluster.shard(f"group-{number}")] = nodes[0].node_id
        assert set(found.values()) <= {1, 2, 3} and len(found) == SHARDS
        assert await client.commit("group-0", 7) == 0
        assert await GroupClient(cluster.nodes[3].groups).fetch("group-0") == [(0, 7)]

    told(story, brokers=(11, 12))


def test_finding_the_coordinator_makes_the_offsets_topic() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        node = await client.groups.prepare("g")
        assert node is not None and cluster.created == [OFFSETS_TOPIC_NAME]
        assert await client.commit("g", 1) == 0

    told(story, has_topic=False)


def test_why_there_is_no_offsets_topic_is_told() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        cluster.refuse_creation = ErrorCode.INVALID_REPLICATION_FACTOR
        with pytest.raises(KafkaError) as caught:
            await client.groups.prepare("g")
        assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR

    told(story, has_topic=False)


def test_without_an_offsets_topic_nobody_is_the_coordinator() -> None:
    """As in Kafka. Another proxy may just have made it, so it is waited for a moment."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        assert await client.beat("g", "m") == ErrorCode.NOT_COORDINATOR
        assert await client.fetch("g") == [(ErrorCode.NOT_COORDINATOR, -1)]
        assert now_s() == pytest.approx(2.0, abs=0.1)
        described = await client.groups.handle(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["g"]), asking(5))
        assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        deleted = await client.groups.handle(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=["g"]), asking(2))
        assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await client.groups.handle(ApiKey.LIST_GROUPS, ListGroupsRequest(), asking(5))).groups == ()
        begun_s = now_s()
        waiting = asyncio.create_task(client.commit("g", 5))
        await asyncio.sleep(0.5)
        cluster.add_offsets_topic()
        assert await waiting == 0 and now_s() - begun_s < 0.6

    told(story, has_topic=False)


# --- while a shard moves


def test_a_failover_is_a_short_wait_and_no_rebalance() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        assert await client.commit(group_id, 42, member_id, 1) == 0
        cluster.kill(2)
        waiting = [
            asyncio.create_task(client.beat(group_id, member_id)),
            asyncio.create_task(client.commit(group_id, 43, member_id, 1)),
            asyncio.create_task(client.sync(group_id, member_id)),
        ]
        await asyncio.sleep(1.5)
        assert not any(task.done() for task in waiting)
        cluster.bury(2, heir=3)
        buried_s = now_s()
        beaten, committed, synced = [await task for task in waiting]
        assert now_s() - buried_s < 0.05, "woken by the new image, not by the end of a pause"
        assert (beaten, committed) == (0, 0)
        assert (synced.error_code, synced.assignment) == (0, b"mine"), "the generation lives on"
        assert await client.fetch(group_id) == [(0, 43)]
        await asyncio.sleep(29)
        assert await client.beat(group_id, member_id) == 0, "a fresh session since the shard was loaded"

    told(story)


def test_members_that_wait_are_taken_along() -> None:
    """The shard is handed over in the middle of a rebalance: who waits at the old owner goes on waiting at the new one."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        second = asyncio.create_task(client.join(group_id))  # a rebalance begins, and it waits for the first member
        await asyncio.sleep(1)
        cluster.move(cluster.shard(group_id), 3)
        await asyncio.sleep(1)
        first = await client.join(group_id, member_id)
        joined = await asyncio.wait_for(second, 1)
        assert (first.error_code, joined.error_code) == (0, 0)
        assert first.generation_id == joined.generation_id == 2
        assert {member.member_id for member in (first.members or joined.members)} == {member_id, joined.member_id}

    told(story)


def test_the_old_owner_of_a_moved_shard_refuses() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        old = cluster.nodes[2]
        cluster.move(cluster.shard(group_id), 3)
        assert old.coordinator.directory.find(group_id) is None
        assert await GroupClient(old.coordinator).beat(group_id, member_id) == ErrorCode.NOT_COORDINATOR  # type: ignore[arg-type]
        assert await client.beat(group_id, member_id) == 0

    told(story)


def test_a_new_epoch_of_the_same_owner_is_loaded_anew() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        cluster.move(cluster.shard(group_id), 2)
        assert await client.commit(group_id, 5, member_id, 1) == 0
        assert cluster.nodes[2].shards.opened == [cluster.shard(group_id)] * 2

    told(story)


def test_an_owner_that_was_not_given_the_shard_yet_is_asked_again() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        shard = cluster.shard(group_id)
        for owner, proxy in ((3, 1), (1, 1)):
            cluster.nodes[owner].shards.unassigned.add(shard)
            cluster.move(shard, owner)
            waiting = asyncio.create_task(GroupClient(cluster.nodes[proxy].groups).commit(group_id, owner))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            cluster.nodes[owner].shards.unassigned.clear()
            cluster.nodes[proxy].groups.changed()
            assert await waiting == 0
            assert await client.fetch(group_id) == [(0, owner)]

    told(story)


@pytest.mark.parametrize("is_hung", [False, True])
def test_patience_has_an_end_and_a_name(is_hung: bool) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        (cluster.links.hung if is_hung else cluster.links.down).add(2)
        begun_s = now_s()
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answers = await asyncio.gather(
            client.beat(group_id, member_id), client.commit(group_id, 1, member_id, 1), client.fetch(group_id)
        )
        assert answers == [unavailable, unavailable, [(ErrorCode.NOT_COORDINATOR, -1)]]
        passed_s = now_s() - begun_s
        assert passed_s <= 22 if is_hung else 5 <= passed_s < 5.5

    told(story)


def test_a_shard_without_an_owner_is_waited_for() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(1)
        cluster.move(cluster.shard(group_id), NO_LEADER)
        begun_s = now_s()
        with pytest.raises(KafkaError) as caught:
            await client.groups.prepare(group_id)
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE and 5 <= now_s() - begun_s < 5.5
        finding = asyncio.create_task(client.groups.prepare(group_id))
        await asyncio.sleep(2)
        cluster.move(cluster.shard(group_id), 2)
        found = await finding
        assert found is not None and found.node_id == 2

    told(story)


# --- what may be repeated


def test_a_lost_answer_is_asked_for_again() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        for ask in (
            lambda: client.beat(group_id, member_id),
            lambda: client.commit(group_id, 9, member_id, 1),
        ):
            cluster.links.lose_answers(2)
            assert await ask() == 0
        cluster.links.lose_answers(1)
        assert (await client.sync(group_id, member_id)).assignment == b"mine"
        cluster.links.lose_answers(1)
        assert await client.fetch(group_id) == [(0, 9)]

    told(story)


@pytest.mark.parametrize(
    ("version", "fields", "code"),
    [
        (3, {}, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (4, {}, ErrorCode.MEMBER_ID_REQUIRED),
        (5, {"group_instance_id": "static"}, ErrorCode.NONE),
    ],
)
def test_a_first_join_is_repeated_only_where_nobody_is_left_behind(
    version: int, fields: dict[str, str], code: ErrorCode
) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        cluster.links.lose_answers(1)
        joined = await client.join(group_id, version=version, **fields)
        assert joined.error_code == code
        group = cluster.nodes[2].coordinator.directory.find(group_id).groups[group_id]  # type: ignore[union-attr]
        assert len(group.members) == (0 if code is ErrorCode.MEMBER_ID_REQUIRED else 1)

    told(story)


def test_a_first_join_that_was_refused_is_repeated_in_every_version() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        cluster.nodes[2].shards.unassigned.add(cluster.shard(group_id))
        joining = asyncio.create_task(client.join(group_id, version=0))
        await asyncio.sleep(0.2)
        cluster.nodes[2].shards.unassigned.clear()
        assert (await joining).error_code == 0

    told(story)


def test_a_repeated_leave_and_a_repeated_deletion_are_done() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        for version in (2, 5):
            member_id = await client.stable(group_id)
            cluster.links.lose_answers(1)
            request = LeaveGroupRequest(
                group_id=group_id, member_id=member_id, members=[MemberIdentity(member_id=member_id)]
            )
            left = await client.groups.handle(ApiKey.LEAVE_GROUP, request, asking(version))
            assert (left.error_code, [one.error_code for one in left.members]) == (0, [0] if version > 2 else [])
            assert await client.beat(group_id, member_id) == ErrorCode.UNKNOWN_MEMBER_ID
        await client.commit(group_id, 1)
        for names, codes in (([group_id, "none"], [0, ErrorCode.GROUP_ID_NOT_FOUND]),):
            assert cluster.owner_of("none") != 2
            cluster.links.lose_answers(1)
            deleted = await client.groups.handle(
                ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=names), asking(2)
            )
            assert [(one.group_id, one.error_code) for one in deleted.results] == list(zip(names, codes, strict=True))
        assert await client.fetch(group_id) == [(0, -1)]

    told(story)


def test_a_repeated_offset_deletion_is_done() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(3)
        await client.commit(group_id, 1)
        wanted = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
        request = OffsetDeleteRequest(group_id=group_id, topics=wanted)
        cluster.links.lose_answers(1)
        answer = await client.groups.handle(ApiKey.OFFSET_DELETE, request, asking(0))
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
        again = await client.groups.handle(ApiKey.OFFSET_DELETE, request, asking(0))
        assert again.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "nothing was repeated this time"

    told(story)


def test_a_commit_that_is_repeated_never_undoes_a_later_one() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        lost: list[int] = []

        async def lose_the_first(node_id: int, api_key: ApiKey) -> None:
            if not lost:
                lost.append(node_id)
                await asyncio.sleep(0.05)
                raise LinkLost("the connection broke before it was carried out")

        cluster.links.before = lose_the_first
        assert await asyncio.gather(*(client.commit(group_id, n, member_id, 1) for n in range(10))) == [0] * 10
        assert lost and await client.fetch(group_id) == [(0, 9)]

    told(story)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_transactional_commit_is_repeated_in_its_producers_order(is_done: bool) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        lost: list[int] = []

        async def lose_the_first(node_id: int, api_key: ApiKey) -> None:
            if not lost:
                lost.append(node_id)
                await asyncio.sleep(0.05)
                raise LinkLost("the connection broke")

        setattr(cluster.links, "after" if is_done else "before", lose_the_first)
        commits = [client.commit_in_transaction(group_id, number) for number in range(10)]
        others = [client.commit_in_transaction(group_id, 0, producer_id) for producer_id in range(20, 25)]
        assert await asyncio.gather(*commits, *others) == [0] * 15
        assert lost and await client.fetch(group_id) == [(0, -1)]
        marker = TransactionMarker(7, 0, 0, is_commit=True)
        await cluster.nodes[2].coordinator.write_marker(cluster.shard(group_id), marker)
        assert await client.fetch(group_id) == [(0, 9)]
        assert not client.groups._turns

    told(story)


@pytest.mark.parametrize("version", [1, 5])
def test_a_transactional_commit_without_its_coordinator_is_refused_in_its_own_form(version: int) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        cluster.kill(2)
        told = await client.commit_in_transaction(group_id, 1, version=version)
        assert told == ErrorCode.COORDINATOR_NOT_AVAILABLE
        client.context = replace(asking(version), received_s=now_s() - 11)
        assert await client.commit_in_transaction(cluster.group_at(1), 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    told(story)


def test_commits_that_wait_for_their_turn_wait_no_longer_than_others() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        member_id = await client.stable(group_id)
        cluster.kill(2)
        begun_s = now_s()
        codes = await asyncio.gather(*(client.commit(group_id, n, member_id, 1) for n in range(20)))
        assert set(codes) == {ErrorCode.COORDINATOR_NOT_AVAILABLE} and now_s() - begun_s < 10.6
        assert not client.groups._turns

    told(story)


# --- many groups


def test_requests_about_many_groups_are_split_and_put_together_in_order() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_ids = [cluster.group_at(owner, nth) for nth in range(3) for owner in (3, 1, 2)]
        for number, group_id in enumerate(group_ids):
            assert await client.commit(group_id, number) == 0
        asked = [*group_ids, group_ids[0]]
        cluster.links.calls.clear()
        assert await client.fetch(*asked) == [(0, n) for n in (*range(9), 0)]
        assert sorted(node_id for node_id, _ in cluster.links.calls) == [2, 3], "one request for each owner"
        described = await client.groups.handle(
            ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[*asked, "none"]), asking(6)
        )
        assert [group.group_id for group in described.groups] == [*asked, "none"]
        assert [group.group_state for group in described.groups] == ["Empty"] * 10 + ["Dead"]
        request = DeleteGroupsRequest(groups_names=[*group_ids, "none", group_ids[0]])
        deleted = await client.groups.handle(ApiKey.DELETE_GROUPS, request, asking(2))
        assert [one.group_id for one in deleted.results] == [*group_ids, "none"]
        assert [one.error_code for one in deleted.results] == [0] * 9 + [ErrorCode.GROUP_ID_NOT_FOUND]
        assert await client.fetch() == []

    told(story)


def test_one_owners_failure_is_told_to_its_groups_alone() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_ids = [cluster.group_at(owner) for owner in (1, 2, 3)]
        for number, group_id in enumerate(group_ids):
            await client.commit(group_id, number)
        cluster.kill(2)
        assert await client.fetch(*group_ids) == [(0, 0), (ErrorCode.NOT_COORDINATOR, -1), (0, 2)]
        described = await client.groups.handle(
            ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=group_ids), asking(5)
        )
        assert [g.error_code for g in described.groups] == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0]
        deleted = await client.groups.handle(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=group_ids), asking(2)
        )
        assert [g.error_code for g in deleted.results] == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0]

    told(story)


@pytest.mark.parametrize("version", [1, 2, 7])
def test_old_offset_fetches_fail_in_their_own_form(version: int) -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        await client.commit(group_id, 3)
        wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(group_id=group_id, topics=wanted)
        found = await client.groups.handle(ApiKey.OFFSET_FETCH, request, asking(version))
        assert (found.error_code, found.topics[0].partitions[0].committed_offset) == (0, 3)
        cluster.kill(2)
        failed = await client.groups.handle(ApiKey.OFFSET_FETCH, request, asking(version))
        code = failed.error_code if version >= 2 else failed.topics[0].partitions[0].error_code
        assert code == ErrorCode.NOT_COORDINATOR and bool(failed.topics) == (version < 2)

    told(story)


def test_every_group_is_listed_at_one_proxy_and_by_operators_at_once() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_ids = {f"group-{number}" for number in range(30)}
        for group_id in group_ids:
            await client.commit(group_id, 1)
        listed: list[str] = []
        for node_id in (1, 2, 3):
            answer = await cluster.nodes[node_id].groups.handle(ApiKey.LIST_GROUPS, ListGroupsRequest(), asking(5))
            assert answer.error_code == 0
            for group in answer.groups:
                found = await client.groups.prepare(group.group_id)
                assert found is not None and found.node_id == node_id
            listed += [group.group_id for group in answer.groups]
        assert sorted(listed) == sorted(group_ids), "each once"
        everything = await cluster.nodes[11].groups.handle(ApiKey.LIST_GROUPS, ListGroupsRequest(), asking(5))
        assert {group.group_id for group in everything.groups} == group_ids
        nothing = await cluster.nodes[11].groups.handle(
            ApiKey.LIST_GROUPS, ListGroupsRequest(states_filter=["Stable"]), asking(5)
        )
        assert list(nothing.groups) == []

    told(story, brokers=(11, 12))


def test_groups_that_cannot_be_listed_are_an_error_beside_the_others() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        for number in range(30):
            await client.commit(f"group-{number}", 1)
        cluster.kill(12)
        groups = cluster.nodes[11].groups
        answer = await groups.handle(ApiKey.LIST_GROUPS, ListGroupsRequest(), asking(5))
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert {cluster.owner_of(group.group_id) for group in answer.groups} == {11}
        listing = asyncio.create_task(groups.handle(ApiKey.LIST_GROUPS, ListGroupsRequest(), asking(5)))
        await asyncio.sleep(1)
        cluster.bury(12, heir=11)
        answer = await listing
        assert (answer.error_code, len(answer.groups)) == (0, 30)

    told(story, brokers=(11, 12))


def test_a_node_without_a_coordinator_says_so() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        client.groups._local = None
        assert await client.beat(cluster.group_at(1), "m") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await client.beat(cluster.group_at(2), "m") == ErrorCode.UNKNOWN_MEMBER_ID

    told(story, config=replace(RoutedGroupsConfig(), move_wait_ms=100))


# --- requests that their clients may have given up


def test_an_old_commit_is_not_sent() -> None:
    """It was read late, or waited here: the client may have committed something newer by another way."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        await asyncio.sleep(60)
        for owner in (1, 2):
            group_id = cluster.group_at(owner)
            client.context = None
            assert await client.commit(group_id, 45) == 0
            for offset, age_s, code in ((46, 9.9, 0), (42, 10.1, ErrorCode.COORDINATOR_NOT_AVAILABLE)):
                client.context = replace(asking(9), received_s=now_s() - age_s)
                assert await client.commit(group_id, offset) == code
            assert await client.fetch(group_id) == [(0, 46)]

    told(story)


def test_a_commit_that_waited_too_long_for_an_owner_is_not_sent_when_there_is_one() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        assert await client.commit(group_id, 42) == 0
        cluster.kill(2)
        late = asyncio.ensure_future(client.commit(group_id, 43))
        await asyncio.sleep(10.5)
        cluster.links.down.clear()
        assert await GroupClient(cluster.nodes[3].groups).commit(group_id, 45) == 0
        assert await late == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await client.fetch(group_id) == [(0, 45)]

    told(story, config=RoutedGroupsConfig(move_wait_ms=60_000))


def test_requests_that_wait_for_an_owner_are_answered_once_the_node_stops() -> None:
    """A commit that was never sent may be sent again."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        assert await client.commit(group_id, 42) == 0
        cluster.kill(2)
        late = asyncio.ensure_future(client.commit(group_id, 43))
        await asyncio.sleep(1)
        begun_s = now_s()
        client.groups.end_waits()
        assert await late == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert client.groups.lanes._waits.is_over
        assert await client.commit(group_id, 44) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert now_s() - begun_s < 0.01
        cluster.links.down.clear()
        assert await GroupClient(cluster.nodes[3].groups).fetch(group_id) == [(0, 42)]

    told(story, config=RoutedGroupsConfig(move_wait_ms=60_000))


def test_a_commit_grows_old_while_the_machine_sleeps() -> None:
    """The event loop's clock stands still meanwhile: by that one it would be sent however long its client has given up."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        assert await client.commit(group_id, 42) == 0
        cluster.kill(2)
        late = asyncio.ensure_future(client.commit(group_id, 43))
        await asyncio.sleep(0.1)
        cluster.clock.sleep(10.5)
        cluster.links.down.clear()
        assert await GroupClient(cluster.nodes[3].groups).commit(group_id, 45) == 0
        assert await late == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await client.fetch(group_id) == [(0, 45)]

    told(story, config=RoutedGroupsConfig(move_wait_ms=60_000))


# --- deletions


def lose_the_answer_after(cluster: GroupCluster, meanwhile: Callable[[], Awaitable[object]]) -> None:
    """The next request is carried out, its answer is lost, and something happens before it can be sent again."""

    async def lose(node_id: int, api_key: ApiKey) -> None:
        cluster.links.after = None
        await meanwhile()
        raise LinkLost("the connection broke")

    cluster.links.after = lose


def test_a_deletion_whose_answer_was_lost_spares_what_was_committed_since() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id, gone = cluster.group_at(2), cluster.group_at(2, 1)
        other = GroupClient(cluster.nodes[3].groups)
        await client.commit(group_id, 1)
        await client.commit(gone, 1)
        lose_the_answer_after(cluster, lambda: other.commit(group_id, 7))
        deleted = await client.groups.handle(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group_id, gone]), asking(2)
        )
        assert [one.error_code for one in deleted.results] == [ErrorCode.REQUEST_TIMED_OUT, 0]
        assert await client.fetch(group_id, gone) == [(0, 7), (0, -1)]

    told(story)


def test_an_offset_deletion_whose_answer_was_lost_spares_what_was_committed_since() -> None:
    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        other = GroupClient(cluster.nodes[3].groups)
        await client.commit(group_id, 1)
        lose_the_answer_after(cluster, lambda: other.commit(group_id, 7))
        wanted = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
        answer = await client.groups.handle(
            ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id=group_id, topics=wanted), asking(0)
        )
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, ErrorCode.REQUEST_TIMED_OUT)
        assert await client.fetch(group_id) == [(0, 7)]

    told(story)


@pytest.mark.parametrize("owner", [1, 2])
def test_a_deletion_that_may_be_in_the_log_is_not_written_again(owner: int) -> None:
    """The shard is lost while the tombstones are on their way: the coordinator itself does not know."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(owner)
        await client.commit(group_id, 1)
        shard = cluster.nodes[owner].coordinator.directory.find(group_id)
        assert shard is not None
        append = shard.state_log.append

        def append_and_be_fenced(records: Any, producer: Any) -> asyncio.Future[int]:
            append(records, producer)
            failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            failed.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has another owner"))
            return failed

        shard.state_log.append = append_and_be_fenced  # type: ignore[method-assign,assignment]
        request = DeleteGroupsRequest(groups_names=[group_id])
        deleted = await client.groups.handle(ApiKey.DELETE_GROUPS, request, asking(2))
        assert deleted.results[0].error_code == 0, "the next owner finds nothing left"
        assert await client.fetch(group_id) == [(0, -1)]

    told(story)


def test_a_deletion_that_cannot_be_checked_is_not_told_as_a_coordinators_error() -> None:
    """Stock clients would send it again after that."""

    async def story(cluster: GroupCluster, client: GroupClient) -> None:
        group_id = cluster.group_at(2)
        await client.commit(group_id, 1)

        async def die() -> None:
            cluster.kill(2)

        lose_the_answer_after(cluster, die)
        deleted = await client.groups.handle(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group_id]), asking(2)
        )
        assert deleted.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    told(story)
