"""kafka-transactions."""

from __future__ import annotations

from typing import Any, Final

from tests.tools_table.case import Cases
from tests.tools_table.world import World

CASES: Final = Cases()

TRANSACTIONS: Final = "kafka-transactions"
# What each server numbers by itself, and what time it took.
LIST: Final = ("ProducerId", "Coordinator")
DESCRIBE: Final = ("ProducerId", "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs")
PRODUCERS: Final = ("ProducerId", "LatestCoordinatorEpoch", "LastTimestamp")


def own(world: World) -> str:
    return f"{world.name('')}|stderr|TransactionalId|exit"


def end(world: World, transactional_id: str, producer: dict[str, Any], *, is_commit: bool) -> None:
    world.wire.until(
        lambda: world.wire.call(26, 3, transactional_id=transactional_id, committed=is_commit, **producer),
        lambda answer: not answer["error_code"],
    )


@CASES.of(TRANSACTIONS, "list and describe")
def list_and_describe(world: World) -> None:
    topic = world.wire.topic()
    opened, ended, idle = world.name("open"), world.name("ended"), world.name("idle")
    world.wire.transaction(opened, topic)
    end(world, ended, world.wire.transaction(ended, topic), is_commit=True)
    world.wire.producer(idle)
    for arguments in (
        (),
        ("--duration-filter", "0"),
        ("--duration-filter", "3600000"),
        ("--duration-filter", "x"),
        ("--transactional-id-pattern", world.name("o.*")),
        ("--transactional-id-pattern", "["),
    ):
        world.run(
            "list",
            *arguments,
            hidden=LIST,
            only=own(world),
            is_unordered=True,
            until=lambda ended: "PrepareCommit" not in ended.out,
        )
    for one in (opened, ended, idle, world.name("none")):
        world.run("describe", "--transactional-id", one, hidden=DESCRIBE)
    settings = world.file("client", "client.id=table\n")
    world.run("--command-config", settings, "list", hidden=LIST, only=own(world), is_unordered=True)
    world.run("describe")
    world.run()
    world.run("list", bootstrap=False)


@CASES.of(TRANSACTIONS, "producers of a partition")
def producers(world: World) -> None:
    topic = world.wire.topic()
    producer = world.wire.transaction(world.name("id"), topic)
    idempotent = world.wire.producer()
    world.wire.produce(topic, [b"v"], **idempotent, base_sequence=0)
    of = ("--topic", topic, "--partition", "0")
    world.run("describe-producers", *of, hidden=PRODUCERS, is_unordered=True)
    world.run("describe-producers", *of, "--broker-id", "1", hidden=PRODUCERS, is_unordered=True)
    hurry = world.impatient()
    world.run(*hurry, "describe-producers", *of, "--broker-id", "7")
    world.run(*hurry, "describe-producers", "--topic", topic, "--partition", "7")
    world.run(*hurry, "describe-producers", "--topic", "none", "--partition", "0")
    world.run("describe-producers", "--topic", topic)
    end(world, world.name("id"), producer, is_commit=False)
    world.run(
        "describe-producers",
        *of,
        hidden=PRODUCERS,
        is_unordered=True,
        until=lambda ended: sum(line.split()[-1] == "None" for line in ended.out.splitlines() if line.strip()) == 2,
    )


@CASES.of(TRANSACTIONS, "transactions that hang")
def hanging(world: World) -> None:
    topic = world.wire.topic()
    world.wire.transaction(world.name("id"), topic)
    for arguments in (
        ("--broker-id", "1"),
        ("--broker-id", "7"),
        ("--topic", topic),
        ("--topic", topic, "--partition", "0"),
        ("--topic", topic, "--partition", "7"),
        ("--topic", "none"),
        ("--partition", "0"),
        ("--broker-id", "1", "--max-transaction-timeout", "5"),
        (),
    ):
        world.run(*world.impatient(), "find-hanging", *arguments, hidden=PRODUCERS, is_unordered=True)


@CASES.of(TRANSACTIONS, "abort")
def abort(world: World) -> None:
    topic = world.wire.topic()
    producer = world.wire.transaction(world.name("id"), topic)
    of = ("--topic", topic, "--partition", "0")
    numbers = (("\\b" + str(producer["producer_id"]) + "\\b", "N"),)
    by_producer = ("--producer-id", str(producer["producer_id"]), "--producer-epoch", str(producer["producer_epoch"]))
    world.run("abort", *of, "--start-offset", "7")
    world.run("abort", *of)
    world.run("abort", *of, *by_producer)
    world.run(*world.impatient(), "abort", "--topic", "none", "--partition", "0", "--start-offset", "0")
    world.run("abort", *of, *by_producer, "--coordinator-epoch", "-1", patterns=numbers)
    world.run("describe-producers", *of, hidden=(*PRODUCERS, "ProducerEpoch"))
    second = world.wire.topic("second")
    world.wire.transaction(world.name("second-id"), second)
    world.run("abort", "--topic", second, "--partition", "0", "--start-offset", "0")
    world.run("describe-producers", "--topic", second, "--partition", "0", hidden=(*PRODUCERS, "ProducerEpoch"))


@CASES.of(TRANSACTIONS, "force an end")
def force(world: World) -> None:
    topic = world.wire.topic()
    world.wire.transaction(world.name("id"), topic)
    world.run("forceTerminateTransaction", "--transactionalId", world.name("id"))
    world.run(
        "describe",
        "--transactional-id",
        world.name("id"),
        hidden=DESCRIBE,
        until=lambda ended: "Complete" in ended.out or "Empty" in ended.out,
    )
    world.run("forceTerminateTransaction", "--transactionalId", world.name("none"))
    world.run("forceTerminateTransaction")
