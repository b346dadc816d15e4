"""Share groups at the group coordinator, with the shards of their partitions' state beside it."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from bmq.coordinator.config import CoordinatorConfig, ShareConfig
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from bmq.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from bmq.protocol.request_context import by_itself
from tests.unit.broker.world import virtual
from tests.unit.coordinator.cluster import Cluster, FakeTopic
from tests.unit.coordinator.share_state.states import States

pytestmark = pytest.mark.unit

AT_ONCE = CoordinatorConfig(share=ShareConfig(assignment_interval_ms=0))
T, U = UUID(int=1), UUID(int=2)


class Ends:
    """All partitions end at 100."""

    async def end_offset(self, topic_id: UUID, partition: int) -> int:
        return 100


class Unreachable:
    """Shards that nobody reaches; `left`: so many calls."""

    def __init__(self, states: Any) -> None:
        self.states = states
        self.is_away = False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any) -> Any:
            self.calls.append(name)
            if self.is_away:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")
            return await getattr(self.states, name)(request)

        return call


class Shares:
    """A group coordinator and the coordinator of share partitions' state, over logs in memory."""

    def __init__(self, before: Shares | None = None, config: CoordinatorConfig = AT_ONCE) -> None:
        self.cluster: Cluster = Cluster(config) if before is None else before.cluster.take_over()
        self.states: States = States() if before is None else before.states
        self.link = Unreachable(self.states.coordinator)
        self.coordinator = self.cluster.coordinator
        self.coordinator.share_states.use(self.link, Ends())

    async def beat(self, member_id: str, epoch: int, *names: str, group_id: str = "g") -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(names) or None
        )
        answer: ShareGroupHeartbeatResponse = await self.call(ApiKey.SHARE_GROUP_HEARTBEAT, request)
        return answer

    async def call(self, api_key: ApiKey, request: Any) -> Any:
        return await self.coordinator.handle(api_key, request, by_itself(api_key))

    def set_topic(self, name: str, topic_id: UUID, count: int) -> None:
        topics = dict(self.cluster.topics.topics)
        topics.pop(name, None)
        if count:
            topics[name] = FakeTopic(name, topic_id, tuple(range(count)))
        old = type(self.cluster.topics)(dict(self.cluster.topics.topics))
        self.cluster.topics.topics = topics
        self.coordinator.image_changed(old, self.cluster.topics)

    async def alter(self, start: int, *numbers: int, name: str = "t", group_id: str = "g") -> Any:
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=one, start_offset=start) for one in numbers
        ]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)]
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
        return await self.call(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request)

    async def offsets(self, *names: str, group_id: str = "g") -> dict[str, list[tuple[int, int, int, int]]]:
        """By topic: partition, start offset, lag, error."""
        topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 1]) for name in names]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics or None)
        answer = await self.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest(groups=[group]))
        (described,) = answer.groups
        assert described.error_code == 0
        return {
            topic.topic_name: [
                (one.partition_index, one.start_offset, one.lag, one.error_code) for one in topic.partitions
            ]
            for topic in described.topics
        }

    async def delete_offsets(self, *names: str) -> list[tuple[str, int]]:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        answer = await self.call(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS, DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
        )
        assert answer.error_code == 0, answer.error_message
        return [(one.topic_name, one.error_code) for one in answer.responses]

    async def delete_group(self) -> int:
        answer = await self.call(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=["g"]))
        return int(answer.results[0].error_code)

    def state_keys(self) -> set[tuple[str, int, int]]:
        """Share partitions with state: group, topic, partition."""
        return {
            (key.group_id, key.topic_id.int, key.partition)
            for shard in self.states.coordinator.directory.ready.values()
            for key in shard.partitions
        }


def assigned(answer: ShareGroupHeartbeatResponse) -> list[int] | None:
    assert answer.error_code == 0, answer.error_message
    if answer.assignment is None:
        return None
    return [number for part in answer.assignment.topic_partitions for number in part.partitions]


def assigned_topics(answer: ShareGroupHeartbeatResponse) -> set[UUID | None]:
    assert answer.assignment is not None
    return {part.topic_id for part in answer.assignment.topic_partitions}


