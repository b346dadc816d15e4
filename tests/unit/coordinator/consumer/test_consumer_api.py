"""Consumer groups as the coordinator serves them: over a log that answers late, fails, and is loaded again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bmq.coordinator.config import ConsumerConfig, CoordinatorConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.runtime.recent_proof import PROOF_AGE_MAX_MS
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.delete_groups_response import DeleteGroupsResponse
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequestProtocol
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.request_context import ANONYMOUS, RequestContext
from tests.unit.coordinator.cluster import Cluster, FakeTopic, FakeTopics, request_context
from tests.unit.coordinator.consumer.bench import picture
from tests.unit.coordinator.consumer.test_classic_members import assignment, has, subscription
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit

CONFIG = CoordinatorConfig(
    group_initial_rebalance_delay_ms=0,
    group_min_session_timeout_ms=10,
    consumer=ConsumerConfig(assignment_interval_ms=0),
)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster(CONFIG, shard_count=1)
    yield made
    await made.coordinator.close()


async def beat(
    cluster: Cluster,
    member_id: str,
    epoch: int,
    owned: list[int] | None = None,
    *,
    group_id: str = "g",
    version: int = 1,
    principal: str = ANONYMOUS,
    **fields: Any,
) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat; `owned`: partitions of topic t."""
    parts = None
    if owned is not None:
        parts = [TopicPartitions(topic_id=cluster.topics.topics["t"].topic_id, partitions=owned)] if owned else []
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=epoch, topic_partitions=parts, **fields
    )
    context = replace(request_context(version), principal=principal)
    return await cluster.coordinator.consumer.consumer_group_heartbeat(request, context)


async def join(cluster: Cluster, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_000, **fields}
    return await beat(cluster, member_id, 0, [], **fields)


def has_of(answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return [p for part in answer.assignment.topic_partitions for p in part.partitions]


def shard_of(cluster: Cluster) -> GroupShard:
    return cluster.coordinator.directory.ready[0]


def group_of(cluster: Cluster, group_id: str = "g") -> ConsumerGroup:
    return shard_of(cluster).consumer.groups[group_id]


async def settled(cluster: Cluster, *member_ids: str) -> None:
    for member_id in member_ids:
        assert (await join(cluster, member_id)).error_code == 0
    for _ in range(3):
        for member in list(group_of(cluster).members.values()):
            await beat(cluster, member.member_id, member.epoch, [p for ps in member.assigned.values() for p in ps])
    assert group_of(cluster).state == "Stable"


async def test_a_rebalance(cluster: Cluster) -> None:
    answer = await join(cluster, "A")
    assert (answer.member_epoch, has_of(answer), answer.heartbeat_interval_ms) == (2, [0, 1, 2, 3], 1_000)
    answer = await join(cluster, "B")
    assert (answer.member_epoch, has_of(answer)) == (3, [])
    answer = await beat(cluster, "A", 2)
    assert (answer.member_epoch, has_of(answer)) == (2, [0, 1])
    assert (await beat(cluster, "A", 2, [0, 1])).member_epoch == 3
    assert has_of(await beat(cluster, "B", 3)) == [2, 3]


async def test_errors_are_answers(cluster: Cluster) -> None:
    answer = await beat(cluster, "", 5)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    await join(cluster, "A")
    assert (await beat(cluster, "B", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await beat(cluster, "B", 1, group_id="other")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_it_is_served_by_its_key(cluster: Cluster) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="A", member_epoch=1, topic_partitions=None)
    context = RequestContext(1, "c", "h")
    await cluster.coordinator.prepare("g")
    answer = await cluster.coordinator.handle(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, context)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = await cluster.coordinator.handle(
        ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(group_ids=["g"]), context
    )
    assert described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


# ---------------------------------------------------------------- durable first


async def test_an_answer_waits_until_what_it_says_is_durable(cluster: Cluster) -> None:
    await settled(cluster, "A")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = asyncio.create_task(join(cluster, "B"))
    await until(lambda: log.pending_count == 1)
    await asyncio.sleep(0)
    assert not joining.done() and group_of(cluster).members.keys() == {"A"}
    log.acknowledge()
    assert (await joining).member_epoch == 3
    assert group_of(cluster).members.keys() == {"A", "B"}


async def test_a_heartbeat_that_changes_nothing_waits_for_nobody(cluster: Cluster) -> None:
    await settled(cluster, "A")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = asyncio.create_task(join(cluster, "B"))
    await until(lambda: log.pending_count == 1)
    async with asyncio.timeout(5):
        assert (await beat(cluster, "A", 2)).member_epoch == 2
    fenced = asyncio.create_task(beat(cluster, "A", 9))
    await asyncio.sleep(0)
    assert not fenced.done(), "what fails keeps the order"
    log.acknowledge()
    assert (await fenced).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await joining).error_code == 0


async def test_many_that_come_at_once_share_few_appends(cluster: Cluster) -> None:
    await settled(cluster, "A")
    log = cluster.log_of("g")
    before = len(log.batches)
    log.is_acknowledging = False
    joining = [asyncio.create_task(join(cluster, f"m{number}")) for number in range(100)]
    for appends in (1, 2, 3):
        await until(lambda: log.pending_count == 1)
        await asyncio.sleep(0)
        assert len(log.batches) == before + appends
        log.acknowledge()
    answers = await asyncio.gather(*joining)
    assert sorted(answer.member_epoch for answer in answers) == list(range(3, 103)), "decided one after another"
    assert group_of(cluster).epoch == 102


async def test_groups_do_not_wait_for_each_other(cluster: Cluster) -> None:
    await settled(cluster, "A")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    first = asyncio.create_task(join(cluster, "B"))
    await until(lambda: log.pending_count == 1)
    second = asyncio.create_task(join(cluster, "A", group_id="other"))
    await until(lambda: log.pending_count == 2)
    log.acknowledge()
    assert (await first).error_code == (await second).error_code == 0


async def test_a_refused_append_leaves_nothing(cluster: Cluster) -> None:
    await settled(cluster, "A")
    before = picture(group_of(cluster))
    log = cluster.log_of("g")
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    joined = await asyncio.gather(join(cluster, "B"), join(cluster, "C"), join(cluster, "A", group_id="other"))
    assert {answer.error_code for answer in joined} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert picture(group_of(cluster)) == before and "other" not in shard_of(cluster).consumer.groups
    log.refuse_with = None
    assert (await join(cluster, "B")).member_epoch == 3


async def test_a_record_too_large_is_its_clients_trouble_alone(cluster: Cluster) -> None:
    await settled(cluster, "A")
    answer = await join(cluster, "B", subscribed_topic_names=["x" * 30_000 + str(n) for n in range(40)])
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await beat(cluster, "A", 2)).error_code == 0


