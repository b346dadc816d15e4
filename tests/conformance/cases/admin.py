"""Elections, reassignments, log directories, the quorum, features, brokers."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.world import World

CASES: Final = Cases()
REPLICA_DIRS, LOG_DIRS, ELECT, REASSIGN, LIST_REASSIGNMENTS = 34, 35, 43, 45, 46
QUORUM, FEATURES, UNREGISTER, ADD_VOTER, REMOVE_VOTER = 55, 57, 64, 80, 81
TELEMETRY, PUSH_TELEMETRY = 71, 72


@CASES.add(LOG_DIRS, "a topic", valid=True)
def _(world: World, version: int) -> Any:
    return {"topics": [{"topic": world.read_topic(), "partitions": [0, 1]}]}


@CASES.add(LOG_DIRS, "an unknown topic and an unknown partition")
def _(world: World, version: int) -> Any:
    return {
        "topics": [
            {"topic": world.name("none"), "partitions": [0]},
            {"topic": world.read_topic(), "partitions": [0, 77, -1]},
        ]
    }


@CASES.add(LOG_DIRS, "nothing")
def _(world: World, version: int) -> Any:
    return {"topics": []}


@CASES.add(REPLICA_DIRS, "a directory that does not exist", valid=True)
def _(world: World, version: int) -> Any:
    return {"dirs": [{"path": "/none", "topics": [{"name": world.read_topic(), "partitions": [0]}]}]}


@CASES.add(REPLICA_DIRS, "a relative path")
def _(world: World, version: int) -> Any:
    return {"dirs": [{"path": "none", "topics": [{"name": world.read_topic(), "partitions": [0]}]}]}


@CASES.add(REPLICA_DIRS, "an unknown topic and an unknown partition")
def _(world: World, version: int) -> Any:
    topics = [{"name": world.name("none"), "partitions": [0]}, {"name": world.read_topic(), "partitions": [77]}]
    return {"dirs": [{"path": "/none", "topics": topics}]}


@CASES.add(REPLICA_DIRS, "nothing")
def _(world: World, version: int) -> Any:
    return {"dirs": []}


def elect(*topics: tuple[str, list[int]], election_type: int = 0) -> dict[str, Any]:
    wanted = [{"topic": name, "partitions": partitions} for name, partitions in topics]
    return {"topic_partitions": wanted, "timeout_ms": 5_000, "election_type": election_type}


@CASES.add(ELECT, "a leader that is elected already", valid=True)
def _(world: World, version: int) -> Any:
    return elect((world.read_topic(), [0, 1]))


@CASES.add(ELECT, "an unknown topic and an unknown partition")
def _(world: World, version: int) -> Any:
    return elect((world.name("none"), [0]), (world.read_topic(), [77, -1]))


@CASES.add(ELECT, "an unclean election", since=1)
def _(world: World, version: int) -> Any:
    return elect((world.read_topic(), [0]), election_type=1)


@CASES.add(ELECT, "an election type that does not exist", since=1)
def _(world: World, version: int) -> Any:
    return elect((world.read_topic(), [0]), election_type=9)


@CASES.add(ELECT, "all partitions", only=("replica_election_results", "topic"))
def _(world: World, version: int) -> Any:
    world.topic()
    return {"topic_partitions": None, "timeout_ms": 5_000, "election_type": 0}


@CASES.add(ELECT, "nothing")
def _(world: World, version: int) -> Any:
    return elect()


def reassign(*topics: tuple[str, list[tuple[int, list[int] | None]]]) -> dict[str, Any]:
    wanted = [
        {"name": name, "partitions": [{"partition_index": index, "replicas": replicas} for index, replicas in places]}
        for name, places in topics
    ]
    return {"timeout_ms": 5_000, "allow_replication_factor_change": True, "topics": wanted}


@CASES.add(REASSIGN, "to where it is", valid=True)
def _(world: World, version: int) -> Any:
    return reassign((world.topic(), [(0, [world.aliases.node_id])]))


@CASES.add(REASSIGN, "an unknown topic and an unknown partition")
def _(world: World, version: int) -> Any:
    node = world.aliases.node_id
    return reassign((world.name("none"), [(0, [node])]), (world.read_topic(), [(77, [node]), (-1, [node])]))


@CASES.add(REASSIGN, "to brokers that do not exist")
def _(world: World, version: int) -> Any:
    return reassign((world.topic(partitions=5), [(0, [999]), (1, []), (2, [-1]), (3, [world.aliases.node_id] * 2)]))


@CASES.add(REASSIGN, "a cancellation of nothing")
def _(world: World, version: int) -> Any:
    return reassign((world.read_topic(), [(0, None)]))


@CASES.add(REASSIGN, "nothing")
def _(world: World, version: int) -> Any:
    return reassign()


@CASES.add(LIST_REASSIGNMENTS, "all", valid=True)
def _(world: World, version: int) -> Any:
    return {"timeout_ms": 5_000, "topics": None}


@CASES.add(LIST_REASSIGNMENTS, "of topics, known and unknown")
def _(world: World, version: int) -> Any:
    names = [world.read_topic(), world.name("none")]
    return {"timeout_ms": 5_000, "topics": [{"name": name, "partition_indexes": [0, 77]} for name in names]}


@CASES.add(LIST_REASSIGNMENTS, "of no topics")
def _(world: World, version: int) -> Any:
    return {"timeout_ms": 5_000, "topics": []}


def quorum(topic: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"topic_name": topic, "partitions": [{"partition_index": index} for index in partitions]}]}


@CASES.add(QUORUM, "the metadata's", valid=True, ignored=("high_watermark", "log_end_offset"))
def _(world: World, version: int) -> Any:
    return quorum("__cluster_metadata", 0)


@CASES.add(QUORUM, "another topic's")
def _(world: World, version: int) -> Any:
    return quorum(world.read_topic(), 0)


@CASES.add(QUORUM, "another partition's")
def _(world: World, version: int) -> Any:
    return quorum("__cluster_metadata", 1)


@CASES.add(QUORUM, "nothing")
def _(world: World, version: int) -> Any:
    return {"topics": []}


def update(*features: tuple[str, int], upgrade_type: int = 1, **request: Any) -> dict[str, Any]:
    changes = [
        {"feature": name, "max_version_level": level, "upgrade_type": upgrade_type, "allow_downgrade": False}
        for name, level in features
    ]
    return {"timeout_ms": 5_000, "feature_updates": changes, **request}


@CASES.add(FEATURES, "a level that is in force", valid=True)
def _(world: World, version: int) -> Any:
    return update(("group.version", 1))


@CASES.add(FEATURES, "a feature that does not exist")
def _(world: World, version: int) -> Any:
    return update(("no.such.feature", 1))


@CASES.add(FEATURES, "a level too high")
def _(world: World, version: int) -> Any:
    return update(("group.version", 99))


@CASES.add(FEATURES, "a level below 0")
def _(world: World, version: int) -> Any:
    return update(("group.version", -1))


@CASES.add(FEATURES, "only looked at", since=1)
def _(world: World, version: int) -> Any:
    return update(("group.version", 1), validate_only=True)


@CASES.add(FEATURES, "an upgrade type that does not exist", since=1)
def _(world: World, version: int) -> Any:
    return update(("group.version", 1), upgrade_type=9)


@CASES.add(FEATURES, "a downgrade that is not allowed", since=1)
def _(world: World, version: int) -> Any:
    return update(("group.version", 0))


@CASES.add(FEATURES, "a feature twice")
def _(world: World, version: int) -> Any:
    return update(("group.version", 1), ("group.version", 1))


@CASES.add(FEATURES, "good and bad features")
def _(world: World, version: int) -> Any:
    return update(("group.version", 1), ("no.such.feature", 1))


@CASES.add(FEATURES, "nothing")
def _(world: World, version: int) -> Any:
    return update()


@CASES.add(UNREGISTER, "a broker that does not exist", valid=True)
def _(world: World, version: int) -> Any:
    return {"broker_id": 999}


@CASES.add(UNREGISTER, "a broker below 0")
def _(world: World, version: int) -> Any:
    return {"broker_id": -1}


@CASES.add(ADD_VOTER, "a voter where they are not dynamic", valid=True)
def _(world: World, version: int) -> Any:
    listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    return {"cluster_id": None, "timeout_ms": 1_000, "voter_id": 99, "listeners": listeners}


@CASES.add(REMOVE_VOTER, "a voter where they are not dynamic", valid=True)
def _(world: World, version: int) -> Any:
    return {"cluster_id": None, "voter_id": 99}


@CASES.add(TELEMETRY, "a client's first request", valid=True)
def _(world: World, version: int) -> Any:
    return {"client_instance_id": None}


@CASES.add(PUSH_TELEMETRY, "a client that nobody knows", valid=True)
def _(world: World, version: int) -> Any:
    return {"client_instance_id": None, "subscription_id": 7, "metrics": b""}