def test_the_first_heartbeat_brings_partitions_whose_state_has_begun() -> None:
    async def main() -> None:
        shares = Shares()
        answer = await shares.beat("a", 0, "t")
        assert (answer.member_epoch, assigned(answer)) == (3, [0, 1, 2, 3])
        assert shares.state_keys() == {("g", 1, number) for number in range(4)}
        assert assigned(await shares.beat("a", 3)) is None
        heir = Shares(shares)
        assert (await heir.beat("a", 3)).error_code == 0
        described = await heir.call(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(group_ids=["g", "x"]))
        assert [(one.group_state, one.error_code) for one in described.groups] == [
            ("Stable", 0),
            ("", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        listed = await heir.call(ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=["Share"]))
        assert [(one.group_id, one.group_type, one.group_state) for one in listed.groups] == [("g", "share", "Stable")]

    virtual(main)


@pytest.mark.parametrize("group_id", ["", "nobody"])
def test_a_group_that_is_not_there_has_no_offsets(group_id: str) -> None:
    async def main() -> None:
        shares = Shares()
        await shares.beat("a", 0, "t")
        asked = [
            DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
            for topics in (None, [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])])
        ]
        answer = await shares.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest(groups=asked))
        of_all, of_one = answer.groups
        assert (of_all.error_code, of_all.topics, of_one.error_code) == (0, [], 0)
        (partition,) = of_one.topics[0].partitions
        assert (partition.error_code, partition.start_offset, partition.lag) == (0, -1, -1)

    virtual(main)


def test_a_topic_that_appears_raises_the_epoch_twice() -> None:
    async def main() -> None:
        shares = Shares()
        assert (await shares.beat("a", 0, "new")).member_epoch == 2
        assert (await shares.beat("b", 0, "new")).member_epoch == 3
        shares.set_topic("new", UUID(int=9), 3)
        answer = await shares.beat("a", 2)
        assert answer.member_epoch == 5 and assigned(answer)
        other = await shares.beat("b", 3)
        assert other.member_epoch == 5 and set(assigned(answer) or ()) | set(assigned(other) or ()) == {0, 1, 2}
        assert assigned(await shares.beat("a", 5)) is None
        assert assigned(await shares.beat("a", 0, "new")) == assigned(answer)

    virtual(main)


def test_a_heartbeat_before_the_assignment_interval_is_over_brings_no_assignment() -> None:
    async def main() -> None:
        shares = Shares(config=CoordinatorConfig(share=ShareConfig(assignment_interval_ms=1_000)))
        assert (await shares.beat("a", 0, "new")).member_epoch == 2
        shares.set_topic("new", UUID(int=9), 3)
        answer = await shares.beat("a", 2)
        assert (answer.member_epoch, answer.assignment) == (2, None), "the state is initialized, the target waits"
        assert len(shares.state_keys()) == 3
        shares.cluster.clock.advance(1_000)
        answer = await shares.beat("a", 2)
        assert (answer.member_epoch, assigned(answer)) == (3, [0, 1, 2]), "one epoch for both steps"

    virtual(main)


def test_partitions_of_a_deleted_topic_are_taken_before_the_assignment_interval_is_over() -> None:
    async def main() -> None:
        shares = Shares(config=CoordinatorConfig(share=ShareConfig(assignment_interval_ms=1_000)))
        await shares.beat("a", 0, "t", "u")
        shares.cluster.clock.advance(1_000)
        answer = await shares.beat("a", 2)
        assert answer.member_epoch == 3 and assigned_topics(answer) == {T, U}
        shares.set_topic("t", T, 0)
        answer = await shares.beat("a", 3)
        assert assigned_topics(answer) == {U}
        assert answer.member_epoch == 3, "the member's epoch is that of the target, which waits"
        assert assigned(await shares.beat("a", 3)) is None
        shares.cluster.clock.advance(1_000)
        assert (await shares.beat("a", 3)).member_epoch == 4

    virtual(main)


def test_partitions_of_a_topic_that_a_member_leaves_are_taken_at_once() -> None:
    async def main() -> None:
        shares = Shares(config=CoordinatorConfig(share=ShareConfig(assignment_interval_ms=1_000)))
        await shares.beat("a", 0, "t", "u")
        shares.cluster.clock.advance(1_000)
        await shares.beat("a", 2)
        answer = await shares.beat("a", 3, "u")
        assert answer.member_epoch == 3 and assigned_topics(answer) == {U}
        answer = await shares.beat("a", 3, "t", "u")
        assert answer.member_epoch == 3 and assigned_topics(answer) == {T, U}

    virtual(main)


