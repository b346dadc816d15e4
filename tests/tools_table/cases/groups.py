"""kafka-consumer-groups, kafka-groups, kafka-streams-groups, kafka-share-groups, kafka-streams-application-reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.cases.streams import heartbeat, topology
from tests.tools_table.case import Cases
from tests.tools_table.world import World

CASES: Final = Cases()

CONSUMER, GROUPS, STREAMS, SHARE = "kafka-consumer-groups", "kafka-groups", "kafka-streams-groups", "kafka-share-groups"
RESET_STREAMS = "kafka-streams-application-reset"
HEADERS: Final = r"GROUP|stderr|^Error|exit code"


def own(world: World) -> str:
    """Of lists of all groups, the case's own."""
    return f"{world.name('')}|{HEADERS}"


def filled_topic(world: World, what: str = "t", partitions: int = 2, records: int = 5) -> str:
    """Records of 1970, a second from each other. Retention would find them in a run of more than five minutes."""
    topic = world.wire.topic(what, partitions, {"retention.ms": "-1"})
    for partition in range(partitions):
        for index in range(records):
            world.wire.produce(topic, [b"v"], partition, timestamp_ms=1000 * (index + 1))
    return topic


def empty_group(world: World, topic: str, what: str = "g", offset: int = 2) -> str:
    group = world.name(what)
    for partition in range(2):
        world.wire.commit(group, topic, offset, partition)
    return group


def all_kinds(world: World) -> dict[str, str]:
    """A group without members, a classic one and one of the newer protocol, both with a member and commits."""
    topic = filled_topic(world)
    empty = empty_group(world, topic, "empty")
    classic, consumer = world.name("classic"), world.name("consumer")
    world.wire.commit(classic, topic, 1, 0)
    world.wire.member(classic, [topic], assigned=[0, 1])
    world.wire.consumer(consumer, [topic])
    return {"topic": topic, "empty": empty, "classic": classic, "consumer": consumer}


def left_group(world: World, topic: str, what: str = "left") -> str:
    """A group of the newer protocol whose only member has left, with commits."""
    group = world.name(what)
    member = world.wire.consumer(group, [topic])
    world.wire.call(68, 1, **{**member, "member_epoch": -1})
    for partition in range(2):
        world.wire.commit(group, topic, 2, partition)
    return group


# -- kafka-consumer-groups ---------------------------------------------------------------------------------------------


@CASES.of(CONSUMER, "list")
def list_groups(world: World) -> None:
    all_kinds(world)
    for arguments in (
        (),
        ("--state",),
        ("--state", "stable"),
        ("--state", "Stable,Empty"),
        ("--state", "dead"),
        ("--state", "other"),
        ("--type",),
        ("--type", "classic"),
        ("--type", "Consumer"),
        ("--type", "classic,consumer"),
        ("--type", "share"),
        ("--type", "other"),
        ("--type", "classic", "--state", "empty"),
        ("--timeout", "5000"),
        ("--command-config", world.file("client", "client.id=table\n")),
        ("--verbose",),
        ("--group", "g"),
    ):
        world.run("--list", *arguments, only=own(world), is_unordered=True)
    world.run()
    world.run("--list", bootstrap=False)


@CASES.of(CONSUMER, "describe")
def describe(world: World) -> None:
    made = all_kinds(world)
    left = left_group(world, made["topic"])
    for group in (made["empty"], made["classic"], made["consumer"], left, world.name("none")):
        for arguments in (
            (),
            ("--offsets",),
            ("--offsets", "--verbose"),
            ("--members",),
            ("--members", "--verbose"),
            ("--state",),
            ("--state", "--verbose"),
        ):
            world.run("--describe", "--group", group, *arguments, is_unordered=True)
    both = ("--group", made["empty"], "--group", made["classic"])
    for what in ("--offsets", "--members", "--state"):
        world.run("--describe", *both, what, is_unordered=True)
        world.run("--describe", "--all-groups", what, only=own(world), is_unordered=True)
    world.run("--describe", *both, "--timeout", "7000", is_unordered=True)
    world.run("--describe")
    world.run("--describe", *both, "--offsets", "--members")
    world.run("--describe", *both, "--all-groups")
    world.run("--describe", *both, "--state", "stable")
    world.run("--describe", "--group", "")


