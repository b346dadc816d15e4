"""Metadata, ApiVersions, DescribeCluster, DescribeTopicPartitions; topics made, enlarged and deleted; configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.world import UNKNOWN_ID, World

CASES: Final = Cases()
METADATA, API_VERSIONS, CLUSTER, TOPIC_PARTITIONS = 3, 18, 60, 75
CREATE, DELETE, ENLARGE = 19, 20, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL, LIST_RESOURCES = 32, 33, 44, 74
TOO_LONG: Final = "n" * 250
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


# -- Metadata ----------------------------------------------------------------------------------------------------------


def metadata(world: World, *names: str, **request: Any) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False, **request}


@CASES.add(METADATA, "a topic", valid=True)
def _(world: World, version: int) -> Any:
    return metadata(world, world.read_topic())


@CASES.add(METADATA, "an unknown topic", since=4)
def _(world: World, version: int) -> Any:
    return metadata(world, world.name("none"), world.read_topic())


@CASES.add(METADATA, "all topics", only=("topics", "name"))
def _(world: World, version: int) -> Any:
    world.topic(partitions=2)
    return {"topics": None if version else [], "allow_auto_topic_creation": False}


@CASES.add(METADATA, "no topics", since=1)
def _(world: World, version: int) -> Any:
    return metadata(world)


@CASES.add(METADATA, "a topic that may be made")
def _(world: World, version: int) -> Any:
    return metadata(world, world.name("made"), allow_auto_topic_creation=True)


@CASES.add(METADATA, "names that are not allowed", since=4)
def _(world: World, version: int) -> Any:
    return metadata(world, "no/such name", "", ".", "..", TOO_LONG)


@CASES.add(METADATA, "a name that is not allowed and may be made", since=4)
def _(world: World, version: int) -> Any:
    return metadata(world, "no/such name", allow_auto_topic_creation=True)


@CASES.add(METADATA, "a topic twice", since=4)
def _(world: World, version: int) -> Any:
    name = world.read_topic()
    return metadata(world, name, name)


@CASES.add(METADATA, "authorized operations", since=8)
def _(world: World, version: int) -> Any:
    return metadata(
        world,
        world.read_topic(),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


@CASES.add(METADATA, "a topic by its id", since=10)
def _(world: World, version: int) -> Any:
    return {
        "topics": [{"name": None, "topic_id": world.topic_id(world.read_topic())}],
        "allow_auto_topic_creation": False,
    }


@CASES.add(METADATA, "an unknown id", since=10)
def _(world: World, version: int) -> Any:
    return {"topics": [{"name": None, "topic_id": UNKNOWN_ID}], "allow_auto_topic_creation": False}


@CASES.add(METADATA, "neither name nor id", since=10)
def _(world: World, version: int) -> Any:
    return {"topics": [{"name": None}], "allow_auto_topic_creation": False}


@CASES.add(METADATA, "a topic by name and id", since=10)
def _(world: World, version: int) -> Any:
    name = world.read_topic()
    return {"topics": [{"name": name, "topic_id": world.topic_id(name)}], "allow_auto_topic_creation": False}


# -- ApiVersions, DescribeCluster, DescribeTopicPartitions -------------------------------------------------------------


@CASES.add(API_VERSIONS, "a client's first request", valid=True)
def _(world: World, version: int) -> Any:
    return {"client_software_name": "conformance", "client_software_version": "1.0"}


@CASES.add(API_VERSIONS, "software names that are not allowed", since=3)
def _(world: World, version: int) -> Any:
    return {"client_software_name": "no such name!", "client_software_version": ""}


@CASES.add(CLUSTER, "the cluster", valid=True)
def _(world: World, version: int) -> Any:
    return {"endpoint_type": 1}


@CASES.add(CLUSTER, "with authorized operations")
def _(world: World, version: int) -> Any:
    return {"endpoint_type": 1, "include_cluster_authorized_operations": True}


@CASES.add(CLUSTER, "of the controllers", since=1)
def _(world: World, version: int) -> Any:
    return {"endpoint_type": 2}


@CASES.add(CLUSTER, "an endpoint type that does not exist", since=1)
def _(world: World, version: int) -> Any:
    return {"endpoint_type": 9}


@CASES.add(CLUSTER, "with fenced brokers", since=2)
def _(world: World, version: int) -> Any:
    return {"endpoint_type": 1, "include_fenced_brokers": True}


def topic_partitions(*names: str, **request: Any) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "response_partition_limit": 2_000, **request}


@CASES.add(TOPIC_PARTITIONS, "a topic", valid=True)
def _(world: World, version: int) -> Any:
    return topic_partitions(world.read_topic())


@CASES.add(TOPIC_PARTITIONS, "an unknown topic")
def _(world: World, version: int) -> Any:
    return topic_partitions(world.read_topic(), world.name("none"))


@CASES.add(TOPIC_PARTITIONS, "a page of one partition")
def _(world: World, version: int) -> Any:
    return topic_partitions(world.topic(partitions=3), response_partition_limit=1)


@CASES.add(TOPIC_PARTITIONS, "the next page")
def _(world: World, version: int) -> Any:
    topic = world.topic(partitions=3)
    return topic_partitions(topic, response_partition_limit=1, cursor={"topic_name": topic, "partition_index": 1})


@CASES.add(TOPIC_PARTITIONS, "a page of no partitions")
def _(world: World, version: int) -> Any:
    return topic_partitions(world.read_topic(), response_partition_limit=0)


@CASES.add(TOPIC_PARTITIONS, "a page behind the last partition")
def _(world: World, version: int) -> Any:
    topic = world.read_topic()
    return topic_partitions(topic, cursor={"topic_name": topic, "partition_index": 77})


@CASES.add(TOPIC_PARTITIONS, "a page that begins below 0")
def _(world: World, version: int) -> Any:
    topic = world.read_topic()
    return topic_partitions(topic, cursor={"topic_name": topic, "partition_index": -7})


@CASES.add(TOPIC_PARTITIONS, "all topics", only=("topics", "name"))
def _(world: World, version: int) -> Any:
    world.topic()
    return topic_partitions()


@CASES.add(TOPIC_PARTITIONS, "names that are not allowed")
def _(world: World, version: int) -> Any:
    return topic_partitions("no/such name", "", TOO_LONG)


# -- CreateTopics ------------------------------------------------------------------------------------------------------


def new_topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def create(*topics: Mapping[str, Any], **request: Any) -> dict[str, Any]:
    return {"topics": list(topics), "timeout_ms": 10_000, **request}


# Which settings are shown is a table of its own; here the topic's id, error and counts.
LESS: Final = ("configs",)


@CASES.add(CREATE, "a topic", valid=True, ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.name(), 2))


@CASES.add(CREATE, "a topic that exists", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.read_topic()))


@CASES.add(CREATE, "good and bad topics", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(
        new_topic(world.name("good")),
        new_topic(world.name("none"), 0),
        new_topic(world.name("negative"), -2),
        new_topic(world.name("replicas"), 1, 7),
        new_topic(world.name("factor0"), 1, 0),
        new_topic(world.name("factor-2"), 1, -2),
    )


@CASES.add(CREATE, "a good topic between those that exist and may not", ignored=LESS)
def _(world: World, version: int) -> Any:
    names = (world.read_topic(), "no/such name", world.name("good"), world.topic("there"), "", world.name("other"))
    return create(*(new_topic(name) for name in names))


@CASES.add(CREATE, "counts left to the server", since=4, ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.name(), -1, -1))


@CASES.add(CREATE, "only looked at", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.name()), new_topic(world.read_topic()), validate_only=True)


@CASES.add(CREATE, "names that are not allowed", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(*(new_topic(name) for name in ("no/such name", "", ".", "..", TOO_LONG, "ü")))


@CASES.add(CREATE, "a topic twice", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.name()), new_topic(world.name()), new_topic(world.name("other")))


@CASES.add(CREATE, "a name that collides", ignored=LESS)
def _(world: World, version: int) -> Any:
    name = world.name("a")
    world.call(CREATE, 7, **create(new_topic(f"{name}.b")))
    return create(new_topic(f"{name}_b"))


@CASES.add(CREATE, "settings, good and bad", ignored=LESS)
def _(world: World, version: int) -> Any:
    def setting(name: str, value: str | None) -> list[dict[str, Any]]:
        return [{"name": name, "value": value}]

    return create(
        new_topic(world.name("good"), configs=setting("retention.ms", "1000")),
        new_topic(world.name("unknown"), configs=setting("no.such.setting", "1")),
        new_topic(world.name("text"), configs=setting("retention.ms", "soon")),
        new_topic(world.name("negative"), configs=setting("segment.bytes", "-1")),
        new_topic(world.name("null"), configs=setting("retention.ms", None)),
        new_topic(world.name("policy"), configs=setting("cleanup.policy", "burn")),
        new_topic(world.name("twice"), configs=setting("retention.ms", "1") + setting("retention.ms", "2")),
    )


@CASES.add(CREATE, "lists that are empty", ignored=LESS)
def _(world: World, version: int) -> Any:
    texts = {"empty": "", "comma": ",", "behind": "compact,", "blank": " ", "twice": "delete,delete"}
    return create(
        *(
            new_topic(world.name(what), configs=[{"name": "cleanup.policy", "value": text}])
            for what, text in texts.items()
        )
    )


@CASES.add(CREATE, "the settings that come back", since=5)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.name(), configs=[{"name": "retention.ms", "value": "1000"}]))


@CASES.add(CREATE, "replicas by hand", ignored=LESS)
def _(world: World, version: int) -> Any:
    node = world.aliases.node_id

    def by_hand(
        what: str, *assignments: tuple[int, list[int]], partitions: int = -1, factor: int = -1
    ) -> dict[str, Any]:
        placed = [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments]
        return new_topic(world.name(what), partitions, factor, assignments=placed)

    return create(
        by_hand("good", (0, [node]), (1, [node])),
        by_hand("unknown", (0, [999])),
        by_hand("gap", (0, [node]), (2, [node])),
        by_hand("double", (0, [node, node])),
        by_hand("empty", (0, [])),
        by_hand("uneven", (0, [node]), (1, [node, 999])),
        by_hand("both", (0, [node]), partitions=3, factor=1),
        by_hand("again", (0, [node]), (0, [node])),
    )


@CASES.add(CREATE, "nothing", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create()


@CASES.add(CREATE, "topics are null", ignored=LESS)
def _(world: World, version: int) -> Any:
    return {"topics": None, "timeout_ms": 10_000}


@CASES.add(CREATE, "an internal topic", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic("__consumer_offsets"))


@CASES.add(CREATE, "far too many partitions", ignored=LESS)
def _(world: World, version: int) -> Any:
    return create(new_topic(world.name(), 2**31 - 1))


# -- DeleteTopics, CreatePartitions ------------------------------------------------------------------------------------


def delete(world: World, *names: str) -> dict[str, Any]:
    return {"topic_names": list(names), "topics": [{"name": name} for name in names], "timeout_ms": 10_000}


@CASES.add(DELETE, "a topic", valid=True)
def _(world: World, version: int) -> Any:
    return delete(world, world.topic())


@CASES.add(DELETE, "an unknown topic beside a known one")
def _(world: World, version: int) -> Any:
    return delete(world, world.topic(), world.name("none"))


@CASES.add(DELETE, "good and bad topics")
def _(world: World, version: int) -> Any:
    known = [world.topic("one"), world.topic("two")]
    values = delete(world, known[0], world.name("none"), "no/such name", world.name("none"), known[1], "")
    by_id = [{"name": None, "topic_id": identity} for identity in (world.topic_id(world.topic("id")), UNKNOWN_ID)]
    return {**values, "topics": [*values["topics"], *by_id]}


@CASES.add(DELETE, "names that are not allowed")
def _(world: World, version: int) -> Any:
    return delete(world, "no/such name", "", TOO_LONG)


@CASES.add(DELETE, "a topic twice")
def _(world: World, version: int) -> Any:
    name = world.topic()
    return delete(world, name, name)


@CASES.add(DELETE, "by id", since=6)
def _(world: World, version: int) -> Any:
    name = world.topic()
    return {"topics": [{"name": None, "topic_id": world.topic_id(name)}], "timeout_ms": 10_000}


@CASES.add(DELETE, "an unknown id", since=6)
def _(world: World, version: int) -> Any:
    return {"topics": [{"name": None, "topic_id": UNKNOWN_ID}], "timeout_ms": 10_000}


@CASES.add(DELETE, "name and id", since=6)
def _(world: World, version: int) -> Any:
    name = world.topic()
    return {"topics": [{"name": name, "topic_id": world.topic_id(name)}], "timeout_ms": 10_000}


@CASES.add(DELETE, "neither name nor id", since=6)
def _(world: World, version: int) -> Any:
    return {"topics": [{"name": None}], "timeout_ms": 10_000}


@CASES.add(DELETE, "one topic by name and by id", since=6)
def _(world: World, version: int) -> Any:
    name = world.topic()
    topics = [{"name": name}, {"name": None, "topic_id": world.topic_id(name)}]
    return {"topics": topics, "timeout_ms": 10_000}


@CASES.add(DELETE, "nothing")
def _(world: World, version: int) -> Any:
    return {"topics": [], "topic_names": [], "timeout_ms": 10_000}


def enlarge(*topics: tuple[str, int], **request: Any) -> dict[str, Any]:
    wanted = [{"name": name, "count": count, "assignments": None} for name, count in topics]
    return {"topics": wanted, "timeout_ms": 10_000, "validate_only": False, **request}


@CASES.add(ENLARGE, "more partitions", valid=True)
def _(world: World, version: int) -> Any:
    return enlarge((world.topic(), 3))


@CASES.add(ENLARGE, "an unknown topic")
def _(world: World, version: int) -> Any:
    return enlarge((world.name("none"), 3))


@CASES.add(ENLARGE, "good and bad topics")
def _(world: World, version: int) -> Any:
    return enlarge(
        (world.topic("good"), 2),
        (world.topic("same", 2), 2),
        (world.topic("fewer", 2), 1),
        (world.topic("zero"), 0),
        (world.topic("negative"), -1),
        ("no/such name", 2),
    )


@CASES.add(ENLARGE, "far too many partitions")
def _(world: World, version: int) -> Any:
    return enlarge((world.topic(), 2**31 - 1))


@CASES.add(ENLARGE, "only looked at")
def _(world: World, version: int) -> Any:
    return enlarge((world.topic(), 3), validate_only=True)


@CASES.add(ENLARGE, "a topic twice")
def _(world: World, version: int) -> Any:
    name = world.topic()
    return enlarge((name, 3), (name, 4))


@CASES.add(ENLARGE, "replicas by hand")
def _(world: World, version: int) -> Any:
    node = world.aliases.node_id

    def by_hand(what: str, count: int, *brokers: list[int]) -> dict[str, Any]:
        return {"name": world.topic(what), "count": count, "assignments": [{"broker_ids": one} for one in brokers]}

    topics = [
        by_hand("good", 2, [node]),
        by_hand("unknown", 2, [999]),
        by_hand("few", 3, [node]),
        by_hand("many", 2, [node], [node]),
        by_hand("double", 2, [node, node]),
        by_hand("empty", 2, []),
    ]
    return {"topics": topics, "timeout_ms": 10_000}


@CASES.add(ENLARGE, "nothing")
def _(world: World, version: int) -> Any:
    return enlarge()


# -- configs -----------------------------------------------------------------------------------------------------------


def resources(*wanted: tuple[int, str, Any], **request: Any) -> dict[str, Any]:
    found = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name, keys in wanted]
    return {"resources": found, **request}


# Kafka's texts are HTML for its own site; that there is one is not what clients rely on.
TEXTS: Final = ("documentation",)
FEW: Final = ["retention.ms", "cleanup.policy", "max.message.bytes"]


@CASES.add(DESCRIBE_CONFIGS, "a topic's settings", valid=True, ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.topic(configs={"retention.ms": "1000"}), FEW))


@CASES.add(DESCRIBE_CONFIGS, "all settings of a topic", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.topic(configs={"retention.ms": "1000"}), None))


@CASES.add(DESCRIBE_CONFIGS, "an unknown topic", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.name("none"), FEW), (TOPIC, "no/such name", FEW))


@CASES.add(DESCRIBE_CONFIGS, "settings that do not exist", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.read_topic(), ["no.such.setting", "retention.ms"]))


@CASES.add(DESCRIBE_CONFIGS, "synonyms", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.topic(configs={"retention.ms": "1000"}), FEW), include_synonyms=True)


@CASES.add(DESCRIBE_CONFIGS, "an empty list of settings", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.read_topic(), []))


@CASES.add(DESCRIBE_CONFIGS, "a broker's settings", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((BROKER, str(world.aliases.node_id), ["log.retention.ms", "num.partitions", "message.max.bytes"]))


@CASES.add(DESCRIBE_CONFIGS, "brokers that do not exist", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((BROKER, "999", FEW), (BROKER, "x", FEW), (BROKER, "", ["log.retention.ms"]))


@CASES.add(DESCRIBE_CONFIGS, "the cluster's default", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((BROKER, "", None))


@CASES.add(DESCRIBE_CONFIGS, "a group's settings", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((GROUP, world.name("group"), ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]))


@CASES.add(DESCRIBE_CONFIGS, "resource types that do not exist", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((0, "a", None), (77, "b", None), (-1, "c", None))


@CASES.add(DESCRIBE_CONFIGS, "client metrics", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((CLIENT_METRICS, world.name("metrics"), None))


@CASES.add(DESCRIBE_CONFIGS, "a resource twice", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources((TOPIC, world.read_topic(), FEW), (TOPIC, world.read_topic(), FEW[:1]))


@CASES.add(DESCRIBE_CONFIGS, "nothing", ignored=TEXTS)
def _(world: World, version: int) -> Any:
    return resources()


def settings(*wanted: tuple[int, str, list[tuple[Any, ...]]], **request: Any) -> dict[str, Any]:
    """Each: type, name, and (setting, value[, operation])."""
    names = ("name", "value", "config_operation")
    found = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [dict(zip(names, change, strict=False)) for change in changes],
        }
        for kind, name, changes in wanted
    ]
    return {"resources": found, "validate_only": False, **request}


def _alter_cases(api_key: int) -> None:
    @CASES.add(api_key, "a topic's setting", valid=True)
    def _(world: World, version: int) -> Any:
        return settings((TOPIC, world.topic(), [("retention.ms", "1000")]))

    @CASES.add(api_key, "an unknown topic")
    def _(world: World, version: int) -> Any:
        return settings((TOPIC, world.name("none"), [("retention.ms", "1000")]), (TOPIC, "no/such name", []))

    @CASES.add(api_key, "good and bad settings")
    def _(world: World, version: int) -> Any:
        return settings(
            (TOPIC, world.topic("good"), [("retention.ms", "1000")]),
            (TOPIC, world.topic("unknown"), [("no.such.setting", "1")]),
            (TOPIC, world.topic("text"), [("retention.ms", "soon")]),
            (TOPIC, world.topic("null"), [("retention.ms", None)]),
            (TOPIC, world.topic("range"), [("min.cleanable.dirty.ratio", "7")]),
            (BROKER, "999", [("log.retention.ms", "1000")]),
            (BROKER, "x", [("log.retention.ms", "1000")]),
        )

    @CASES.add(api_key, "only looked at")
    def _(world: World, version: int) -> Any:
        topic = world.topic()
        return settings((TOPIC, topic, [("retention.ms", "1000")]), (TOPIC, world.name("none"), []), validate_only=True)

    @CASES.add(api_key, "resource types that do not exist")
    def _(world: World, version: int) -> Any:
        return settings((0, "a", []), (77, "b", [("x", "y")]), (-1, "c", []))

    # Kafka never answers AlterConfigs: one version is enough to wait for.
    @CASES.add(api_key, "a resource twice", since=2 if api_key == ALTER_CONFIGS else 0)
    def _(world: World, version: int) -> Any:
        topic = world.topic()
        return settings((TOPIC, topic, [("retention.ms", "1000")]), (TOPIC, topic, [("retention.ms", "2000")]))

    @CASES.add(api_key, "a setting twice")
    def _(world: World, version: int) -> Any:
        return settings((TOPIC, world.topic(), [("retention.ms", "1000"), ("retention.ms", "2000")]))

    @CASES.add(api_key, "a group's setting")
    def _(world: World, version: int) -> Any:
        return settings(
            (GROUP, world.name("good"), [("consumer.session.timeout.ms", "50000")]),
            (GROUP, world.name("low"), [("consumer.session.timeout.ms", "1")]),
            (GROUP, world.name("unknown"), [("no.such.setting", "1")]),
            (GROUP, "", [("consumer.session.timeout.ms", "50000")]),
        )

    @CASES.add(api_key, "nothing")
    def _(world: World, version: int) -> Any:
        return settings()


_alter_cases(ALTER_CONFIGS)
_alter_cases(INCREMENTAL)


@CASES.add(INCREMENTAL, "append and subtract")
def _(world: World, version: int) -> Any:
    return settings(
        (TOPIC, world.topic("append"), [("cleanup.policy", "compact", 2)]),
        (TOPIC, world.topic("subtract"), [("cleanup.policy", "compact", 3)]),
        (TOPIC, world.topic("number"), [("retention.ms", "1", 2)]),
        (TOPIC, world.topic("delete"), [("retention.ms", None, 1)]),
        (TOPIC, world.topic("null"), [("cleanup.policy", None, 2)]),
    )


def policies(world: World, version: int, answer: Mapping[str, Any]) -> Any:
    """What became of the altered topics."""
    names = [one["resource_name"] for one in answer["responses"]]
    # Kafka's broker hears of changes from its controller, in their order and a moment later.
    last = world.topic("heard")
    wanted = resources((TOPIC, last, ["retention.ms"]))
    world.call(INCREMENTAL, 1, **settings((TOPIC, last, [("retention.ms", "77", 0)])))
    world.until(
        lambda: world.call(DESCRIBE_CONFIGS, 1, **wanted),
        lambda answer: answer["results"][0]["configs"][0]["value"] == "77",
    )
    described = world.call(DESCRIBE_CONFIGS, 1, **resources(*((TOPIC, name, ["cleanup.policy"]) for name in names)))
    return [(one["resource_name"], one["configs"][0]["value"]) for one in described["results"]]


@CASES.add(INCREMENTAL, "lists that are or become empty", after=policies)
def _(world: World, version: int) -> Any:
    both = {"cleanup.policy": "compact,delete"}
    return settings(
        (TOPIC, world.topic("append"), [("cleanup.policy", "", 2)]),
        (TOPIC, world.topic("subtract"), [("cleanup.policy", "", 3)]),
        (TOPIC, world.topic("set"), [("cleanup.policy", "", 0)]),
        (TOPIC, world.topic("last"), [("cleanup.policy", "delete", 3)]),
        (TOPIC, world.topic("comma"), [("cleanup.policy", ",", 2)]),
        (TOPIC, world.topic("behind"), [("cleanup.policy", "compact,", 2)]),
        (TOPIC, world.topic("twice", configs=both), [("cleanup.policy", "compact", 2)]),
        (TOPIC, world.topic("set-twice"), [("cleanup.policy", "compact,compact", 0)]),
        (TOPIC, world.topic("none", configs=both), [("cleanup.policy", "delete,compact", 3)]),
        (TOPIC, world.topic("other"), [("cleanup.policy", "burn", 3)]),
        (TOPIC, world.topic("blank"), [("cleanup.policy", " ", 2)]),
        (TOPIC, world.topic("indented"), [("cleanup.policy", " delete", 2)]),
        (TOPIC, world.topic("not-there"), [("cleanup.policy", " delete", 3)]),
        (TOPIC, world.topic("front"), [("cleanup.policy", ",compact", 2)]),
    )


@CASES.add(INCREMENTAL, "an operation that does not exist")
def _(world: World, version: int) -> Any:
    return settings((TOPIC, world.topic(), [("retention.ms", "1", 9)]))


@CASES.add(LIST_RESOURCES, "of groups", valid=True, only=("config_resources", "resource_name"))
def _(world: World, version: int) -> Any:
    name, wanted = world.name(), {"resource_types": [GROUP]}
    world.call(INCREMENTAL, 1, **settings((GROUP, name, [("consumer.session.timeout.ms", "50000")])))
    # Kafka's broker hears of it from its controller a moment later.
    world.until(
        lambda: world.call(LIST_RESOURCES, 1, **wanted),
        lambda answer: name in [one["resource_name"] for one in answer["config_resources"]],
    )
    return wanted


@CASES.add(LIST_RESOURCES, "of topics", since=1, only=("config_resources", "resource_name"))
def _(world: World, version: int) -> Any:
    world.topic()
    return {"resource_types": [TOPIC]}


@CASES.add(LIST_RESOURCES, "types that do not exist", since=1)
def _(world: World, version: int) -> Any:
    return {"resource_types": [0, 77]}


@CASES.add(LIST_RESOURCES, "of client metrics", only=("config_resources", "resource_name"))
def _(world: World, version: int) -> Any:
    return {"resource_types": [CLIENT_METRICS]}


@CASES.add(LIST_RESOURCES, "of all types", only=("config_resources", "resource_name"))
def _(world: World, version: int) -> Any:
    world.topic()
    return {"resource_types": []}
