"""Share groups (KIP-932)."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.world import World

CASES: Final = Cases()
HEARTBEAT, DESCRIBE, FETCH, ACKNOWLEDGE, OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS = 76, 77, 78, 79, 90, 91, 92
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"


def heartbeat(group: str, member: str = MEMBER, epoch: int = 0, **request: Any) -> dict[str, Any]:
    return {"group_id": group, "member_id": member, "member_epoch": epoch, "subscribed_topic_names": None, **request}


@CASES.add(HEARTBEAT, "the first member", valid=True)
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), subscribed_topic_names=[world.read_topic()])


@CASES.add(HEARTBEAT, "an unknown member")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "nobody", 5)


@CASES.add(HEARTBEAT, "an empty group id")
def _(world: World, version: int) -> Any:
    return heartbeat("", subscribed_topic_names=["t"])


@CASES.add(HEARTBEAT, "no subscription")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name())


@CASES.add(HEARTBEAT, "an epoch below -1")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), epoch=-5)


@CASES.add(DESCRIBE, "an unknown group", valid=True)
def _(world: World, version: int) -> Any:
    return {"group_ids": [world.name("none"), ""]}


@CASES.add(DESCRIBE, "a classic group")
def _(world: World, version: int) -> Any:
    world.member(world.name())
    return {"group_ids": [world.name()]}


def fetch(group: str, epoch: int, *topics: dict[str, Any]) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": MEMBER,
        "share_session_epoch": epoch,
        "max_wait_ms": 100,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "max_records": 10,
        "batch_size": 10,
        "topics": list(topics),
    }


@CASES.add(FETCH, "an unknown topic", valid=True)
def _(world: World, version: int) -> Any:
    return fetch(world.name(), 0, {"topic_id": world.topic_id("none"), "partitions": [{"partition_index": 0}]})


@CASES.add(FETCH, "an unknown session")
def _(world: World, version: int) -> Any:
    return fetch(world.name(), 5)


@CASES.add(FETCH, "an empty group id")
def _(world: World, version: int) -> Any:
    return fetch("", 0)


@CASES.add(ACKNOWLEDGE, "an unknown session", valid=True)
def _(world: World, version: int) -> Any:
    return {"group_id": world.name(), "member_id": MEMBER, "share_session_epoch": 5, "topics": []}


@CASES.add(ACKNOWLEDGE, "with the first epoch")
def _(world: World, version: int) -> Any:
    return {"group_id": world.name(), "member_id": MEMBER, "share_session_epoch": 0, "topics": []}


@CASES.add(OFFSETS, "an unknown group", valid=True)
def _(world: World, version: int) -> Any:
    return {"groups": [{"group_id": world.name("none"), "topics": None}, {"group_id": "", "topics": []}]}


@CASES.add(OFFSETS, "a topic of an unknown group")
def _(world: World, version: int) -> Any:
    topics = [{"topic_name": world.read_topic(), "partitions": [0]}]
    return {"groups": [{"group_id": world.name("none"), "topics": topics}]}


@CASES.add(OFFSETS, "a classic group")
def _(world: World, version: int) -> Any:
    world.member(world.name())
    topics = [{"topic_name": world.read_topic(), "partitions": [0]}]
    return {"groups": [{"group_id": world.name(), "topics": topics}]}


@CASES.add(OFFSETS, "all topics of a classic group")
def _(world: World, version: int) -> Any:
    world.member(world.name())
    return {"groups": [{"group_id": world.name(), "topics": None}]}


@CASES.add(ALTER_OFFSETS, "an unknown group", valid=True)
def _(world: World, version: int) -> Any:
    partitions = [{"partition_index": 0, "start_offset": 0}]
    return {"group_id": world.name("none"), "topics": [{"topic_name": world.read_topic(), "partitions": partitions}]}


@CASES.add(DELETE_OFFSETS, "an unknown group", valid=True)
def _(world: World, version: int) -> Any:
    return {"group_id": world.name("none"), "topics": [{"topic_name": world.read_topic()}]}