@CASES.of(CONSUMER, "reset offsets")
def reset(world: World) -> None:
    topic = filled_topic(world)
    group = empty_group(world, topic)
    of = ("--reset-offsets", "--group", group, "--topic", topic)
    for arguments in (
        ("--to-earliest",),
        ("--to-earliest", "--dry-run"),
        ("--to-latest", "--execute"),
        ("--to-earliest", "--execute"),
        ("--to-offset", "3", "--execute"),
        ("--to-current", "--execute"),
        ("--to-offset", "99", "--dry-run"),
        ("--to-offset", "-5", "--dry-run"),
        ("--shift-by", "-1", "--execute"),
        ("--shift-by", "1", "--dry-run"),
        ("--shift-by", "-99", "--dry-run"),
        ("--shift-by", "99", "--dry-run"),
        ("--to-datetime", "1970-01-01T00:00:02.500", "--execute"),
        ("--to-datetime", "1970-01-01T00:00:03.000Z", "--dry-run"),
        ("--to-datetime", "2070-01-01T00:00:03.000+01:00", "--dry-run"),
        ("--to-datetime", "yesterday", "--dry-run"),
        ("--by-duration", "PT1H", "--dry-run"),
        ("--by-duration", "P30000D", "--dry-run"),
        ("--by-duration", "an hour", "--dry-run"),
        ("--to-earliest", "--export"),
        ("--to-earliest", "--export", "--dry-run"),
        ("--to-earliest", "--to-latest", "--dry-run"),
        ("--dry-run",),
        ("--to-earliest", "--dry-run", "--execute"),
        ("--to-earliest", "--timeout", "9000", "--dry-run"),
    ):
        world.run(*of, *arguments, is_unordered=True)
    world.do(CONSUMER, "--describe", "--group", group)


@CASES.of(CONSUMER, "scope of a reset")
def scope(world: World) -> None:
    topic, other = filled_topic(world), filled_topic(world, "other")
    group, second = empty_group(world, topic), empty_group(world, other, "second")
    world.wire.commit(group, other, 1)
    unused = filled_topic(world, "unused")
    to = ("--to-earliest", "--dry-run")
    for arguments in (
        ("--topic", f"{topic}:0"),
        ("--topic", f"{topic}:0,1"),
        ("--topic", f"{topic}:7"),
        ("--topic", f"{topic}:x"),
        ("--topic", f"{topic}:0", "--topic", other),
        ("--topic", unused),
        ("--topic", "none"),
        ("--all-topics",),
        ("--all-topics", "--topic", topic),
        (),
    ):
        world.run("--reset-offsets", "--group", group, *arguments, *to, is_unordered=True)
    world.run("--reset-offsets", "--group", world.name("new"), "--topic", topic, *to, is_unordered=True)
    world.run("--reset-offsets", "--group", world.name("new"), "--all-topics", *to, is_unordered=True)
    world.run("--reset-offsets", "--group", world.name("new"), "--topic", topic, "--to-current", is_unordered=True)
    world.run("--reset-offsets", "--group", group, "--group", second, "--all-topics", *to, is_unordered=True)
    world.run(
        "--reset-offsets", "--group", group, "--group", second, "--all-topics", "--export", *to, is_unordered=True
    )
    world.run("--reset-offsets", "--all-groups", "--all-topics", *to, only=own(world), is_unordered=True)
    world.run("--reset-offsets", "--all-topics", *to)