def test_an_initialization_that_fails_is_done_again_with_the_next_heartbeat() -> None:
    async def main() -> None:
        shares = Shares()
        shares.link.is_away = True
        answer = await shares.beat("a", 0, "t")
        assert (answer.member_epoch, assigned(answer)) == (2, [])
        assert assigned(await shares.beat("a", 2)) is None
        shares.link.is_away = False
        answer = await shares.beat("a", 2)
        assert (answer.member_epoch, assigned(answer)) == (3, [0, 1, 2, 3])
        assert shares.link.calls == ["initialize"] * 3

    virtual(main)


def test_start_offsets_are_described_altered_and_deleted() -> None:
    async def main() -> None:
        shares = Shares()
        answer = await shares.alter(40, 0, 1, 9)
        assert [(one.partition_index, one.error_code) for one in answer.responses[0].partitions] == [
            (0, 0),
            (1, 0),
            (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert await shares.offsets() == {"t": [(0, 40, 60, 0), (1, 40, 60, 0)]}
        assert await shares.offsets("t", "u", "no") == {
            "t": [(0, 40, 60, 0), (1, 40, 60, 0)],
            "u": [(0, -1, -1, 0), (1, -1, -1, 0)],
            "no": [(0, -1, -1, 3), (1, -1, -1, 3)],
        }
        assert (await shares.alter(-5, 0)).error_code == 0
        assert (await shares.offsets("t"))["t"][0] == (0, 0, 100, 0)
        joined = await shares.beat("a", 0, "t")
        assert assigned(joined) == [0, 1, 2, 3]
        assert (await shares.alter(1, 0)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await shares.offsets("t"))["t"][0] == (0, 0, 100, 0), "joining leaves what is known"
        assert (await shares.beat("a", -1)).member_epoch == -1
        assert await shares.delete_offsets("t", "u", "no") == [("t", 0), ("u", 3), ("no", 3)]
        assert shares.state_keys() == set()
        assert await shares.delete_offsets("t") == [("t", 3)]

    virtual(main)


def test_a_deletion_that_failed_is_finished_by_the_next_one_or_the_next_owner() -> None:
    async def main() -> None:
        shares = Shares()
        await shares.alter(5, 0, 1)
        shares.link.is_away = True
        with pytest.raises(AssertionError):
            await shares.delete_offsets("t")
        assert len(shares.state_keys()) == 2
        shares.link.is_away = False
        assert await shares.delete_offsets("t") == [("t", 0)]
        assert shares.state_keys() == set()
        await shares.alter(5, 0, 1)
        shares.link.is_away = True
        with pytest.raises(AssertionError):
            await shares.delete_offsets("t")
        assert len(shares.state_keys()) == 2
        heir = Shares(shares)
        assert await heir.offsets() == {}
        await heir.alter(7, 2)
        assert ("g", 1, 0) not in heir.state_keys() and ("g", 1, 2) in heir.state_keys()

    virtual(main)


def test_a_group_is_deleted_after_its_state() -> None:
    async def main() -> None:
        shares = Shares()
        await shares.beat("a", 0, "t")
        assert await shares.delete_group() == ErrorCode.NON_EMPTY_GROUP
        await shares.beat("a", -1)
        shares.link.is_away = True
        assert await shares.delete_group() != 0
        assert len(shares.state_keys()) == 4
        shares.link.is_away = False
        assert await shares.delete_group() == 0
        assert shares.state_keys() == set()
        assert await shares.delete_group() == ErrorCode.GROUP_ID_NOT_FOUND

    virtual(main)


def test_a_deleted_topic_leaves_no_state() -> None:
    async def main() -> None:
        shares = Shares()
        answer = await shares.beat("a", 0, "t", "u")
        assert len(shares.state_keys()) == 8
        shares.set_topic("u", U, 0)
        await asyncio.sleep(1)
        after = await shares.beat("a", answer.member_epoch)
        assert assigned(after) == [0, 1, 2, 3]
        assert shares.state_keys() == {("g", 1, number) for number in range(4)}

    virtual(main)


def test_groups_of_other_types_are_left_alone() -> None:
    async def main() -> None:
        shares = Shares()
        await shares.cluster.stable("classic")
        assert (await shares.beat("a", 0, "t", group_id="classic")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await shares.alter(1, 0, group_id="classic")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await shares.alter(1, 0, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
        await shares.beat("a", 0, "t")
        committed = await shares.cluster.commit("g", {("t", 0): 5})
        assert set(committed.values()) == {ErrorCode.GROUP_ID_NOT_FOUND}

    virtual(main)