async def test_a_client_that_goes_away_takes_nothing_back(cluster: Cluster) -> None:
    await settled(cluster, "A")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = asyncio.create_task(join(cluster, "B"))
    waiting = asyncio.create_task(join(cluster, "C"))
    await until(lambda: log.pending_count == 1)
    await asyncio.sleep(0)
    joining.cancel()
    waiting.cancel()
    await asyncio.sleep(0)
    log.is_acknowledging = True
    log.acknowledge()
    await until(lambda: "B" in group_of(cluster).members)
    assert (await join(cluster, "D")).error_code == 0
    assert group_of(cluster).members.keys() == {"A", "B", "D"}, "who only waited was never decided about"


# ---------------------------------------------------------------- another coordinator


async def test_the_next_owner_has_the_same_groups(cluster: Cluster) -> None:
    await settled(cluster, "A", "B")
    await join(cluster, "R", subscribed_topic_names=None, subscribed_topic_regex="t")
    before = picture(group_of(cluster))
    for with_snapshot in (False, True):
        if with_snapshot:
            await shard_of(cluster).save_snapshot(force=True)
        await cluster.coordinator.close()
        cluster.restart()
        await cluster.coordinator.prepare("g")
        assert picture(group_of(cluster)) == before
        assert shard_of(cluster).wake_ms < asyncio.get_running_loop().time() * 1000 + 45_001 + PROOF_AGE_MAX_MS
    assert (await beat(cluster, "A", group_of(cluster).members["A"].epoch)).error_code == 0


async def test_a_fenced_owner_does_not_say_that_there_is_no_group(cluster: Cluster) -> None:
    heir = cluster.take_over()
    await join(cluster, "A")
    await cluster.commit("new", {("t", 0): 1})
    await heir.coordinator.prepare("g")
    await join(heir, "A", group_id="new")
    assert (await beat(cluster, "A", 2, group_id="new")).error_code == ErrorCode.NOT_COORDINATOR
    await heir.coordinator.close()


async def test_a_fenced_owner_refuses_no_member(cluster: Cluster) -> None:
    """It knows neither who has joined since nor which epochs were given."""
    await join(cluster, "A")
    heir = cluster.take_over()
    await join(heir, "B")
    assert (await beat(heir, "A", 2)).error_code == 0
    assert (await beat(heir, "A", 2, [0, 1])).member_epoch == 3
    for member_id, epoch in (("A", 3), ("B", 3)):
        assert (await beat(cluster, member_id, epoch)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await beat(heir, member_id, epoch)).error_code == 0
    await heir.coordinator.close()


