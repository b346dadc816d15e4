"""Streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.world import World

CASES: Final = Cases()
HEARTBEAT, DESCRIBE, TOPOLOGY = 88, 89, 93


def topology(*source_topics: str, epoch: int = 0) -> dict[str, Any]:
    subtopology = {
        "subtopology_id": "0",
        "source_topics": list(source_topics),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return {"epoch": epoch, "subtopologies": [subtopology]}


def heartbeat(group: str, member: str, epoch: int = 0, **request: Any) -> dict[str, Any]:
    first = epoch == 0
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": -1,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout_ms": 30_000 if first else -1,
        "topology": None,
        "active_tasks": [] if first else None,
        "standby_tasks": [] if first else None,
        "warmup_tasks": [] if first else None,
        "process_id": "process" if first else None,
        "user_endpoint": None,
        "client_tags": [] if first else None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
        **request,
    }


@CASES.add(HEARTBEAT, "the first member", valid=True)
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), topology=topology(world.read_topic()))


@CASES.add(HEARTBEAT, "a source topic that does not exist")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), topology=topology(world.name("none")))


@CASES.add(HEARTBEAT, "an unknown member of an unknown group")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "nobody", 5)


@CASES.add(HEARTBEAT, "an empty group id")
def _(world: World, version: int) -> Any:
    return heartbeat("", world.name("member"), topology=topology("t"))


@CASES.add(HEARTBEAT, "an empty member id")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "", topology=topology("t"))


@CASES.add(HEARTBEAT, "no topology")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"))


@CASES.add(HEARTBEAT, "no rebalance timeout")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), topology=topology("t"), rebalance_timeout_ms=-1)


@CASES.add(HEARTBEAT, "tasks are null")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), topology=topology("t"), active_tasks=None)


@CASES.add(HEARTBEAT, "an epoch below -2")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), world.name("member"), -5)


@CASES.add(HEARTBEAT, "leaving a group that does not exist")
def _(world: World, version: int) -> Any:
    return heartbeat(world.name(), "nobody", -1)


@CASES.add(HEARTBEAT, "leaving")
def _(world: World, version: int) -> Any:
    group, member = world.name(), world.name("member")
    world.call(HEARTBEAT, version, **heartbeat(group, member, topology=topology(world.read_topic())))
    return heartbeat(group, member, -1)


@CASES.add(HEARTBEAT, "a classic group with members")
def _(world: World, version: int) -> Any:
    world.member(world.name())
    return heartbeat(world.name(), world.name("member"), topology=topology(world.read_topic()))


@CASES.add(DESCRIBE, "a group", valid=True)
def _(world: World, version: int) -> Any:
    joining = heartbeat(world.name(), world.name("member"), topology=topology(world.read_topic()))
    world.call(HEARTBEAT, version, **joining)
    return {"group_ids": [world.name()]}


@CASES.add(DESCRIBE, "a group whose last member has left")
def _(world: World, version: int) -> Any:
    joining = heartbeat(world.name(), world.name("member"), topology=topology(world.read_topic()))
    world.call(HEARTBEAT, version, **joining)
    world.call(HEARTBEAT, version, **heartbeat(world.name(), world.name("member"), -1))
    world.commit(world.name(), world.read_topic())
    return {"group_ids": [world.name()]}


@CASES.add(DESCRIBE, "an unknown group and an empty name")
def _(world: World, version: int) -> Any:
    return {"group_ids": [world.name("none"), ""]}


@CASES.add(DESCRIBE, "a classic group")
def _(world: World, version: int) -> Any:
    world.member(world.name())
    return {"group_ids": [world.name()]}


@CASES.add(DESCRIBE, "nothing")
def _(world: World, version: int) -> Any:
    return {"group_ids": []}


@CASES.add(TOPOLOGY, "an unknown group", valid=True)
def _(world: World, version: int) -> Any:
    description: dict[str, list[Any]] = {"subtopologies": [], "global_stores": []}
    return {
        "group_id": world.name("none"),
        "member_id": "nobody",
        "topology_epoch": 0,
        "topology_description": description,
    }
