"""FindCoordinator, classic groups, consumer groups of KIP-848, committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.world import World, subscription

CASES: Final = Cases()
COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE = 10, 11, 12, 13, 14, 15, 16, 42
COMMIT, FETCH_OFFSETS, DELETE_OFFSETS = 8, 9, 47
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 68, 69


# -- FindCoordinator ---------------------------------------------------------------------------------------------------


def find(*keys: str, key_type: int = 0) -> dict[str, Any]:
    return {"key": keys[0] if keys else "", "coordinator_keys": list(keys), "key_type": key_type}


@CASES.add(COORDINATOR, "of a group", valid=True)
def _(world: World, version: int) -> Any:
    return find(world.name())


@CASES.add(COORDINATOR, "of a transactional id", since=1)
def _(world: World, version: int) -> Any:
    return find(world.name(), key_type=1)


@CASES.add(COORDINATOR, "of an empty name")
def _(world: World, version: int) -> Any:
    return find("")


@CASES.add(COORDINATOR, "of an empty transactional id", since=1)
def _(world: World, version: int) -> Any:
    return find("", key_type=1)


@CASES.add(COORDINATOR, "of a share partition", since=6)
def _(world: World, version: int) -> Any:
    from tests.conformance.answers import kafka_id

    topic = world.read_topic()
    return find(f"{world.name('g')}:{kafka_id(world.topic_id(topic))}:0", key_type=2)


@CASES.add(COORDINATOR, "of a share partition whose key is none", since=6)
def _(world: World, version: int) -> Any:
    return find("no such key", key_type=2)


@CASES.add(COORDINATOR, "key types that do not exist", since=1)
def _(world: World, version: int) -> Any:
    return find(world.name(), key_type=9)


@CASES.add(COORDINATOR, "a key type below 0", since=1)
def _(world: World, version: int) -> Any:
    return find(world.name(), key_type=-1)


@CASES.add(COORDINATOR, "several keys", since=4)
def _(world: World, version: int) -> Any:
    return find(world.name("a"), world.name("b"), world.name("a"), "")


@CASES.add(COORDINATOR, "no keys", since=4)
def _(world: World, version: int) -> Any:
    return find()


# -- JoinGroup ---------------------------------------------------------------------------------------------------------


def join(group: str, member_id: str = "", **request: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(["t"])}],
        "reason": None,
        **request,
    }


@CASES.add(JOIN, "the first member", valid=True)
def _(world: World, version: int) -> Any:
    return join(world.name())


@CASES.add(JOIN, "with the member id that it was given", since=4)
def _(world: World, version: int) -> Any:
    values = join(world.name())
    given = world.call(JOIN, 4, **values)["member_id"]
    world.aliases.learn(given, "given")
    return {**values, "member_id": given}


@CASES.add(JOIN, "a static member", since=5)
def _(world: World, version: int) -> Any:
    return join(world.name(), group_instance_id="static")


@CASES.add(JOIN, "a static member again", since=5)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group, ["t"], instance="static")
    return join(group, group_instance_id="static")


@CASES.add(JOIN, "an unknown member id")
def _(world: World, version: int) -> Any:
    return join(world.name(), "nobody")


@CASES.add(JOIN, "an unknown static member", since=5)
def _(world: World, version: int) -> Any:
    return join(world.name(), "nobody", group_instance_id="static")


@CASES.add(JOIN, "an empty group id")
def _(world: World, version: int) -> Any:
    return join("")


@CASES.add(JOIN, "timeouts out of bounds")
def _(world: World, version: int) -> Any:
    return join(world.name(), session_timeout_ms=1)


@CASES.add(JOIN, "a session timeout far too long")
def _(world: World, version: int) -> Any:
    return join(world.name(), session_timeout_ms=2**31 - 1)


@CASES.add(JOIN, "no protocols")
def _(world: World, version: int) -> Any:
    return join(world.name(), protocols=[])


@CASES.add(JOIN, "an empty protocol type")
def _(world: World, version: int) -> Any:
    return join(world.name(), protocol_type="")


@CASES.add(JOIN, "another protocol type than the group's")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group)
    return join(group, protocol_type="connect")


@CASES.add(JOIN, "no protocol that the group has")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group)
    return join(group, protocols=[{"name": "other", "metadata": b""}])


# Kafka never answers: one version is enough to wait for.
@CASES.add(JOIN, "a protocol twice", since=3, until=3)
def _(world: World, version: int) -> Any:
    return join(world.name(), protocols=[{"name": "range", "metadata": b"a"}, {"name": "range", "metadata": b"b"}])


@CASES.add(JOIN, "the only member again")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.member(group, ["t"])
    return join(group, member["member_id"])


@CASES.add(JOIN, "a group of the newer protocol")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.consumer(group, [world.read_topic()])
    return join(group, protocols=[{"name": "range", "metadata": b"no subscription"}])


# -- SyncGroup, Heartbeat, LeaveGroup ----------------------------------------------------------------------------------


def joined(world: World, group: str) -> dict[str, Any]:
    """The leader of a group that waits for its assignment."""
    answer = world.until(
        lambda: world.call(JOIN, 3, **join(group)), lambda answer: answer["error_code"] not in (14, 15, 16)
    )
    world.aliases.learn(answer["member_id"], f"member of {group}")
    return {"group_id": group, "member_id": answer["member_id"], "generation_id": answer["generation_id"]}


def sync(member: Mapping[str, Any], **request: Any) -> dict[str, Any]:
    return {
        **member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member["member_id"], "assignment": b"mine"}],
        **request,
    }


NOBODY: Final = {"member_id": "nobody", "generation_id": 1}


@CASES.add(SYNC, "the leader's assignment", valid=True)
def _(world: World, version: int) -> Any:
    return sync(joined(world, world.name()))


@CASES.add(SYNC, "an unknown group")
def _(world: World, version: int) -> Any:
    return sync({"group_id": world.name(), **NOBODY})


@CASES.add(SYNC, "an unknown member")
def _(world: World, version: int) -> Any:
    return sync({**joined(world, world.name()), "member_id": "nobody"})


@CASES.add(SYNC, "another generation")
def _(world: World, version: int) -> Any:
    return sync({**joined(world, world.name()), "generation_id": 77})


@CASES.add(SYNC, "once more, for the same assignment")
def _(world: World, version: int) -> Any:
    return sync(world.member(world.name()), assignments=[])


@CASES.add(SYNC, "another protocol", since=5)
def _(world: World, version: int) -> Any:
    return sync(joined(world, world.name()), protocol_name="other")


@CASES.add(SYNC, "protocols are null", since=5)
def _(world: World, version: int) -> Any:
    return sync(joined(world, world.name()), protocol_name=None, protocol_type=None)


@CASES.add(SYNC, "a static member that is none", since=3)
def _(world: World, version: int) -> Any:
    return sync(joined(world, world.name()), group_instance_id="static")


@CASES.add(SYNC, "an assignment for nobody")
def _(world: World, version: int) -> Any:
    return sync(joined(world, world.name()), assignments=[{"member_id": "nobody", "assignment": b"lost"}])


@CASES.add(SYNC, "an empty group id")
def _(world: World, version: int) -> Any:
    return sync({"group_id": "", **NOBODY})


@CASES.add(HEARTBEAT, "a member", valid=True)
def _(world: World, version: int) -> Any:
    return world.member(world.name())


@CASES.add(HEARTBEAT, "an unknown group")
def _(world: World, version: int) -> Any:
    return {"group_id": world.name(), **NOBODY}


@CASES.add(HEARTBEAT, "an unknown member")
def _(world: World, version: int) -> Any:
    return {**world.member(world.name()), "member_id": "nobody"}


@CASES.add(HEARTBEAT, "another generation")
def _(world: World, version: int) -> Any:
    return {**world.member(world.name()), "generation_id": 77}


@CASES.add(HEARTBEAT, "a static member that is another", since=3)
def _(world: World, version: int) -> Any:
    return {**world.member(world.name(), instance="static"), "member_id": "other", "group_instance_id": "static"}


@CASES.add(HEARTBEAT, "a static member that is none", since=3)
def _(world: World, version: int) -> Any:
    return {**world.member(world.name()), "group_instance_id": "static"}


@CASES.add(HEARTBEAT, "an empty group id")
def _(world: World, version: int) -> Any:
    return {"group_id": "", **NOBODY}


@CASES.add(HEARTBEAT, "a member that waits for its assignment")
def _(world: World, version: int) -> Any:
    return joined(world, world.name())


def leave(group: str, *members: tuple[str, str | None]) -> dict[str, Any]:
    leaving = [{"member_id": member, "group_instance_id": instance, "reason": "enough"} for member, instance in members]
    return {"group_id": group, "member_id": members[0][0] if members else "", "members": leaving}


@CASES.add(LEAVE, "a member", valid=True)
def _(world: World, version: int) -> Any:
    group = world.name()
    return leave(group, (world.member(group)["member_id"], None))


@CASES.add(LEAVE, "an unknown group")
def _(world: World, version: int) -> Any:
    return leave(world.name(), ("nobody", None))


@CASES.add(LEAVE, "an unknown member")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group)
    return leave(group, ("nobody", None))


@CASES.add(LEAVE, "good and bad members", since=3)
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.member(group, instance="static")["member_id"]
    return leave(group, ("nobody", None), ("", "none"), ("other", "static"), (member, "static"))


@CASES.add(LEAVE, "a static member by its instance alone", since=3)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group, instance="static")
    return leave(group, ("", "static"))


@CASES.add(LEAVE, "nobody", since=3)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group)
    return leave(group)


@CASES.add(LEAVE, "an empty group id")
def _(world: World, version: int) -> Any:
    return leave("", ("nobody", None))


# -- DescribeGroups, ListGroups, DeleteGroups --------------------------------------------------------------------------


@CASES.add(DESCRIBE, "a stable group", valid=True)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group, ["t"])
    return {"groups": [group]}


@CASES.add(DESCRIBE, "an unknown group and an empty name")
def _(world: World, version: int) -> Any:
    return {"groups": [world.name("none"), ""]}


@CASES.add(DESCRIBE, "a group without members")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return {"groups": [group]}


@CASES.add(DESCRIBE, "a static member")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group, ["t"], instance="static")
    return {"groups": [group]}


@CASES.add(DESCRIBE, "a group of the newer protocol")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.consumer(group, [world.read_topic()])
    return {"groups": [group]}


@CASES.add(DESCRIBE, "a group twice")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return {"groups": [group, group]}


@CASES.add(DESCRIBE, "authorized operations", since=3)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return {"groups": [group, world.name("none")], "include_authorized_operations": True}


@CASES.add(DESCRIBE, "nothing")
def _(world: World, version: int) -> Any:
    return {"groups": []}


def some_groups(world: World) -> None:
    world.member(world.name("stable"))
    world.commit(world.name("empty"), world.read_topic())
    world.consumer(world.name("consumer"), [world.read_topic()])


@CASES.add(LIST, "all groups", valid=True, only=("groups", "group_id"))
def _(world: World, version: int) -> Any:
    some_groups(world)
    return {}


@CASES.add(LIST, "by state", since=4, only=("groups", "group_id"))
def _(world: World, version: int) -> Any:
    some_groups(world)
    return {"states_filter": ["empty", "Reconciling"]}


@CASES.add(LIST, "by a state that does not exist", since=4, only=("groups", "group_id"))
def _(world: World, version: int) -> Any:
    some_groups(world)
    return {"states_filter": ["Asleep"]}


@CASES.add(LIST, "by type", since=5, only=("groups", "group_id"))
def _(world: World, version: int) -> Any:
    some_groups(world)
    return {"types_filter": ["Consumer"]}


@CASES.add(LIST, "by a type that does not exist", since=5, only=("groups", "group_id"))
def _(world: World, version: int) -> Any:
    some_groups(world)
    return {"types_filter": ["Herd"]}


@CASES.add(DELETE, "a group without members", valid=True)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return {"groups_names": [group]}


@CASES.add(DELETE, "an unknown group")
def _(world: World, version: int) -> Any:
    return {"groups_names": [world.name("none")]}


@CASES.add(DELETE, "good and bad groups")
def _(world: World, version: int) -> Any:
    world.commit(world.name("empty"), world.read_topic())
    world.member(world.name("stable"))
    world.consumer(world.name("consumer"), [world.read_topic()])
    names = [world.name(one) for one in ("empty", "stable", "consumer", "none")]
    return {"groups_names": [*names, ""]}


@CASES.add(DELETE, "a group twice")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return {"groups_names": [group, group]}


@CASES.add(DELETE, "nothing")
def _(world: World, version: int) -> Any:
    return {"groups_names": []}


# -- OffsetCommit, OffsetFetch, OffsetDelete ---------------------------------------------------------------------------


def commit(
    world: World,
    group: str,
    topic: str,
    *partitions: int,
    offset: int = 2,
    metadata: str | None = "note",
    **request: Any,
) -> dict[str, Any]:
    places = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index in partitions or (0,)
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time_ms": -1,
        "topics": [{**world.of_topic(topic), "partitions": places}],
        **request,
    }


def as_member(member: Mapping[str, Any]) -> dict[str, Any]:
    return {"member_id": member["member_id"], "generation_id_or_member_epoch": member["generation_id"]}


@CASES.add(COMMIT, "a group without members", valid=True)
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), 0, 1)


@CASES.add(COMMIT, "an unknown topic")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.name("none"))


@CASES.add(COMMIT, "good and bad partitions")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), 0, 77, -1)


@CASES.add(COMMIT, "a known topic beside an unknown one")
def _(world: World, version: int) -> Any:
    values = commit(world, world.name(), world.read_topic())
    unknown = commit(world, "", world.name("none"))["topics"]
    return {**values, "topics": [*values["topics"], *unknown]}


@CASES.add(COMMIT, "a member")
def _(world: World, version: int) -> Any:
    group = world.name()
    return commit(world, group, world.read_topic(), **as_member(world.member(group)))


@CASES.add(COMMIT, "an unknown member")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.member(group)
    return commit(world, group, world.read_topic(), **{**as_member(member), "member_id": "nobody"})


@CASES.add(COMMIT, "another generation")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.member(group)
    return commit(world, group, world.read_topic(), **{**as_member(member), "generation_id_or_member_epoch": 77})


@CASES.add(COMMIT, "an unknown group's generation")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), member_id="nobody", generation_id_or_member_epoch=1)


@CASES.add(COMMIT, "by nobody to a group that has members")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group)
    return commit(world, group, world.read_topic())


@CASES.add(COMMIT, "an empty group id")
def _(world: World, version: int) -> Any:
    return commit(world, "", world.read_topic())


@CASES.add(COMMIT, "metadata that are too long")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), metadata="x" * 5_000)


@CASES.add(COMMIT, "metadata are null")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), metadata=None)


@CASES.add(COMMIT, "an offset below 0")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), offset=-5)


@CASES.add(COMMIT, "a static member that is another", since=7)
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.member(group, instance="static")
    values = {**as_member(member), "member_id": "other"}
    return commit(world, group, world.read_topic(), **values, group_instance_id="static")


@CASES.add(COMMIT, "a retention time", until=4)
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), retention_time_ms=1_000)


@CASES.add(COMMIT, "nothing")
def _(world: World, version: int) -> Any:
    return commit(world, world.name(), world.read_topic(), topics=[])


@CASES.add(COMMIT, "a member of the newer protocol")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.consumer(group, [world.read_topic()])
    epoch = {"member_id": member["member_id"], "generation_id_or_member_epoch": member["member_epoch"]}
    return commit(world, group, world.read_topic(), **epoch)


@CASES.add(COMMIT, "an older epoch of the newer protocol")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.consumer(group, [world.read_topic()])
    epoch = {"member_id": member["member_id"], "generation_id_or_member_epoch": 0}
    return commit(world, group, world.read_topic(), **epoch)


@CASES.add(COMMIT, "an epoch too far ahead")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.consumer(group, [world.read_topic()])
    epoch = {"member_id": member["member_id"], "generation_id_or_member_epoch": 77}
    return commit(world, group, world.read_topic(), **epoch)


def offsets(world: World, group: str, topics: Mapping[str, list[int]] | None, **member: Any) -> dict[str, Any]:
    if topics is None:
        wanted = None
    else:
        wanted = [{**world.of_topic(name), "partition_indexes": indexes} for name, indexes in topics.items()]
    return {"group_id": group, "topics": wanted, "groups": [{"group_id": group, "topics": wanted, **member}]}


@CASES.add(FETCH_OFFSETS, "a committed offset", valid=True)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return offsets(world, group, {world.read_topic(): [0]})


@CASES.add(FETCH_OFFSETS, "an unknown group")
def _(world: World, version: int) -> Any:
    return offsets(world, world.name("none"), {world.read_topic(): [0]})


@CASES.add(FETCH_OFFSETS, "good and bad partitions")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return offsets(world, group, {world.read_topic(): [0, 1, 77, -1], world.name("none"): [0]})


@CASES.add(FETCH_OFFSETS, "all of a group", since=2)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return offsets(world, group, None)


@CASES.add(FETCH_OFFSETS, "all of an unknown group", since=2)
def _(world: World, version: int) -> Any:
    return offsets(world, world.name("none"), None)


@CASES.add(FETCH_OFFSETS, "an empty group id")
def _(world: World, version: int) -> Any:
    return offsets(world, "", {world.read_topic(): [0]})


@CASES.add(FETCH_OFFSETS, "several groups", since=8)
def _(world: World, version: int) -> Any:
    world.commit(world.name("a"), world.read_topic())
    topics = offsets(world, "", {world.read_topic(): [0]})["topics"]
    names = [world.name("a"), world.name("none"), world.name("a"), ""]
    return {"groups": [{"group_id": name, "topics": topics} for name in names]}


@CASES.add(FETCH_OFFSETS, "no groups", since=8)
def _(world: World, version: int) -> Any:
    return {"groups": []}


@CASES.add(FETCH_OFFSETS, "a member of the newer protocol", since=9)
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.consumer(group, [world.read_topic()])
    epoch = {"member_id": member["member_id"], "member_epoch": member["member_epoch"]}
    return offsets(world, group, {world.read_topic(): [0]}, **epoch)


@CASES.add(FETCH_OFFSETS, "an unknown member", since=9)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.consumer(group, [world.read_topic()])
    return offsets(world, group, {world.read_topic(): [0]}, member_id="nobody", member_epoch=1)


@CASES.add(FETCH_OFFSETS, "an older epoch", since=9)
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.consumer(group, [world.read_topic()])
    return offsets(world, group, {world.read_topic(): [0]}, member_id=member["member_id"], member_epoch=0)


@CASES.add(FETCH_OFFSETS, "a member of an unknown group", since=9)
def _(world: World, version: int) -> Any:
    return offsets(world, world.name("none"), {world.read_topic(): [0]}, member_id="nobody", member_epoch=1)


@CASES.add(FETCH_OFFSETS, "an offset that a transaction may change", since=7)
def _(world: World, version: int) -> Any:
    group, name = world.name(), world.name("id")
    world.commit(group, world.read_topic())
    pending_offset(world, name, group)
    return {**offsets(world, group, {world.read_topic(): [0, 1]}), "require_stable": True}


@CASES.add(FETCH_OFFSETS, "an unstable offset where it does not matter")
def _(world: World, version: int) -> Any:
    group, name = world.name(), world.name("id")
    world.commit(group, world.read_topic())
    pending_offset(world, name, group)
    return {**offsets(world, group, {world.read_topic(): [0, 1]}), "require_stable": False}


def pending_offset(world: World, transactional_id: str, group: str) -> None:
    producer = world.producer(transactional_id)
    world.until(
        lambda: world.call(25, 3, transactional_id=transactional_id, **producer, group_id=group),
        lambda answer: not answer["error_code"],
    )
    place = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    topics = [{"name": world.read_topic(), "partitions": [place]}]
    answer = world.call(
        28,
        3,
        transactional_id=transactional_id,
        group_id=group,
        **producer,
        generation_id=-1,
        member_id="",
        topics=topics,
    )
    assert not answer["topics"][0]["partitions"][0]["error_code"], answer


def delete_offsets(group: str, *topics: tuple[str, list[int]]) -> dict[str, Any]:
    wanted = [{"name": name, "partitions": [{"partition_index": one} for one in indexes]} for name, indexes in topics]
    return {"group_id": group, "topics": wanted}


@CASES.add(DELETE_OFFSETS, "a group without members", valid=True)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return delete_offsets(group, (world.read_topic(), [0]))


@CASES.add(DELETE_OFFSETS, "an unknown group")
def _(world: World, version: int) -> Any:
    return delete_offsets(world.name("none"), (world.read_topic(), [0]))


@CASES.add(DELETE_OFFSETS, "good and bad partitions")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return delete_offsets(group, (world.read_topic(), [0, 1, 77]), (world.name("none"), [0]))


@CASES.add(DELETE_OFFSETS, "a topic that a member reads")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group, [world.read_topic()])
    return delete_offsets(group, (world.read_topic(), [0]), (world.topic("other"), [0]))


@CASES.add(DELETE_OFFSETS, "an empty group id")
def _(world: World, version: int) -> Any:
    return delete_offsets("", (world.read_topic(), [0]))


@CASES.add(DELETE_OFFSETS, "nothing")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return delete_offsets(group)


# -- KIP-848 -----------------------------------------------------------------------------------------------------------


def heartbeat(group: str, member: str, epoch: int = 0, **request: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rebalance_timeout_ms": 30_000 if epoch == 0 else -1,
        "subscribed_topic_names": None,
        "topic_partitions": [] if epoch == 0 else None,
        **request,
    }


@CASES.add(CONSUMER_HEARTBEAT, "the first member", valid=True)
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), subscribed_topic_names=[world.read_topic()])


@CASES.add(CONSUMER_HEARTBEAT, "without a member id")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "", subscribed_topic_names=[world.read_topic()])


@CASES.add(CONSUMER_HEARTBEAT, "a topic that does not exist")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), subscribed_topic_names=[world.name("none")])


@CASES.add(CONSUMER_HEARTBEAT, "an unknown member of an unknown group")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "nobody", 5)


@CASES.add(CONSUMER_HEARTBEAT, "an unknown member")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.consumer(group, [world.read_topic()])
    return heartbeat(group, "nobody", 1)


@CASES.add(CONSUMER_HEARTBEAT, "a member's next heartbeat")
def _(world: World, version: int) -> Any:
    member = world.consumer(world.name(), [world.read_topic()])
    return heartbeat(member["group_id"], member["member_id"], member["member_epoch"])


@CASES.add(CONSUMER_HEARTBEAT, "an epoch too far ahead")
def _(world: World, version: int) -> Any:
    member = world.consumer(world.name(), [world.read_topic()])
    return heartbeat(member["group_id"], member["member_id"], 77)


@CASES.add(CONSUMER_HEARTBEAT, "an epoch below -2")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), -5)


@CASES.add(CONSUMER_HEARTBEAT, "leaving")
def _(world: World, version: int) -> Any:
    member = world.consumer(world.name(), [world.read_topic()])
    return heartbeat(member["group_id"], member["member_id"], -1)


@CASES.add(CONSUMER_HEARTBEAT, "leaving a group that does not exist")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "nobody", -1)


@CASES.add(CONSUMER_HEARTBEAT, "a static member that leaves for a while")
def _(world: World, version: int) -> Any:
    group, member = world.name(), world.name("member")
    joining = heartbeat(group, member, instance_id="static", subscribed_topic_names=[world.read_topic()])
    world.call(CONSUMER_HEARTBEAT, version, **joining)
    return heartbeat(group, member, -2, instance_id="static")


@CASES.add(CONSUMER_HEARTBEAT, "a static member's place that is taken")
def _(world: World, version: int) -> Any:
    group, member = world.name(), world.name("member")
    joining = heartbeat(group, member, instance_id="static", subscribed_topic_names=[world.read_topic()])
    world.call(CONSUMER_HEARTBEAT, version, **joining)
    return {**joining, "member_id": world.name("other")}


@CASES.add(CONSUMER_HEARTBEAT, "an empty group id")
def _(world: World, version: int) -> Any:
    return heartbeat("", world.name("member"), subscribed_topic_names=["t"])


@CASES.add(CONSUMER_HEARTBEAT, "no rebalance timeout")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), subscribed_topic_names=["t"], rebalance_timeout_ms=-1)


@CASES.add(CONSUMER_HEARTBEAT, "no subscription")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"))


@CASES.add(CONSUMER_HEARTBEAT, "partitions with the first heartbeat")
def _(world: World, version: int) -> Any:
    owned = [{"topic_id": world.topic_id(world.read_topic()), "partitions": [0]}]
    return heartbeat(world.name(), world.name("member"), subscribed_topic_names=["t"], topic_partitions=owned)


@CASES.add(CONSUMER_HEARTBEAT, "an assignor that does not exist")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), subscribed_topic_names=["t"], server_assignor="none")


@CASES.add(CONSUMER_HEARTBEAT, "an empty rack and an empty instance")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), subscribed_topic_names=["t"], rack_id="", instance_id="")


@CASES.add(CONSUMER_HEARTBEAT, "a regular expression", since=1)
def _(world: World, version: int) -> Any:
    name = world.topic()
    return heartbeat(world.name(), world.name("member"), subscribed_topic_regex=f"{name}.*")


@CASES.add(CONSUMER_HEARTBEAT, "a regular expression that is none", since=1)
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), subscribed_topic_regex="[")


@CASES.add(CONSUMER_HEARTBEAT, "a group of the classic protocol with members")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.commit(group, world.read_topic())
    return heartbeat(group, world.name("member"), subscribed_topic_names=[world.read_topic()])


@CASES.add(CONSUMER_DESCRIBE, "a group", valid=True)
def _(world: World, version: int) -> Any:
    group = world.name()
    world.consumer(group, [world.read_topic()])
    return {"group_ids": [group]}


@CASES.add(CONSUMER_DESCRIBE, "a group whose last member has left")
def _(world: World, version: int) -> Any:
    group = world.name()
    member = world.consumer(group, [world.read_topic()])
    world.call(CONSUMER_HEARTBEAT, 1, **{**member, "member_epoch": -1})
    world.commit(group, world.read_topic())
    return {"group_ids": [group]}


@CASES.add(CONSUMER_DESCRIBE, "an unknown group and an empty name")
def _(world: World, version: int) -> Any:
    return {"group_ids": [world.name("none"), ""]}


@CASES.add(CONSUMER_DESCRIBE, "a classic group")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.member(group)
    return {"group_ids": [group]}


@CASES.add(CONSUMER_DESCRIBE, "a group twice, with authorized operations")
def _(world: World, version: int) -> Any:
    group = world.name()
    world.consumer(group, [world.read_topic()])
    return {"group_ids": [group, group], "include_authorized_operations": True}


@CASES.add(CONSUMER_DESCRIBE, "nothing")
def _(world: World, version: int) -> Any:
    return {"group_ids": []}