async def test_who_waits_is_sent_to_the_next_owner(cluster: Cluster) -> None:
    await settled(cluster, "A")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = [asyncio.create_task(join(cluster, member_id)) for member_id in ("B", "C")]
    await until(lambda: log.pending_count == 1)
    cluster.coordinator.resign(0)
    log.fail_pending(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert {(await task).error_code for task in joining} == {ErrorCode.NOT_COORDINATOR}


async def test_a_group_on_its_way_to_deletion_is_there_no_more(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await cluster.commit("g", {("t", 0): 5}, member_id="A", generation=2)
    deleted = await cluster.coordinator.administration.delete_groups(
        DeleteGroupsRequest(groups_names=["g"]), request_context(2)
    )
    assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    await beat(cluster, "A", -1)
    deleted = await cluster.coordinator.administration.delete_groups(
        DeleteGroupsRequest(groups_names=["g"]), request_context(2)
    )
    assert deleted.results[0].error_code == 0
    assert not shard_of(cluster).has_group("g")
    cluster.restart()
    await cluster.coordinator.prepare("g")
    assert not shard_of(cluster).has_group("g")
    assert (await join(cluster, "A")).member_epoch == 2


async def deletion_while_joining(
    cluster: Cluster,
) -> tuple[asyncio.Task[ConsumerGroupHeartbeatResponse], asyncio.Task[DeleteGroupsResponse]]:
    """A group with an offset gets its first member, whose records are on their way to the log, and is to be deleted."""
    await cluster.commit("g", {("t", 0): 5})
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = asyncio.create_task(join(cluster, "A"))
    await until(lambda: log.pending_count == 1)
    request = DeleteGroupsRequest(groups_names=["g"])
    deleting = asyncio.create_task(cluster.coordinator.administration.delete_groups(request, request_context(2)))
    for _ in range(5):
        await asyncio.sleep(0)
    log.is_acknowledging = True
    return joining, deleting


async def test_a_group_whose_first_member_is_joining_is_not_deleted(cluster: Cluster) -> None:
    """Its offsets would be deleted behind the back of a member that is about to read them."""
    joining, deleting = await deletion_while_joining(cluster)
    cluster.log_of("g").acknowledge()
    assert (await joining).error_code == 0
    assert (await deleting).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert await cluster.fetch_all("g") == {("t", 0): 5}


async def test_a_group_whose_first_member_could_not_join_is_deleted(cluster: Cluster) -> None:
    joining, deleting = await deletion_while_joining(cluster)
    cluster.log_of("g").fail_pending(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (await joining).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await deleting).results[0].error_code == 0
    assert not shard_of(cluster).has_group("g")


# ---------------------------------------------------------------- time


async def test_a_silent_member_is_put_out() -> None:
    consumer = ConsumerConfig(assignment_interval_ms=0, session_timeout_ms=30)
    cluster = Cluster(replace(CONFIG, consumer=consumer), shard_count=1)
    await join(cluster, "A")
    await join(cluster, "B")
    await until(lambda: cluster.coordinator.metrics.expired_members == 2)
    assert not group_of(cluster).members
    assert group_of(cluster).target_timestamp_ms == 0, "the next target need not wait for the interval"
    await cluster.coordinator.close()


async def test_who_does_not_give_back_in_time_is_put_out(cluster: Cluster) -> None:
    await join(cluster, "A", rebalance_timeout_ms=30)
    await join(cluster, "B")
    assert has_of(await beat(cluster, "A", 2)) == [0, 1]
    await until(lambda: group_of(cluster).members.keys() == {"B"})
    assert has_of(await beat(cluster, "B", 3)) == [0, 1, 2, 3]


async def test_who_gave_back_in_vain_still_has_to_give_back_in_time(cluster: Cluster) -> None:
    """What the member said was not written, and it may never say so again."""
    await join(cluster, "A", rebalance_timeout_ms=30)
    await join(cluster, "B")
    assert has_of(await beat(cluster, "A", 2)) == [0, 1]
    log = cluster.log_of("g")
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await beat(cluster, "A", 2, [0, 1])).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.refuse_with = None
    await until(lambda: group_of(cluster).members.keys() == {"B"})


async def test_sessions_begin_anew_after_this_process_stood_still(cluster: Cluster) -> None:
    await join(cluster, "A")
    shard = shard_of(cluster)
    timers = shard.consumer.timers_of("g")
    assert timers is not None
    later_ms = timers.deadline_ms(TimerKind.SESSION, "A") - 1
    timers.after_stall(later_ms)
    assert timers.deadline_ms(TimerKind.SESSION, "A") == later_ms + 45_000
    cluster.coordinator.after_stall()


async def test_an_expiry_that_cannot_be_written_is_tried_again() -> None:
    consumer = ConsumerConfig(assignment_interval_ms=0, session_timeout_ms=20)
    cluster = Cluster(replace(CONFIG, consumer=consumer), shard_count=1)
    await join(cluster, "A")
    log = cluster.log_of("g")
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    timers = shard_of(cluster).consumer.timers_of("g")
    assert timers is not None
    before_ms = timers.wake_ms
    await until(lambda: timers.wake_ms > before_ms and timers.wake_ms < float("inf"))
    log.refuse_with = None
    await until(lambda: not group_of(cluster).members)
    await cluster.coordinator.close()


async def test_an_empty_group_goes_with_its_last_offset(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await cluster.commit("g", {("t", 0): 5, ("u", 0): 6}, member_id="A", generation=2)
    shard = shard_of(cluster)
    cluster.clock.advance(CONFIG.offsets_retention_ms + 1)
    shard._expire(["g"])
    await until(lambda: shard.offsets.count == 1)
    assert await cluster.fetch_all("g") == {("t", 0): 5}, "topics it is subscribed to stay"
    await beat(cluster, "A", -1)
    shard._expire(["g"])
    await until(lambda: shard.offsets.count == 0)
    shard._expire(["g"])
    await until(lambda: not shard.has_group("g"))


# ---------------------------------------------------------------- topics


async def test_a_topic_that_grows_is_assigned_with_the_next_heartbeat(cluster: Cluster) -> None:
    await settled(cluster, "A")
    old = replace(cluster.topics, topics=dict(cluster.topics.topics))
    cluster.topics.topics["t"] = FakeTopic("t", cluster.topics.topics["t"].topic_id, tuple(range(6)))
    assert (await beat(cluster, "A", 2)).member_epoch == 2, "nobody has said so yet"
    cluster.coordinator.image_changed(old, cluster.topics)
    assert has_of(await beat(cluster, "A", 2)) == list(range(6))
    cluster.coordinator.image_changed(cluster.topics, cluster.topics)
    assert (await beat(cluster, "A", 3)).assignment is None


async def test_expressions_are_resolved_behind_the_heartbeat(cluster: Cluster) -> None:
    answer = await join(cluster, "A", subscribed_topic_names=None, subscribed_topic_regex="[tv].*")
    assert (answer.member_epoch, has_of(answer)) == (1, [])
    await until(lambda: group_of(cluster).epoch == 2)
    assert has_of(await beat(cluster, "A", 1)) == [0, 1, 2, 3]
    old = FakeTopics(dict(cluster.topics.topics))
    cluster.topics.add("v", 77)
    cluster.coordinator.image_changed(old, cluster.topics)
    await beat(cluster, "A", 2)
    await asyncio.sleep(0)
    assert group_of(cluster).epoch == 2, "not twice in ten seconds"
    cluster.clock.advance(10_000)
    await beat(cluster, "A", 2)
    await until(lambda: group_of(cluster).epoch == 3)
    assert group_of(cluster).matches("[tv].*") == {"t", "v"}
    assert (await beat(cluster, "A", 2)).member_epoch == 3
    resolved = group_of(cluster).regexes["[tv].*"]
    cluster.clock.advance(599_999)
    await beat(cluster, "A", 3)
    assert not shard_of(cluster).consumer.resolution("g")[0]
    cluster.clock.advance(1)
    await beat(cluster, "A", 3)
    await until(lambda: group_of(cluster).regexes["[tv].*"] != resolved)
    assert group_of(cluster).epoch == 3, "looked again, and nothing is new"


async def test_an_expression_matches_what_the_member_that_has_it_resolved_may_describe(cluster: Cluster) -> None:
    cluster.topics.add("tu", 3)
    cluster.hidden = {("User:bob", "t"), ("User:alice", "u")}

    def found() -> set[str]:
        return set(group_of(cluster).matches("[tu]+"))

    await join(cluster, "A", subscribed_topic_names=None, subscribed_topic_regex="[tu]+", principal="User:bob")
    await until(lambda: group_of(cluster).epoch == 2)
    assert found() == {"u", "tu"}
    cluster.clock.advance(600_000)
    await beat(cluster, "A", 1, principal="User:bob")
    await until(lambda: not shard_of(cluster).consumer.resolution("g")[0])
    assert found() == {"u", "tu"} and group_of(cluster).epoch == 2
    cluster.clock.advance(600_000)
    await join(cluster, "B", subscribed_topic_names=None, subscribed_topic_regex="[tu]+", principal="User:alice")
    await until(lambda: not shard_of(cluster).consumer.resolution("g")[0])
    assert found() == {"t", "tu"}, "as in Kafka, the rights of the member whose heartbeat it was count for all"


async def test_a_slow_expression_leaves_turns_to_others(cluster: Cluster) -> None:
    """Matching it with a name of 249 characters takes 8 ms."""
    for number in range(100):
        cluster.topics.add(f"{number:03}".ljust(249, "x"), 1_000 + number)
    await join(cluster, "A", subscribed_topic_names=None, subscribed_topic_regex="(?:.?){1000}(?:.?){1000}")
    turns = 0
    while not group_of(cluster).regexes:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 20


async def test_a_resolution_that_cannot_be_written_is_tried_again(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await beat(cluster, "A", 2, subscribed_topic_regex="u")
    await until(lambda: group_of(cluster).epoch == 3)
    await beat(cluster, "A", 2)
    cluster.clock.advance(600_000)
    log = cluster.log_of("g")
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await beat(cluster, "A", 3)).error_code == 0, "it does not hear of that"
    groups = shard_of(cluster).consumer
    await until(lambda: not groups.resolution("g")[0])
    assert groups.resolution("g")[1].has_new_topics
    log.refuse_with = None


# ---------------------------------------------------------------- looking at groups


async def test_groups_are_listed_and_described_by_their_type(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await join(cluster, "B")
    await cluster.stable("classic")
    await cluster.commit("simple", {("t", 0): 1})

    async def listed(**filters: Any) -> dict[str, tuple[str, str, str]]:
        answer = await cluster.coordinator.administration.list_groups(ListGroupsRequest(**filters), request_context(5))
        return {g.group_id: (g.group_type, g.group_state, g.protocol_type) for g in answer.groups}

    assert await listed() == {
        "g": ("consumer", "Reconciling", "consumer"),
        "classic": ("classic", "Stable", "consumer"),
        "simple": ("classic", "Empty", ""),
    }
    assert (await listed(types_filter=["CONSUMER"])).keys() == {"g"}
    assert (await listed(types_filter=["share"])) == {}
    assert (await listed(states_filter=["reconciling", "empty"])).keys() == {"g", "simple"}
    described = await cluster.coordinator.consumer.consumer_group_describe(
        ConsumerGroupDescribeRequest(group_ids=["g", "classic", "none", ""], include_authorized_operations=True),
        request_context(1),
    )
    first, *others = described.groups
    assert (first.group_state, first.group_epoch, first.assignment_epoch, first.assignor_name) == (
        "Reconciling",
        3,
        3,
        "uniform",
    )
    assert first.authorized_operations > 0
    member = first.members[0]
    assert (member.member_id, member.member_epoch, member.member_type, member.client_host) == ("A", 2, 1, "/127.0.0.1")
    assert [(p.topic_name, p.partitions) for p in member.assignment.topic_partitions] == [("t", [0, 1, 2, 3])]
    assert [(p.topic_name, p.partitions) for p in member.target_assignment.topic_partitions] == [("t", [0, 1])]
    assert member.subscribed_topic_regex == ""
    assert [group.error_code for group in others] == [
        *([ErrorCode.GROUP_ID_NOT_FOUND] * 2),
        ErrorCode.INVALID_GROUP_ID,
    ]
    for version, code in ((5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
        old = await cluster.coordinator.administration.describe_groups(
            DescribeGroupsRequest(groups=["g"]), request_context(version)
        )
        assert (old.groups[0].group_state, old.groups[0].error_code) == ("Dead", code)
    samples = [each for family in cluster.coordinator.metrics.collect() for each in family.samples]
    counts = {each.labels["state"]: each.value for each in samples if "state" in each.labels}
    assert (counts["Reconciling"], counts["Stable"], counts["Empty"]) == (1, 1, 1)


async def test_describing_shows_what_is_yet_to_be_given_back(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await join(cluster, "B")
    await beat(cluster, "A", 2)
    described = await cluster.coordinator.consumer.consumer_group_describe(
        ConsumerGroupDescribeRequest(group_ids=["g"]), request_context(1)
    )
    (part,) = described.groups[0].members[0].assignment.topic_partitions
    assert part.partitions == [0, 1, 2, 3]


async def test_no_more_groups_than_a_shard_may_have() -> None:
    cluster = Cluster(replace(CONFIG, groups_per_shard_max=1), shard_count=1)
    assert (await join(cluster, "A")).error_code == 0
    assert (await join(cluster, "A", group_id="h")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await cluster.join("h")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await cluster.coordinator.close()


async def test_what_is_set_for_a_group_counts_within_bounds(cluster: Cluster) -> None:
    cluster.topics.group_configs["g"] = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "1"}
    for group_id in ("g", "h"):
        await join(cluster, "A", group_id=group_id)
    cluster.clock.advance(7_000)  # they are settled
    assert (await beat(cluster, "A", 2)).heartbeat_interval_ms == 7_000
    assert CONFIG.consumer.terms(cluster.topics.group_configs["g"]).session_timeout_ms == 45_000
    assert (await beat(cluster, "A", 2, group_id="h")).heartbeat_interval_ms == 5_000


async def test_the_servers_own_intervals_follow_what_is_configured_now(cluster: Cluster) -> None:
    await join(cluster, "A")
    cluster.clock.advance(7_000)
    assert (await beat(cluster, "A", 2)).heartbeat_interval_ms == 5_000
    cluster.coordinator.reconfigure(replace(CONFIG, consumer=replace(CONFIG.consumer, heartbeat_interval_ms=6_000)))
    await join(cluster, "B", group_id="another group, whose shard may be loaded only now")
    cluster.clock.advance(7_000)
    group_of(cluster)
    for shard in cluster.coordinator.directory.ready.values():
        assert shard.consumer._config.consumer.heartbeat_interval_ms == 6_000
        assert shard.streams._config is shard.consumer._config


# ---------------------------------------------------------------- offsets


async def test_who_may_commit(cluster: Cluster) -> None:
    assert await cluster.commit("g", {("t", 0): 1}) == {("t", 0): 0}, "there is no group yet"
    await settled(cluster, "A", "B")
    epoch = group_of(cluster).epoch
    mine = next(iter(group_of(cluster).members["A"].assigned.values()))

    async def commit(member_id: str, generation: int, version: int = 9, partition: int = min(mine)) -> int:
        offsets = {("t", partition): 7}
        told = await cluster.commit("g", offsets, member_id=member_id, generation=generation, version=version)
        return told["t", partition]

    assert await commit("A", epoch) == 0
    assert await commit("A", epoch, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert await commit("A", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit("A", -1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit("X", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit("A", 2, 10) == 0, "it has had this one since epoch 2"
    others = min(p for ps in group_of(cluster).members["B"].assigned.values() for p in ps)
    assert await commit("B", 2, partition=others) == ErrorCode.STALE_MEMBER_EPOCH, "not yet its own then"
    told = await cluster.commit("g", {("t", min(mine)): 1, ("t", others): 1}, member_id="A", generation=2)
    assert set(told.values()) == {ErrorCode.STALE_MEMBER_EPOCH}, "all or nothing"
    await beat(cluster, "A", -1)
    await beat(cluster, "B", -1)
    assert await commit("", -1) == 0
    assert await cluster.commit("new", {("t", 0): 1}, generation=3, version=9) == {
        ("t", 0): ErrorCode.GROUP_ID_NOT_FOUND
    }


async def test_what_is_to_be_given_back_may_still_be_committed(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await join(cluster, "B")
    await beat(cluster, "A", 2)
    assert await cluster.commit("g", {("t", 3): 9}, member_id="A", generation=2) == {("t", 3): 0}


async def test_who_may_fetch(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await cluster.commit("g", {("t", 0): 5}, member_id="A", generation=2)

    async def fetch(member_id: str | None, epoch: int) -> int:
        asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        answer = await cluster.coordinator.offsets.offset_fetch(OffsetFetchRequest(groups=[asked]), request_context(9))
        return answer.groups[0].error_code

    assert await fetch(None, -1) == 0
    assert await fetch("A", 2) == 0
    assert await fetch("A", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await fetch("X", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await fetch(None, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await cluster.fetch("g", "t", 0)) == (0, 5)


async def test_offsets_of_a_subscribed_topic_are_not_deleted(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await cluster.commit("g", {("t", 0): 5, ("u", 0): 6}, member_id="A", generation=2)
    asked = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("t", "u")
    ]
    answer = await cluster.coordinator.offsets.offset_delete(
        OffsetDeleteRequest(group_id="g", topics=asked), request_context(0)
    )
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert await cluster.fetch_all("g") == {("t", 0): 5}


# ---------------------------------------------------------------- from one protocol to the other


async def classic_beat(cluster: Cluster, member_id: str, generation: int) -> int:
    request = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation)
    return (await cluster.coordinator.classic.heartbeat(request, request_context(4))).error_code


async def classic_sync(cluster: Cluster, member_id: str, generation: int) -> Any:
    request = SyncGroupRequest(group_id="g", member_id=member_id, generation_id=generation)
    return await cluster.coordinator.classic.sync_group(request, request_context(3))


async def test_up_and_down_again(cluster: Cluster) -> None:
    classic_id = await cluster.stable()
    shard = shard_of(cluster)
    assert (await join(cluster, "A")).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its assignment does not parse"
    for member in shard.groups["g"].members:
        member.assignment = b""
    await cluster.commit("g", {("t", 0): 5}, member_id=classic_id, generation=1)
    assert (await join(cluster, "A")).member_epoch == 2
    assert "g" not in shard.groups and group_of(cluster).members.keys() == {"A", classic_id}
    assert await classic_beat(cluster, classic_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await cluster.join("g", classic_id, version=5)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 2, "")
    assert len(has(await classic_sync(cluster, classic_id, 2))["t"]) == 2
    assert (await classic_sync(cluster, "X", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await classic_beat(cluster, "X", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    for _ in range(2):  # what a restart finds is the same
        before = picture(group_of(cluster))
        await cluster.coordinator.close()
        cluster.restart()
        await cluster.coordinator.prepare("g")
        assert picture(group_of(cluster)) == before and not shard_of(cluster).groups
    assert (await beat(cluster, "A", -1)).error_code == 0
    shard = shard_of(cluster)
    assert "g" not in shard.consumer.groups
    group = shard.groups["g"]
    assert (group.state, group.generation, [m.member_id for m in group.members]) == (
        "PreparingRebalance",
        2,
        [classic_id],
    )
    assert await classic_beat(cluster, classic_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await cluster.join("g", classic_id, version=5)).generation_id == 3
    assert await cluster.fetch_all("g") == {("t", 0): 5}
    await cluster.coordinator.close()
    cluster.restart()
    await cluster.coordinator.prepare("g")
    assert shard_of(cluster).groups["g"].generation == 2 and not shard_of(cluster).consumer.groups


@pytest.mark.parametrize("with_snapshot", [False, True])
async def test_the_next_owner_of_a_group_that_became_classic_rebalances_it(
    cluster: Cluster, with_snapshot: bool
) -> None:
    """Its record lacks the member that left, and nobody else would notice that its partitions are nobody's."""
    await join(cluster, "A")
    joined = await cluster.join("g", "", version=3, protocols=one_protocol())
    classic_id = joined.member_id
    await beat(cluster, "A", 2)
    await beat(cluster, "A", 2, [0, 1])
    await cluster.join("g", classic_id, version=3, protocols=one_protocol())
    assert has(await classic_sync(cluster, classic_id, 3)) == {"t": [2, 3]}
    assert await classic_beat(cluster, classic_id, 3) == ErrorCode.NONE
    assert (await beat(cluster, "A", -1)).error_code == 0
    if with_snapshot:
        await shard_of(cluster).save_snapshot(force=True)
    await cluster.coordinator.close()
    cluster.restart()
    await cluster.coordinator.prepare("g")
    assert await classic_beat(cluster, classic_id, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = await cluster.join("g", classic_id, version=3, protocols=one_protocol())
    assert (rejoined.error_code, rejoined.generation_id, rejoined.leader) == (0, 4, classic_id)
    assert (await classic_sync(cluster, classic_id, 4)).error_code == 0
    await cluster.coordinator.close()
    cluster.restart()
    await cluster.coordinator.prepare("g")
    assert shard_of(cluster).groups["g"].state == "Stable", "the rebalance is over"


async def test_who_waits_in_a_classic_group_joins_the_consumer_group(cluster: Cluster) -> None:
    classic_id = await cluster.stable()
    for member in shard_of(cluster).groups["g"].members:
        member.assignment = b""
    waiting = asyncio.create_task(cluster.join("g", "", version=3))
    await until(lambda: shard_of(cluster).groups["g"].state == "PreparingRebalance")
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = asyncio.create_task(join(cluster, "A"))
    await until(lambda: log.pending_count == 1)
    another = asyncio.create_task(cluster.join("g", "", version=3))
    leaving = asyncio.create_task(
        cluster.coordinator.classic.leave_group(
            LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=classic_id)]), request_context(4)
        )
    )
    await asyncio.sleep(0)
    log.is_acknowledging = True
    log.acknowledge()
    assert (await joining).error_code == 0
    assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await another).error_code == 0, "it came to the classic group and is in the consumer group"
    assert (await leaving).members[0].error_code == 0
    members = group_of(cluster).members
    assert classic_id not in members and len(members) == 3


async def test_an_upgrade_in_the_middle_of_a_rebalance_takes_nothing_from_cooperative_members(cluster: Cluster) -> None:
    """They keep their partitions while they join, and a second rebalance may begin before the first has ended."""
    classic_id = await cluster.stable()
    group = shard_of(cluster).groups["g"]
    group.members.by_id[classic_id].assignment = assignment({"t": [0, 1, 2, 3]})
    joining = [asyncio.create_task(cluster.join("g", "", version=3))]
    await until(lambda: group.state == "PreparingRebalance")
    assert (await cluster.join("g", classic_id, version=3)).error_code == 0
    joining.append(asyncio.create_task(cluster.join("g", "", version=3)))
    await until(lambda: group.state == "PreparingRebalance")
    assert has_of(await join(cluster, "A")) == []
    assert (await joining[0]).error_code == 0
    assert (await joining[1]).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    (owned,) = group_of(cluster).members[classic_id].held.values()
    assert owned == {0, 1, 2, 3}


async def test_a_classic_record_on_its_way_is_waited_for(cluster: Cluster) -> None:
    joined = await cluster.join("g", "", version=3)
    log = cluster.log_of("g")
    log.is_acknowledging = False
    syncing = asyncio.create_task(classic_sync(cluster, joined.member_id, 1))
    await until(lambda: log.pending_count == 1)
    joining = asyncio.create_task(join(cluster, "A"))
    await asyncio.sleep(0)
    assert log.pending_count == 1, "the group is about to be another"
    log.is_acknowledging = True
    log.acknowledge()
    assert (await syncing).error_code == 0
    assert (await joining).error_code == 0
    assert joined.member_id in group_of(cluster).members


async def test_a_classic_group_on_its_way_up_writes_nothing(cluster: Cluster) -> None:
    joined = await cluster.join("g", "", version=3)
    log = cluster.log_of("g")
    log.is_acknowledging = False
    joining = asyncio.create_task(join(cluster, "A"))
    await until(lambda: log.pending_count == 1)
    syncing = await classic_sync(cluster, joined.member_id, 1)
    assert syncing.error_code == ErrorCode.REBALANCE_IN_PROGRESS and log.pending_count == 1
    log.is_acknowledging = True
    log.acknowledge()
    assert (await joining).error_code == 0
    cluster.restart()
    await cluster.coordinator.prepare("g")
    assert group_of(cluster).exists and not shard_of(cluster).groups


async def test_an_empty_consumer_group_makes_place(cluster: Cluster) -> None:
    await settled(cluster, "A")
    await cluster.commit("g", {("t", 0): 5}, member_id="A", generation=2)
    await beat(cluster, "A", -1)
    joined = await cluster.join("g", "", version=3)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert "g" not in shard_of(cluster).consumer.groups and "g" in shard_of(cluster).groups
    assert await cluster.fetch_all("g") == {("t", 0): 5}


async def test_leaving_a_consumer_group_by_the_classic_way(cluster: Cluster) -> None:
    await settled(cluster, "A")
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="A"), MemberIdentity(member_id="X")])
    left = await cluster.coordinator.classic.leave_group(request, request_context(4))
    assert [member.error_code for member in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert not group_of(cluster).members


async def test_a_classic_member_that_syncs_too_late_is_put_out(cluster: Cluster) -> None:
    await settled(cluster, "A")
    joined = await cluster.join(
        "g", "", version=3, rebalance_timeout_ms=30, session_ms=30_000, protocols=one_protocol()
    )
    assert joined.error_code == 0
    await until(lambda: joined.member_id in group_of(cluster).members)
    await until(lambda: joined.member_id not in group_of(cluster).members)


async def test_a_classic_member_that_joins_again_in_time_stays_however_late_the_log_is(cluster: Cluster) -> None:
    """Its time is over while the decision on its JoinGroup waits for an append."""
    await settled(cluster, "A")
    fields = {"version": 3, "rebalance_timeout_ms": 30, "session_ms": 30_000, "protocols": one_protocol()}
    joined = await cluster.join("g", "", **fields)
    classic_id = joined.member_id
    assert (await classic_sync(cluster, classic_id, joined.generation_id)).error_code == 0
    await join(cluster, "B")
    assert await classic_beat(cluster, classic_id, joined.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    log = cluster.log_of("g")
    log.is_acknowledging = False
    writing = asyncio.create_task(join(cluster, "D"))
    await until(lambda: log.pending_count == 1)
    rejoining = asyncio.create_task(cluster.join("g", classic_id, **fields))
    timers = shard_of(cluster).consumer.timers_of("g")
    assert timers is not None
    await until(lambda: not timers.is_running(TimerKind.JOIN, classic_id))
    for _ in range(10):
        await asyncio.sleep(0)
    log.is_acknowledging = True
    log.acknowledge()
    assert (await writing).error_code == 0
    assert (await rejoining).error_code == 0
    generation = (await rejoining).generation_id
    assert (await classic_sync(cluster, classic_id, generation)).error_code == 0
    assert classic_id in group_of(cluster).members


def one_protocol() -> Any:
    return [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]


@pytest.mark.parametrize(("version", "told"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.STALE_MEMBER_EPOCH)])
async def test_a_producer_commits_for_members_with_their_epochs(
    cluster: Cluster, version: int, told: ErrorCode
) -> None:
    epoch = (await join(cluster, "A")).member_epoch

    async def code_of(member_id: str, generation: int) -> int:
        codes = await cluster.commit_in_transaction(
            "g", {("t", 0): 1}, member_id=member_id, generation=generation, version=version
        )
        return codes["t", 0]

    assert await code_of("A", epoch) == ErrorCode.NONE
    assert await code_of("A", epoch + 1) == told
    assert await code_of("B", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of("", -1) == ErrorCode.NONE, "a producer that does not say for whom"