@CASES.of(CONSUMER, "reset from a file")
def from_file(world: World) -> None:
    topic = filled_topic(world)
    group, second = empty_group(world, topic), empty_group(world, topic, "second")
    of = ("--reset-offsets", "--group", group)
    plan = world.file("plan.csv", f'"{topic}",0,1\n"{topic}",1,4\n')
    world.run(*of, "--from-file", plan, "--dry-run", is_unordered=True)
    world.run(*of, "--from-file", plan, is_unordered=True)
    world.run(*of, "--from-file", plan, "--execute", is_unordered=True)
    world.run("--describe", "--group", group, is_unordered=True)
    beyond = world.file("beyond.csv", f'"{topic}",0,99\n"{topic}",1,-1\n')
    world.run(*of, "--from-file", beyond, "--dry-run", is_unordered=True)
    world.run(*of, "--from-file", world.file("none.csv", '"none",0,1\n'), "--dry-run", is_unordered=True)
    world.run(*of, "--from-file", world.file("broken.csv", "a,b\n"), "--dry-run", is_unordered=True)
    world.run(*of, "--from-file", world.path("none"), "--dry-run", is_unordered=True)
    both = world.file("both.csv", f'"{group}","{topic}",0,2\n"{second}","{topic}",1,3\n')
    world.run(*of, "--group", second, "--from-file", both, "--execute", is_unordered=True)
    world.run("--describe", "--group", group, "--group", second, is_unordered=True)


@CASES.of(CONSUMER, "reset of groups in use")
def reset_in_use(world: World) -> None:
    made = all_kinds(world)
    for group in (made["classic"], made["consumer"]):
        to = ("--topic", made["topic"], "--to-earliest")
        world.run("--reset-offsets", "--group", group, *to, "--execute", is_unordered=True)
        world.run("--reset-offsets", "--group", group, *to, "--dry-run", is_unordered=True)


@CASES.of(CONSUMER, "delete")
def delete(world: World) -> None:
    made = all_kinds(world)
    second = empty_group(world, made["topic"], "second")
    world.run("--delete", "--group", made["empty"])
    world.run("--delete", "--group", made["empty"])
    world.run("--delete", "--group", made["classic"])
    world.run("--delete", "--group", made["consumer"])
    world.run(
        "--delete", "--group", second, "--group", made["classic"], "--group", world.name("none"), is_unordered=True
    )
    world.run("--delete", "--group", second, "--topic", made["topic"])
    world.run("--delete")
    world.run("--list", only=own(world), is_unordered=True)


@CASES.of(CONSUMER, "delete offsets")
def delete_offsets(world: World) -> None:
    made = all_kinds(world)
    group, topic = made["empty"], made["topic"]
    world.run("--delete-offsets", "--group", group, "--topic", f"{topic}:1", is_unordered=True)
    world.run("--describe", "--group", group, is_unordered=True)
    world.run("--delete-offsets", "--group", group, "--topic", topic, is_unordered=True)
    world.run("--delete-offsets", "--group", group, "--topic", topic, is_unordered=True)
    world.run("--delete-offsets", "--group", world.name("other"), "--topic", topic, is_unordered=True)
    again = empty_group(world, topic, "again")
    world.run("--delete-offsets", "--group", again, "--topic", f"{topic}:7", is_unordered=True)
    world.run("--delete-offsets", "--group", again, "--topic", f"{topic}:x")
    world.run("--delete-offsets", "--group", again, "--topic", "none", is_unordered=True)
    world.run("--delete-offsets", "--group", made["classic"], "--topic", topic, is_unordered=True)
    world.run("--delete-offsets", "--group", made["consumer"], "--topic", topic, is_unordered=True)
    world.run("--delete-offsets", "--group", again)
    world.run("--delete-offsets", "--topic", topic)
    world.run("--delete-offsets", "--group", again, "--group", group, "--topic", topic)


@CASES.of(CONSUMER, "regular expressions")
def regex(world: World) -> None:
    world.run("--validate-regex", "a.*", bootstrap=False)
    world.run("--validate-regex", "a(?=b)", bootstrap=False)
    world.run("--validate-regex", "[", bootstrap=False)
    world.run("--validate-regex", "a.*", "--list")


# -- kafka-groups ------------------------------------------------------------------------------------------------------


