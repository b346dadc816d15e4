"""StreamsGroupHeartbeat rule by rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import CoordinatorConfig, StreamsConfig
from bmq.coordinator.modern.member_timers import NOBODY, TimerKind
from bmq.coordinator.streams import commits
from bmq.coordinator.streams.configuration import configured
from bmq.coordinator.streams.description import described
from bmq.coordinator.streams.member import MemberState
from bmq.coordinator.streams.streams_group import StreamsGroupState
from bmq.coordinator.streams.tasks import NO_TASKS, Tasks
from bmq.protocol import streams_group_records as records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.streams_group_heartbeat_request import KeyValue, TaskIds, Topology
from tests.unit.coordinator.streams.bench import COUNT, Bench, endpoint, ids, picture, replayed, subtopology, told

pytestmark = pytest.mark.unit

ALL = Tasks(ids(("0", 0), ("0", 1)))
FIRST = Tasks(ids(("0", 0)))
SECOND = Tasks(ids(("0", 1)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refused(code: ErrorCode, call: Any, *args: Any, **fields: Any) -> str:
    with pytest.raises(KafkaError) as raised:
        call(*args, **fields)
    assert raised.value.code is code
    return str(raised.value)


def statuses(answer: Any) -> list[int]:
    return [status.status_code for status in answer.status]


# ---------------------------------------------------------------- what can be said without the group


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"group_id": " "},
        {"rack_id": ""},
        {"instance_id": " "},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"standby_tasks": [TaskIds(subtopology_id="0", partitions=[0])]},
        {"topology": Topology(epoch=0, subtopologies=[subtopology("0", ["t"], source_topic_regex=["t.*"])])},
    ],
)
def test_a_bad_join(bench: Bench, fields: dict[str, Any]) -> None:
    refused(ErrorCode.INVALID_REQUEST, bench.join, "a", **fields)
    assert not bench.log


def test_members_that_do_not_name_their_process_are_taken_as_of_one(bench: Bench) -> None:
    """As Apache Kafka 4.3 takes them: neither process nor tasks are there twice."""
    bench.config = replace(bench.config, standby_replicas=1)
    bench.join("a", process_id=None)
    bench.join("b", process_id=None)
    for _ in range(3):
        for member_id in ("a", "b"):
            member = bench.existing.members[member_id]
            bench.beat(member_id, member.epoch, Tasks(frozenset(member.tasks.active), frozenset(), frozenset()))
    held = [bench.existing.members[member_id].tasks for member_id in ("a", "b")]
    assert sorted(task for tasks in held for task in tasks.active) == sorted(ids(("0", 0), ("0", 1)))
    assert not any(tasks.passive for tasks in held)


def test_a_bad_heartbeat(bench: Bench) -> None:
    bench.join("a")
    refused(ErrorCode.INVALID_REQUEST, bench.beat, "a", 2, topology=COUNT)
    refused(ErrorCode.INVALID_REQUEST, bench.beat, "a", 2, active_tasks=[])
    for task in (("x", 0), ("0", 2), ("0", -1)):
        refused(ErrorCode.INVALID_REQUEST, bench.beat, "a", 2, Tasks(ids(task)))


def test_topologies_are_checked(bench: Bench) -> None:
    bad = Topology(epoch=0, subtopologies=[subtopology("0", ["a/b"])])
    refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, bench.join, "a", topology=bad)


# ---------------------------------------------------------------- groups and members


def test_the_first_member_gets_everything(bench: Bench) -> None:
    answer = bench.join("a")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert told(answer) == ALL and answer.status == []
    assert bench.existing.state is StreamsGroupState.STABLE
    assert [type(records.decode_key(key)) for key, _ in bench.log] == [
        records.MemberKey,
        records.TopologyKey,
        records.EpochKey,
        records.TargetKey,
        records.TargetEpochKey,
        records.CurrentKey,
    ]
    assert told(bench.beat("a", 2, ALL)) is None
    assert len(bench.log) == 6, "a heartbeat that changes nothing writes nothing"


def test_who_is_unknown(bench: Bench) -> None:
    refused(ErrorCode.GROUP_ID_NOT_FOUND, bench.beat, "a", 1)
    refused(ErrorCode.GROUP_ID_NOT_FOUND, bench.leave, "a")
    bench.join("a")
    refused(ErrorCode.UNKNOWN_MEMBER_ID, bench.beat, "b", 2)
    refused(ErrorCode.UNKNOWN_MEMBER_ID, bench.leave, "b")


def test_groups_of_other_kinds_stay(bench: Bench) -> None:
    bench.is_taken = True
    assert "not a streams group" in refused(ErrorCode.GROUP_ID_NOT_FOUND, bench.join, "a")
    refused(ErrorCode.GROUP_ID_NOT_FOUND, bench.leave, "a")
    bench.is_taken = False
    bench.classic = Group("g", CoordinatorConfig())
    assert told(bench.join("a")) == ALL, "an empty classic group gives way"


def test_a_full_group(bench: Bench) -> None:
    bench.config = replace(bench.config, max_size=1)
    bench.join("a")
    refused(ErrorCode.GROUP_MAX_SIZE_REACHED, bench.join, "b")
    bench.join("a")


def test_epochs(bench: Bench) -> None:
    bench.join("a")
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 3)
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 1)
    bench.join("b")
    assert bench.beat("a", 2, FIRST).member_epoch == 3
    answer = bench.beat("a", 2, FIRST)  # the answer was lost
    assert (answer.member_epoch, told(answer)) == (3, None)
    answer = bench.beat("a", 3, NO_TASKS)  # and what it was told to have, before that
    assert (answer.member_epoch, told(answer)) == (3, FIRST)
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 2)
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 2, ALL)


def test_a_member_that_comes_back_keeps_its_tasks(bench: Bench) -> None:
    bench.join("a")
    written = len(bench.log)
    answer = bench.join("a")
    assert (answer.member_epoch, told(answer)) == (2, ALL)
    assert len(bench.log) == written


def test_a_task_goes_from_one_to_the_other(bench: Bench) -> None:
    """As Kafka's trace of a consumer group: the old owner gives back first."""
    bench.join("a")
    answer = bench.join("b")
    assert (answer.member_epoch, told(answer)) == (3, NO_TASKS)
    answer = bench.beat("a", 2)
    assert (answer.member_epoch, told(answer)) == (2, FIRST)
    assert bench.existing.members["a"].state is MemberState.UNREVOKED
    assert (TimerKind.REBALANCE, "a") in {(order.kind, order.member_id) for order in (bench.draft or 0).timers}  # type: ignore[union-attr]
    assert told(bench.beat("b", 3)) is None
    assert bench.beat("a", 2, ALL).member_epoch == 2, "it has not given it back"
    assert bench.beat("a", 2, FIRST).member_epoch == 3
    answer = bench.beat("b", 3)
    assert (answer.member_epoch, told(answer)) == (3, SECOND)
    assert bench.existing.state is StreamsGroupState.STABLE
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_leaving(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    answer = bench.leave("b")
    assert (answer.member_id, answer.member_epoch, answer.status) == ("b", -1, [])
    assert (answer.active_tasks, answer.partitions_by_user_endpoint) == (None, None)
    assert bench.existing.epoch == 4
    bench.leave("a")
    assert bench.existing.state is StreamsGroupState.EMPTY
    assert (bench.existing.epoch, bench.existing.target_epoch) == (5, 3), "nobody has computed a later target"
    assert not bench.existing.is_subscribed_to("t"), "an empty group keeps no offsets"
    assert told(bench.join("c")) == ALL


def test_timers_put_members_out(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    assert not bench.expire("nobody")
    bench.beat("a", 2)
    assert not bench.expire("a", TimerKind.REBALANCE, 1)
    assert bench.expire("a", TimerKind.REBALANCE, 2)
    assert told(bench.beat("b", 3)) == ALL
    assert not bench.expire("b", TimerKind.REBALANCE, 3)
    assert bench.expire("b")


# ---------------------------------------------------------------- static members


def test_a_static_member_leaves_for_a_while(bench: Bench) -> None:
    bench.join("a", "P", instance_id="i")
    refused(ErrorCode.UNRELEASED_INSTANCE_ID, bench.join, "b", instance_id="i")
    refused(ErrorCode.FENCED_INSTANCE_ID, bench.beat, "b", -2, instance_id="i")
    refused(ErrorCode.UNKNOWN_MEMBER_ID, bench.beat, "a", -2, instance_id="j")
    answer = bench.beat("a", -2, instance_id="i")
    assert (answer.member_id, answer.member_epoch, answer.active_tasks) == ("a", -2, None)
    assert bench.existing.epoch == 2, "nobody else gets its tasks"
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 2, instance_id="i")
    assert told(bench.join("c")) == NO_TASKS
    bench.config = replace(bench.config, max_size=2)
    answer = bench.join("b", "P", instance_id="i")
    assert (answer.member_epoch, told(answer)) == (3, FIRST), "it gave the rest back when it left"
    assert bench.existing.members.keys() == {"b", "c"} and bench.existing.epoch == 3
    assert told(bench.beat("c", 3)) == SECOND
    refused(ErrorCode.FENCED_INSTANCE_ID, bench.beat, "a", 2, instance_id="i")
    assert told(bench.beat("b", 3, FIRST, instance_id="i")) is None
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_a_static_member_that_does_not_come_back(bench: Bench) -> None:
    bench.join("a", instance_id="i")
    bench.join("b")
    bench.beat("a", 2, instance_id="i")
    bench.beat("a", -2, instance_id="i")
    assert not bench.expire("a", TimerKind.REBALANCE, 2), "it has nothing to give back"
    assert bench.expire("a")
    assert not bench.existing.static_ids
    assert told(bench.beat("b", 3)) == ALL
    refused(ErrorCode.UNKNOWN_MEMBER_ID, bench.beat, "a", 2, instance_id="i")
    bench.join("a", instance_id="i")
    bench.beat("a", -1, instance_id="i")
    assert bench.existing.members.keys() == {"b"}, "it may leave for good as well"


def test_a_static_member_comes_back_in_another_process(bench: Bench) -> None:
    """What another member of that process follows is not given to it before that lets go."""
    bench.group_configs = {"streams.num.standby.replicas": "1"}
    bench.join("a", "P", instance_id="i")
    bench.join("b", "Q")
    bench.beat("a", 2, ALL, instance_id="i")
    bench.beat("a", 2, FIRST, instance_id="i")
    bench.beat("b", 3)
    assert bench.existing.members["b"].tasks.standby == ids(("0", 0))
    bench.beat("a", -2, instance_id="i")
    answer = bench.join("c", "Q", instance_id="i")
    given = told(answer)
    assert given is not None and not given.active & ids(("0", 0))
    near = [task for one in bench.existing.members.values() for task in (*one.tasks.active, *one.tasks.passive)]
    assert len(near) == len(set(near))


# ---------------------------------------------------------------- epochs of the group


def test_what_a_member_says_anew_counts(bench: Bench) -> None:
    bench.join("a")
    epochs = []
    for fields in (
        {"rack_id": "r"},
        {"user_endpoint": endpoint(1)},
        {"client_tags": [KeyValue(key="zone", value="z")]},
        {"process_id": "p"},
        {"rebalance_timeout_ms": 5},
        {"rebalance_timeout_ms": 5},
    ):
        bench.beat("a", bench.existing.members["a"].epoch, ALL, **fields)
        epochs.append(bench.existing.epoch)
    assert epochs == [3, 4, 5, 6, 7, 7]
    member = bench.existing.members["a"]
    assert (member.rack_id, member.process_id, member.client_tags) == ("r", "p", (("zone", "z"),))


def test_a_change_of_topics_counts_when_it_is_looked_at(bench: Bench) -> None:
    bench.join("a")
    bench.topics = {"t": 3, "log": 3}
    bench.is_stale = True
    answer = bench.beat("a", 2)
    assert answer.member_epoch == 3
    assert told(answer) == Tasks(ids(("0", 0), ("0", 1), ("0", 2)))
    bench.topics["other"] = 1
    bench.is_stale = True
    assert bench.beat("a", 3).member_epoch == 3


def test_the_groups_configs_count(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.group_configs = {"streams.num.standby.replicas": "1"}
    bench.beat("a", 2, FIRST)
    assert bench.existing.epoch == 4
    assert bench.existing.assignment_configs == {"num.standby.replicas": "1"}
    assert bench.existing.targets["a"].standby == SECOND.active


def test_targets_are_not_computed_too_often(bench: Bench) -> None:
    bench.config = StreamsConfig(initial_rebalance_delay_ms=0)
    assert bench.join("a").member_epoch == 2
    bench.now_ms += 999
    answer = bench.join("b")
    assert (answer.member_epoch, told(answer)) == (2, NO_TASKS)
    bench.now_ms += 1
    assert bench.beat("b", 2).member_epoch == 3


def test_a_group_that_is_empty_again_computes_its_next_target_at_once(bench: Bench) -> None:
    bench.config = StreamsConfig(initial_rebalance_delay_ms=0)
    bench.join("a")
    bench.leave("a")
    assert (bench.existing.epoch, bench.existing.target_epoch) == (3, 2)
    answer = bench.join("b")
    assert (answer.member_epoch, told(answer)) == (4, ALL), "it need not wait for the interval"


def test_the_first_target_waits_for_more(bench: Bench) -> None:
    bench.config = StreamsConfig(assignment_interval_ms=0)
    answer = bench.join("a")
    assert (answer.member_epoch, told(answer), statuses(answer)) == (1, NO_TASKS, [5])
    assert bench.draft is not None
    assert [(order.member_id, order.timeout_ms) for order in bench.draft.timers if order.kind is TimerKind.DELAY] == [
        (NOBODY, 3_000)
    ]
    assert statuses(bench.join("b")) == [5]
    bench.end_delay()
    assert bench.existing.target_epoch == 3
    answer = bench.beat("a", 1, NO_TASKS)
    assert (answer.member_epoch, told(answer), statuses(answer)) == (3, FIRST, [])
    for member_id in "ab":
        bench.leave(member_id)
    bench.end_delay()  # nobody is there
    answer = bench.join("c")
    assert statuses(answer) == [5], "a group that is empty again waits again"
    assert (answer.member_epoch, told(answer)) == (bench.existing.target_epoch, NO_TASKS) == (3, NO_TASKS)
    bench.end_delay()
    assert told(bench.beat("c", 3, NO_TASKS)) == ALL


def test_topics_that_are_back_after_the_first_target(bench: Bench) -> None:
    """The target that was computed without them is not taken for that of the topics before."""
    bench.config = StreamsConfig(assignment_interval_ms=0)
    bench.join("a")
    bench.topics, topics, bench.is_stale = {}, bench.topics, True
    bench.end_delay()
    assert bench.existing.state is StreamsGroupState.NOT_READY
    bench.topics, bench.is_stale = topics, True
    assert told(bench.beat("a", 1, NO_TASKS)) == ALL


# ---------------------------------------------------------------- topologies


def test_topologies_of_later_members(bench: Bench) -> None:
    newer = Topology(epoch=1, subtopologies=[subtopology("0", ["t"])])
    bench.join("a", topology=newer)
    answer = bench.join("b", topology=COUNT)
    assert statuses(answer) == [0] and answer.error_code == 0
    refused(ErrorCode.INVALID_REQUEST, bench.join, "c", topology=Topology(epoch=1, subtopologies=COUNT.subtopologies))
    refused(ErrorCode.INVALID_REQUEST, bench.join, "c", topology=Topology(epoch=2, subtopologies=newer.subtopologies))
    assert statuses(bench.join("c", topology=newer)) == []


def test_a_group_that_lost_its_topology_asks_for_it(bench: Bench) -> None:
    bench.join("a")
    bench.existing.apply(records.TopologyKey(group="g"), None)
    assert bench.existing.state is StreamsGroupState.NOT_READY
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 2)
    assert bench.join("a").error_code == 0
    assert bench.existing.topology is not None


def test_missing_topics(bench: Bench) -> None:
    bench.topics = {}
    answer = bench.join("a")
    assert (statuses(answer), told(answer)) == ([1], NO_TASKS)
    assert bench.existing.state is StreamsGroupState.NOT_READY
    bench.topics = {"t": 2}
    bench.creation_error = "log: no room"
    answer = bench.beat("a", answer.member_epoch)
    assert statuses(answer) == [3]
    assert answer.status is not None
    assert answer.status[0].status_detail == "Internal topics are missing: log; Creation failed: log: no room."
    bench.topics = {"t": 2, "log": 3}
    assert statuses(bench.beat("a", answer.member_epoch)) == [2]
    bench.topics = {"t": 2, "log": 2}
    answer = bench.beat("a", bench.existing.members["a"].epoch)
    assert (statuses(answer), told(answer)) == ([], ALL)
    assert bench.existing.validated_epoch == 0
    assert bench.existing.state is StreamsGroupState.STABLE


# ---------------------------------------------------------------- the application


def test_shutdown_is_told_to_everybody(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    assert statuses(bench.beat("a", 2, FIRST, shutdown_application=True)) == [4]
    answer = bench.beat("b", 3)
    assert statuses(answer) == [4] and answer.status is not None
    assert "member a " in answer.status[0].status_detail


def test_endpoints(bench: Bench) -> None:
    bench.topics = {"t": 2, "u": 1, "log": 2}
    bench.topology = Topology(epoch=0, subtopologies=[subtopology("0", ["t", "u"], changelogs=["log"])])
    answer = bench.join("a", user_endpoint=endpoint(1))
    assert answer.endpoint_information_epoch == 1
    (told_of,) = answer.partitions_by_user_endpoint or ()
    assert (told_of.user_endpoint.host, told_of.user_endpoint.port) == ("localhost", 1)
    assert [(part.topic, part.partitions) for part in told_of.active_partitions] == [("t", [0, 1]), ("u", [0])]
    assert bench.beat("a", 2, endpoint_information_epoch=1).partitions_by_user_endpoint is None
    answer = bench.join("b")
    assert len(answer.partitions_by_user_endpoint or ()) == 1, "who answers nothing may still ask"
    assert answer.endpoint_information_epoch == 1


def test_standby_tasks_become_active_in_place(bench: Bench) -> None:
    bench.group_configs = {"streams.num.standby.replicas": "1"}
    bench.topics = {"t": 1, "log": 1}
    bench.join("a")
    answer = bench.join("b")
    assert told(answer) == Tasks(standby=ids(("0", 0)))
    bench.leave("a")
    answer = bench.beat("b", answer.member_epoch)
    assert told(answer) == Tasks(ids(("0", 0)))
    assert bench.existing.members["b"].state is MemberState.STABLE


def test_no_process_has_a_task_twice(bench: Bench) -> None:
    bench.topics = {"t": 1, "log": 1}
    bench.join("a", "P")
    bench.join("b", "P")
    # By hand: the task is to go to the other thread of the process, as a standby task.
    bench.existing.apply(
        records.TargetKey(group="g", member_id="b"),
        records.TargetValue(standby=(records.TaskIds(subtopology_id="0", partitions=(0,)),)),
    )
    bench.existing.apply(records.TargetKey(group="g", member_id="a"), records.TargetValue())
    bench.existing.apply(records.EpochKey(group="g"), bench.existing.epoch_record(4))
    bench.existing.apply(records.TargetEpochKey(group="g"), records.TargetEpochValue(epoch=4))
    assert told(bench.beat("b", 3, NO_TASKS)) is None
    assert bench.existing.members["b"].state is MemberState.UNRELEASED
    bench.beat("a", bench.existing.members["a"].epoch)
    assert bench.existing.members["a"].state is MemberState.UNREVOKED
    assert told(bench.beat("b", 4)) is None
    bench.beat("a", bench.existing.members["a"].epoch, NO_TASKS)
    assert told(bench.beat("b", 4)) == Tasks(standby=ids(("0", 0)))


def test_states_of_later_servers_are_fenced(bench: Bench) -> None:
    bench.join("a")
    member = bench.existing.members["a"]
    bench.existing.apply(records.CurrentKey(group="g", member_id="a"), replace(member.current_value(), state=9))
    assert bench.existing.members["a"].state is MemberState.UNKNOWN
    refused(ErrorCode.FENCED_MEMBER_EPOCH, bench.beat, "a", 2)
    assert told(bench.join("a")) == ALL


# ---------------------------------------------------------------- offsets


def test_commits(bench: Bench) -> None:
    bench.join("a")
    bench.join("b")
    bench.beat("a", 2)
    bench.beat("a", 2, FIRST)
    group = bench.existing

    def check(member_id: str, epoch: int, *partitions: tuple[str, int]) -> ErrorCode:
        return commits.check_commit(group, member_id, epoch, partitions)

    assert check("a", 3, ("t", 1)) is ErrorCode.NONE
    assert check("a", 2, ("t", 0)) is ErrorCode.NONE, "it has it since then"
    assert check("a", 2, ("t", 1)) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("a", 2, ("t", 0), ("u", 0)) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("a", 4, ("t", 0)) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("c", 3, ("t", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("", -1, ("t", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    for member_id, epoch, code in (
        (None, -1, ErrorCode.NONE),
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert commits.check_fetch(group, member_id, epoch) is code
    for member_id in "ab":
        bench.leave(member_id)
    assert check("", -1, ("t", 0)) is ErrorCode.NONE


def test_a_description_before_the_first_target(bench: Bench) -> None:
    """As in Kafka a group begins with an empty target of epoch 1."""
    bench.config = StreamsConfig()
    bench.join("a")
    for group in (bench.existing, replayed(bench.log)):
        assert group is not None and group.topology is not None
        shown = described(group, configured(group.topology, bench.image))
        assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Assigning", 2, 1)
    bench.existing.apply(records.TargetEpochKey(group="g"), records.TargetEpochValue(epoch=0))
    assert bench.existing.target_epoch == 1, "what an earlier release's snapshot says"
    bench.leave("a")
    shown = described(bench.existing, None)
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Empty", 3, 1)


def test_a_description(bench: Bench) -> None:
    bench.join("a", user_endpoint=endpoint(9), client_tags=[KeyValue(key="k", value="v")])
    group = bench.existing
    assert group.topology is not None
    shown = described(group, configured(group.topology, bench.image))
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Stable", 2, 2)
    assert shown.topology is not None and shown.topology.subtopologies is not None
    (part,) = shown.topology.subtopologies
    assert [(topic.name, topic.partitions) for topic in part.state_changelog_topics] == [("log", 2)]
    (member,) = shown.members
    assert (member.process_id, member.topology_epoch, member.is_classic) == ("process of a", 0, False)
    assert member.user_endpoint is not None and member.user_endpoint.port == 9
    assert [(tasks.subtopology_id, tasks.partitions) for tasks in member.assignment.active_tasks] == [("0", [0, 1])]
    bench.topics = {}
    lost = described(group, configured(group.topology, bench.image))
    assert lost.topology is not None and lost.topology.subtopologies is None
    assert described(group, None).topology is None
    assert (shown.assignor_name, shown.topology_description_status) == ("sticky", 0)
