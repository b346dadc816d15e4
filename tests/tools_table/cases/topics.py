"""kafka-topics, kafka-delete-records, kafka-get-offsets, kafka-leader-election, kafka-reassign-partitions, kafka-log-dirs."""

from __future__ import annotations

import json
from typing import Final

from testing.java import ToolResult
from tests.tools_table.case import Cases
from tests.tools_table.world import World

CASES: Final = Cases()

TOPICS, OFFSETS, DELETE, ELECTION = "kafka-topics", "kafka-get-offsets", "kafka-delete-records", "kafka-leader-election"
REASSIGN, LOG_DIRS = "kafka-reassign-partitions", "kafka-log-dirs"


def gone(ended: ToolResult) -> bool:
    return "does not exist" in ended.text


# -- kafka-topics ------------------------------------------------------------------------------------------------------


@CASES.of(TOPICS, "create")
def create(world: World) -> None:
    topic = world.name()
    world.run("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    world.run("--create", "--topic", topic)
    world.run("--create", "--topic", topic, "--if-not-exists")
    world.run("--create", "--topic", world.name("default"))
    world.run(
        "--create", "--topic", world.name("a.b_c"), "--config", "retention.ms=1000", "--config", "segment.bytes=1048576"
    )
    world.run("--create", "--topic", world.name("assigned"), "--replica-assignment", "1,1,1")
    for what in ("", "default", "a.b_c", "assigned"):
        # Kafka answers before its broker knows the topic.
        known = world.name(what) if what else topic
        world.run("--describe", "--topic", known, until=lambda ended: not ended.code)


@CASES.of(TOPICS, "what cannot be created")
def not_created(world: World) -> None:
    topic = world.name()
    world.run("--create")
    world.run("--create", "--topic", "no/slash")
    world.run("--create", "--topic", ".")
    world.run("--create", "--topic", "x" * 250)
    world.run("--create", "--topic", topic, "--partitions", "0")
    world.run("--create", "--topic", topic, "--partitions", "-1")
    world.run("--create", "--topic", topic, "--replication-factor", "3")
    world.run("--create", "--topic", topic, "--replication-factor", "0")
    world.run("--create", "--topic", topic, "--config", "no.such.config=1")
    world.run("--create", "--topic", topic, "--config", "retention.ms=soon")
    world.run("--create", "--topic", topic, "--config", "cleanup.policy=maybe")
    world.run("--create", "--topic", topic, "--config", "broken")
    world.run("--create", "--topic", topic, "--replica-assignment", "1,7")
    world.run("--create", "--topic", topic, "--replica-assignment", "1:1")
    world.run("--create", "--topic", topic, "--replica-assignment", "1:2,1")
    world.run("--create", "--topic", topic, "--replica-assignment", "1", "--partitions", "2")
    world.run("--create", "--topic", topic, "--delete-config", "retention.ms")
    world.run("--create", "--topic", topic, "--if-exists")
    world.run("--create", "--topic", topic, bootstrap=False)
    world.run("--create", "--topic", "__consumer_offsets")


@CASES.of(TOPICS, "list")
def list_topics(world: World) -> None:
    topic = world.name()
    world.do(TOPICS, "--create", "--topic", topic)
    world.do(TOPICS, "--create", "--topic", world.name("second"))
    world.run("--list")
    world.run("--list", "--exclude-internal")
    world.run("--list", "--topic", topic)
    world.run("--list", "--topic", world.name(".*"))
    world.run("--list", "--topic", "nothing.*")
    world.run("--list", "--topic", "__.*", "--exclude-internal")
    world.run("--list", "--command-config", world.file("client", "client.id=table\nrequest.timeout.ms=20000\n"))
    world.run("--list", "--command-config", world.path("none"))
    world.run("--list", "--describe")
    world.run()


@CASES.of(TOPICS, "describe")
def describe(world: World) -> None:
    topic, other = world.name(), world.name("other")
    world.do(TOPICS, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000")
    world.do(TOPICS, "--create", "--topic", other, "--config", "min.insync.replicas=2")
    found = world.do(TOPICS, "--describe", "--topic", topic).out
    topic_id = found.split("TopicId: ")[1].split()[0]
    for arguments in (
        ("--topic", topic),
        ("--topic", world.name(".*")),
        ("--topic", topic, "--exclude-internal"),
        ("--topic", topic, "--topics-with-overrides"),
        ("--topics-with-overrides", "--topic", world.name(".*")),
        ("--under-replicated-partitions", "--topic", world.name(".*")),
        ("--unavailable-partitions", "--topic", world.name(".*")),
        ("--under-min-isr-partitions", "--topic", world.name(".*")),
        ("--at-min-isr-partitions", "--topic", world.name(".*")),
        ("--topic", topic, "--partition-size-limit-per-response", "1"),
        ("--topic", "none"),
        ("--topic", "none", "--if-exists"),
        ("--topic", "__consumer_offsets"),
        ("--topic", "__transaction_state"),
        ("--topic-id", topic_id),
        ("--topic-id", "7x8dLJpbYEwOnT4BI0VniQ"),
        ("--topic-id", "7x8dLJpbYEwOnT4BI0VniQ", "--if-exists"),
        ("--topic-id", "broken"),
        ("--topic-id", topic_id, "--topic", topic),
    ):
        world.run("--describe", *arguments, patterns=((topic_id, "ID"),))


@CASES.of(TOPICS, "alter")
def alter(world: World) -> None:
    topic = world.name()
    world.do(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    world.run("--alter", "--topic", topic, "--partitions", "3")
    world.run("--describe", "--topic", topic, until=lambda ended: "PartitionCount: 3" in ended.out)
    world.run("--alter", "--topic", topic, "--partitions", "3")
    world.run("--alter", "--topic", topic, "--partitions", "1")
    world.run("--alter", "--topic", topic, "--partitions", "5", "--replica-assignment", "1,1,1,1,1")
    world.run("--alter", "--topic", topic, "--partitions", "6", "--replica-assignment", "1,1,1,1,1,9")
    world.run("--alter", "--topic", topic, "--partitions", "8", "--replica-assignment", "1,1,1,1,1,1")
    world.run("--alter", "--topic", topic)
    world.run("--alter", "--topic", topic, "--config", "retention.ms=1")
    world.run("--alter", "--topic", "none", "--partitions", "3")
    world.run("--alter", "--topic", "none", "--partitions", "3", "--if-exists")
    world.run("--describe", "--topic", topic, until=lambda ended: "PartitionCount: 5" in ended.out)


@CASES.of(TOPICS, "delete")
def delete(world: World) -> None:
    for what in ("t", "a1", "a2"):
        world.do(TOPICS, "--create", "--topic", world.name(what))
    world.run("--delete", "--topic", world.name())
    world.run("--describe", "--topic", world.name(), until=gone)
    world.run("--delete", "--topic", world.name(), until=gone)
    world.run("--delete", "--topic", world.name(), "--if-exists")
    world.run("--delete", "--topic", world.name("a.*"))
    world.run("--delete", "--topic", "__consumer_offsets_no")
    world.run("--delete")


# -- kafka-get-offsets -------------------------------------------------------------------------------------------------


@CASES.of(OFFSETS, "offsets")
def offsets(world: World) -> None:
    topic = world.wire.topic(partitions=3, configs={"retention.ms": "-1"})
    for partition, count in ((0, 3), (1, 1)):
        for index in range(count):
            world.wire.produce(topic, [b"v"], partition, timestamp_ms=1000 * (index + 1))
    world.run("--topic", topic)
    for time in (
        "-1",
        "latest",
        "-2",
        "earliest",
        "-3",
        "max-timestamp",
        "-4",
        "earliest-local",
        "-5",
        "latest-tiered",
        "-6",
        "earliest-pending-upload",
    ):
        world.run("--topic", topic, "--time", time)
    for time in ("0", "1500", "2000", "99999999999999", "soon", "-9"):
        world.run("--topic", topic, "--time", time, is_unordered=True)
    world.run("--topic", topic, "--partitions", "0,2")
    world.run("--topic", topic, "--partitions", "1-")
    world.run("--topic", topic, "--partitions", "7")
    world.run("--topic", topic, "--partitions", "x")
    world.run("--topic-partitions", f"{topic}:1,{topic}:2-3")
    world.run("--topic-partitions", f"{topic}:-2")
    world.run("--topic-partitions", f"{topic}.*:0", "--exclude-internal-topics")
    world.run("--topic-partitions", "none:0")
    world.run("--topic-partitions", f"{topic}:0", "--topic", topic)
    world.run("--topic", "none")
    world.run("--topic", "__consumer_offsets", "--partitions", "1", "--exclude-internal-topics")
    world.run("--topic", topic, "--command-config", world.file("client", "client.id=table\n"))
    world.run("--topic", topic, bootstrap=False)


# -- kafka-delete-records ----------------------------------------------------------------------------------------------


@CASES.of(DELETE, "delete records")
def delete_records(world: World) -> None:
    topic = world.wire.topic(partitions=2)
    for partition in range(2):
        for _ in range(3):
            world.wire.produce(topic, [b"v"], partition)

    def asked(name: str, *places: tuple[str, int, int]) -> str:
        rows = [{"topic": one, "partition": partition, "offset": offset} for one, partition, offset in places]
        return world.file(name, json.dumps({"partitions": rows, "version": 1}))

    for name, places in (
        ("one", ((topic, 0, 1),)),
        ("again", ((topic, 0, 1),)),
        ("below", ((topic, 0, 0),)),
        ("both", ((topic, 0, 2), (topic, 1, -1))),
        ("beyond", ((topic, 0, 9),)),
        ("unknown", (("none", 0, 1),)),
        ("partition", ((topic, 7, 1),)),
        ("negative", ((topic, 0, -5),)),
        ("twice", ((topic, 0, 1), (topic, 0, 2))),
        ("nothing", ()),
    ):
        file = asked(f"{name}.json", *places)
        world.run("--offset-json-file", file, *world.impatient(), is_unordered=True)
    world.run("--offset-json-file", world.file("broken", "{"))
    world.run("--offset-json-file", world.file("other", '{"version": 2, "partitions": []}'))
    world.run("--offset-json-file", world.path("none"))
    world.run(
        "--offset-json-file", asked("c", (topic, 0, 2)), "--command-config", world.file("client", "client.id=table\n")
    )
    world.run()


# -- kafka-leader-election ---------------------------------------------------------------------------------------------


@CASES.of(ELECTION, "elections")
def elections(world: World) -> None:
    topic = world.wire.topic(partitions=2)

    def asked(name: str, *places: tuple[str, int]) -> str:
        rows = [{"topic": one, "partition": partition} for one, partition in places]
        return world.file(name, json.dumps({"partitions": rows}))

    one = ("--topic", topic, "--partition", "0")
    world.run("--election-type", "preferred", *one)
    world.run("--election-type", "PREFERRED", *one)
    world.run("--election-type", "unclean", *one)
    world.run("--election-type", "other", *one)
    world.run(
        "--election-type", "preferred", "--path-to-json-file", asked("both", (topic, 0), (topic, 1)), is_unordered=True
    )
    world.run(
        "--election-type",
        "preferred",
        "--path-to-json-file",
        asked("unknown", (topic, 0), ("none", 0), (topic, 9)),
        is_unordered=True,
    )
    world.run("--election-type", "preferred", "--path-to-json-file", asked("twice", (topic, 0), (topic, 0)))
    world.run("--election-type", "preferred", "--path-to-json-file", world.file("broken", "{"))
    world.run("--election-type", "preferred", "--all-topic-partitions")
    world.run("--election-type", "unclean", "--all-topic-partitions")
    world.run("--election-type", "preferred", "--topic", "none", "--partition", "0")
    world.run("--election-type", "preferred", "--topic", topic)
    world.run("--election-type", "preferred")
    world.run(*one)
    settings = world.file("client", "client.id=table\n")
    world.run("--election-type", "preferred", *one, "--command-config", settings)
    world.run("--election-type", "preferred", *one, "--admin.config", settings)


# -- kafka-reassign-partitions -----------------------------------------------------------------------------------------


@CASES.of(REASSIGN, "reassignments")
def reassignments(world: World) -> None:
    topic = world.wire.topic(partitions=2)

    def assignment(name: str, *places: tuple[str, int, list[int]], log_dirs: str = "") -> str:
        rows = []
        for one, partition, replicas in places:
            row: dict[str, object] = {"topic": one, "partition": partition, "replicas": replicas}
            rows.append({**row, "log_dirs": [log_dirs] * len(replicas)} if log_dirs else row)
        return world.file(name, json.dumps({"version": 1, "partitions": rows}))

    moving = world.file("topics.json", json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    world.run("--generate", "--topics-to-move-json-file", moving, "--broker-list", "1", is_unordered=True)
    world.run(
        "--generate",
        "--topics-to-move-json-file",
        moving,
        "--broker-list",
        "1",
        "--disable-rack-aware",
        is_unordered=True,
    )
    world.run("--generate", "--topics-to-move-json-file", moving, "--broker-list", "1,1")
    world.run("--generate", "--topics-to-move-json-file", moving, "--broker-list", "7")
    unknown = world.file("none.json", json.dumps({"version": 1, "topics": [{"topic": "none"}]}))
    world.run("--generate", "--topics-to-move-json-file", unknown, "--broker-list", "1")
    world.run("--generate", "--broker-list", "1")
    same = assignment("same.json", (topic, 0, [1]), (topic, 1, [1]))
    world.run("--list")
    world.run("--execute", "--reassignment-json-file", same, is_unordered=True)
    verified = ("--verify", "--reassignment-json-file", same)
    world.run(*verified, until=lambda ended: "still in progress" not in ended.out, is_unordered=True)
    world.run(*verified, "--preserve-throttles", is_unordered=True)
    world.run(
        "--execute", "--reassignment-json-file", same, "--throttle", "1000000", "--timeout", "5000", is_unordered=True
    )
    world.run(*verified, until=lambda ended: "still in progress" not in ended.out, is_unordered=True)
    world.run("--execute", "--reassignment-json-file", same, "--throttle", "2000000", "--additional", is_unordered=True)
    world.run("--execute", "--reassignment-json-file", same, "--disallow-replication-factor-change", is_unordered=True)
    world.run(
        "--execute", "--reassignment-json-file", same, "--replica-alter-log-dirs-throttle", "1000000", is_unordered=True
    )
    world.run(*verified, until=lambda ended: "still in progress" not in ended.out, is_unordered=True)
    world.run("--execute", "--reassignment-json-file", assignment("more.json", (topic, 0, [1, 2])), is_unordered=True)
    world.run("--execute", "--reassignment-json-file", assignment("other.json", (topic, 0, [7])), is_unordered=True)
    world.run(
        "--execute",
        "--reassignment-json-file",
        assignment("none2.json", ("none", 0, [1])),
        *world.impatient(),
        is_unordered=True,
    )
    world.run("--execute", "--reassignment-json-file", assignment("empty.json", (topic, 0, [])), is_unordered=True)
    world.run("--execute", "--reassignment-json-file", assignment("twice.json", (topic, 0, [1, 1])), is_unordered=True)
    world.run("--execute", "--reassignment-json-file", assignment("nothing.json"), is_unordered=True)
    world.run(
        "--execute",
        "--reassignment-json-file",
        assignment("dir.json", (topic, 0, [1]), log_dirs="/no/such/directory"),
        is_unordered=True,
    )
    world.run(
        "--verify",
        "--reassignment-json-file",
        assignment("none3.json", ("none", 0, [1])),
        *world.impatient(),
        is_unordered=True,
    )
    world.run("--cancel", "--reassignment-json-file", same, is_unordered=True)
    world.run("--cancel", "--reassignment-json-file", same, "--preserve-throttles", is_unordered=True)
    world.run("--execute")
    world.run("--list", "--command-config", world.file("client", "client.id=table\n"))
    world.run("--list", "--bootstrap-controller", "127.0.0.1:1", *world.impatient(), bootstrap=False)
    world.run()


# -- kafka-log-dirs ----------------------------------------------------------------------------------------------------


@CASES.of(LOG_DIRS, "log directories")
def log_dirs(world: World) -> None:
    topic = world.wire.topic(partitions=2)
    world.wire.produce(topic, [b"value"])
    world.run("--describe", "--topic-list", topic)
    world.run("--describe", "--topic-list", topic, "--broker-list", "1")
    world.run("--describe", "--topic-list", topic, "--broker-list", "1,7")
    world.run("--describe", "--topic-list", "none", "--broker-list", "1")
    world.run("--describe", "--topic-list", topic, "--command-config", world.file("client", "client.id=table\n"))
    world.run("--topic-list", topic)