def streams_group(world: World, what: str = "streams") -> str:
    """A group whose one member has its tasks. A group that was empty has none to give for three seconds; whether its state
    changes then or with the next heartbeat is not the same on both servers, so the member goes on with its heartbeats."""
    group, topic = world.name(what), filled_topic(world, f"{what}-source")
    epoch = 0

    def beat() -> Mapping[str, Any]:
        nonlocal epoch
        joining: Mapping[str, Any] = {} if epoch else {"topology": topology(topic)}
        answer = world.wire.call(88, 0, **heartbeat(group, world.name("member"), epoch, **joining))
        epoch = epoch if answer["error_code"] else answer["member_epoch"]
        return answer

    world.wire.until(beat, lambda answer: not answer["error_code"] and bool(answer["active_tasks"]))
    return group


@CASES.of(GROUPS, "list")
def groups(world: World) -> None:
    all_kinds(world)
    streams_group(world)
    for arguments in (
        (),
        ("--consumer",),
        ("--share",),
        ("--streams",),
        ("--group-type", "classic"),
        ("--group-type", "consumer"),
        ("--group-type", "streams"),
        ("--group-type", "share"),
        ("--group-type", "other"),
        ("--protocol", "consumer"),
        ("--protocol", "streams"),
        ("--protocol", "other"),
        ("--protocol", ""),
        ("--group-type", "classic", "--protocol", "consumer"),
        ("--consumer", "--share"),
        ("--consumer", "--group-type", "classic"),
        ("--command-config", world.file("client", "client.id=table\n")),
    ):
        world.run("--list", *arguments, only=own(world), is_unordered=True)
    world.run()


# -- kafka-streams-groups ----------------------------------------------------------------------------------------------


@CASES.of(STREAMS, "list and describe")
def streams(world: World) -> None:
    group = streams_group(world)
    topic = world.name("streams-source")
    empty = streams_group(world, "empty")
    world.wire.call(88, 0, **heartbeat(empty, world.name("member"), -1))
    for partition in range(2):
        world.wire.commit(empty, world.name("empty-source"), 2, partition)
    for arguments in ((), ("--state",), ("--state", "Empty"), ("--state", "notready,stable"), ("--state", "other")):
        world.run("--list", *arguments, only=own(world), is_unordered=True)
    for one in (group, empty, world.name("none")):
        for arguments in (
            (),
            ("--offsets",),
            ("--offsets", "--verbose"),
            ("--members",),
            ("--members", "--verbose"),
            ("--state",),
            ("--state", "--verbose"),
        ):
            world.run("--describe", "--group", one, *arguments, is_unordered=True)
    world.run("--describe", "--all-groups", "--state", only=own(world), is_unordered=True)
    world.run("--describe", "--group", group, "--timeout", "7000", is_unordered=True)
    world.run("--delete-offsets", "--group", group, "--input-topic", topic, is_unordered=True)
    world.run("--describe", "--group", group, "--command-config", world.file("client", "client.id=table\n"))
    world.run("--describe")
    world.run()


@CASES.of(STREAMS, "reset and delete")
def streams_reset(world: World) -> None:
    group = streams_group(world)
    topic = world.name("streams-source")
    running = ("--reset-offsets", "--group", group, "--input-topic", topic, "--to-earliest")
    world.run(*running, "--execute", is_unordered=True)
    world.run("--delete", "--group", group)
    world.wire.call(88, 0, **heartbeat(group, world.name("member"), -1))
    for partition in range(2):
        world.wire.commit(group, topic, 2, partition)
    for arguments in (
        ("--to-earliest",),
        ("--to-latest", "--execute"),
        ("--to-offset", "3", "--execute"),
        ("--to-current", "--dry-run"),
        ("--shift-by", "-1", "--dry-run"),
        ("--to-datetime", "1970-01-01T00:00:02.500", "--dry-run"),
        ("--by-duration", "PT1H", "--dry-run"),
        ("--to-earliest", "--export", "--dry-run"),
    ):
        world.run("--reset-offsets", "--group", group, "--input-topic", topic, *arguments, is_unordered=True)
    all_topics = ("--reset-offsets", "--group", group, "--all-input-topics", "--to-earliest")
    world.run(*all_topics, "--dry-run", is_unordered=True)
    world.run(*all_topics, "--dry-run", "--delete-all-internal-topics", is_unordered=True)
    world.run(*all_topics, "--execute", "--delete-all-internal-topics", is_unordered=True)
    world.run(*all_topics, "--execute", "--delete-internal-topic", f"{group}-none-changelog", is_unordered=True)
    plan = world.file("plan.csv", f'"{topic}",0,1\n"{topic}",1,4\n')
    world.run("--reset-offsets", "--group", group, "--from-file", plan, "--execute", is_unordered=True)
    world.run("--delete-offsets", "--group", group, "--input-topic", f"{topic}:0", is_unordered=True)
    world.run("--delete-offsets", "--group", group, "--all-input-topics", is_unordered=True)
    world.run("--delete-offsets", "--group", world.name("none"), "--input-topic", topic, is_unordered=True)
    world.run("--delete", "--group", group)
    world.run("--delete", "--group", world.name("none"))


# -- kafka-share-groups ------------------------------------------------------------------------------------------------


@CASES.of(SHARE, "share groups")
def share(world: World) -> None:
    topic = filled_topic(world)
    group = world.name("none")
    world.run("--list", only=own(world), is_unordered=True)
    world.run("--list", "--state", only=own(world), is_unordered=True)
    world.run("--list", "--state", "stable", only=own(world), is_unordered=True)
    for arguments in (
        (),
        ("--offsets",),
        ("--members",),
        ("--state",),
        ("--members", "--verbose"),
        ("--timeout", "7000"),
    ):
        world.run("--describe", "--group", group, *arguments)
    world.run("--describe", "--all-groups")
    of = ("--reset-offsets", "--group", group, "--topic", topic)
    world.run(*of, "--to-earliest", "--dry-run")
    world.run(*of, "--to-latest", "--execute")
    world.run(*of, "--to-datetime", "1970-01-01T00:00:02.500", "--dry-run")
    world.run("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--dry-run")
    world.run("--delete-offsets", "--group", group, "--topic", topic)
    world.run("--delete", "--group", group)
    world.run("--list", "--command-config", world.file("client", "client.id=table\n"), only=own(world))


# -- kafka-streams-application-reset -----------------------------------------------------------------------------------


@CASES.of(RESET_STREAMS, "reset an application")
def application_reset(world: World) -> None:
    topic = filled_topic(world)
    group = empty_group(world, topic)
    of = ("--application-id", group, "--input-topics", topic)
    plan = world.file("plan.csv", f"{topic},0,1\n{topic},1,4\n")
    settings = world.file("client", "client.id=table\n")
    for arguments in (
        ("--dry-run",),
        ("--to-earliest",),
        ("--to-latest",),
        ("--to-offset", "3"),
        ("--shift-by", "-1"),
        ("--to-datetime", "1970-01-01T00:00:02.500"),
        ("--by-duration", "PT1H"),
        ("--from-file", plan),
        ("--force",),
        ("--command-config", settings),
        ("--config-file", settings),
        ("--internal-topics", f"{group}-none-changelog"),
        ("--intermediate-topics", topic),
    ):
        world.run(*of, *arguments, is_unordered=True)
    world.wire.topic("g-store-changelog")
    world.run("--application-id", group, "--dry-run", is_unordered=True)
    world.run("--application-id", group, is_unordered=True)
    world.run("--application-id", world.name("new"), "--input-topics", "none", is_unordered=True)
    world.wire.member(world.name("used"), [topic])
    world.run("--application-id", world.name("used"), "--input-topics", topic, is_unordered=True)
    world.run()


# -- kafka-consumer-groups, of all groups ------------------------------------------------------------------------------


@CASES.of(CONSUMER, "delete all groups")
def delete_all(world: World) -> None:
    all_kinds(world)
    # It names every group of the server, in use or not by now: what became of the case's own is looked at afterwards.
    world.run("--delete", "--all-groups", only="^$")
    world.run("--list", only=own(world), is_unordered=True)
