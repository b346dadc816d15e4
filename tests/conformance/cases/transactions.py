"""Producer ids and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.cases.data import end_transaction
from tests.conformance.world import World

CASES: Final = Cases()
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, MARKERS, COMMIT_OFFSETS, DESCRIBE, LIST = 22, 24, 25, 26, 27, 28, 65, 66
NOBODY: Final = {"producer_id": 2**40, "producer_epoch": 0}


def init(transactional_id: str | None, timeout_ms: int = 60_000, **producer: int) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "producer_id": -1,
        "producer_epoch": -1,
        **producer,
    }


@CASES.add(INIT, "an idempotent producer", valid=True)
def _(world: World, version: int) -> Any:
    return init(None)


@CASES.add(INIT, "a transactional id")
def _(world: World, version: int) -> Any:
    return init(world.name())


@CASES.add(INIT, "a transactional id again")
def _(world: World, version: int) -> Any:
    world.producer(world.name())
    return init(world.name())


@CASES.add(INIT, "an empty transactional id")
def _(world: World, version: int) -> Any:
    return init("")


@CASES.add(INIT, "a timeout far too long")
def _(world: World, version: int) -> Any:
    return init(world.name(), 2**31 - 1)


@CASES.add(INIT, "a timeout of 0")
def _(world: World, version: int) -> Any:
    return init(world.name(), 0)


@CASES.add(INIT, "a timeout below 0")
def _(world: World, version: int) -> Any:
    return init(world.name(), -1)


@CASES.add(INIT, "with its present epoch", since=3)
def _(world: World, version: int) -> Any:
    return init(world.name(), **world.producer(world.name()))


@CASES.add(INIT, "with an epoch that never was", since=3)
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name())
    return init(world.name(), **{**producer, "producer_epoch": 77})


@CASES.add(INIT, "with an older epoch", since=3)
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name())
    world.producer(world.name())
    world.producer(world.name())
    return init(world.name(), **producer)


@CASES.add(INIT, "with another's producer id", since=3)
def _(world: World, version: int) -> Any:
    world.producer(world.name())
    return init(world.name(), **NOBODY)


@CASES.add(INIT, "with a producer id for a new transactional id", since=3)
def _(world: World, version: int) -> Any:
    return init(world.name(), **NOBODY)


@CASES.add(INIT, "a producer id without its epoch", since=3)
def _(world: World, version: int) -> Any:
    return init(world.name(), producer_id=5)


@CASES.add(INIT, "an idempotent producer with its epoch", since=3)
def _(world: World, version: int) -> Any:
    return init(None, **world.producer())


@CASES.add(INIT, "in an open transaction")
def _(world: World, version: int) -> Any:
    world.transaction(world.name(), world.topic("t"))
    return init(world.name())


# -- AddPartitionsToTxn ------------------------------------------------------------------------------------------------


def add(
    transactional_id: str, producer: Mapping[str, int], topics: Mapping[str, list[int]], **more: Any
) -> dict[str, Any]:
    places = [{"name": name, "partitions": indexes} for name, indexes in topics.items()]
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer["producer_id"],
        "v3_and_below_producer_epoch": producer["producer_epoch"],
        "v3_and_below_topics": places,
        "transactions": [
            {"transactional_id": transactional_id, **producer, "verify_only": False, "topics": places, **more}
        ],
    }


@CASES.add(ADD_PARTITIONS, "partitions", valid=True)
def _(world: World, version: int) -> Any:
    return add(world.name(), world.producer(world.name()), {world.read_topic(): [0, 1]})


@CASES.add(ADD_PARTITIONS, "an unknown topic")
def _(world: World, version: int) -> Any:
    return add(world.name(), world.producer(world.name()), {world.name("none"): [0]})


@CASES.add(ADD_PARTITIONS, "good and bad partitions")
def _(world: World, version: int) -> Any:
    topics = {world.read_topic(): [0, 77, -1], world.name("none"): [0]}
    return add(world.name(), world.producer(world.name()), topics)


@CASES.add(ADD_PARTITIONS, "an unknown transactional id")
def _(world: World, version: int) -> Any:
    return add(world.name("none"), NOBODY, {world.read_topic(): [0]})


@CASES.add(ADD_PARTITIONS, "another producer id")
def _(world: World, version: int) -> Any:
    world.producer(world.name())
    return add(world.name(), NOBODY, {world.read_topic(): [0]})


@CASES.add(ADD_PARTITIONS, "an older epoch")
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name())
    world.producer(world.name())
    return add(world.name(), producer, {world.read_topic(): [0]})


@CASES.add(ADD_PARTITIONS, "an epoch that never was")
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name())
    return add(world.name(), {**producer, "producer_epoch": 77}, {world.read_topic(): [0]})


@CASES.add(ADD_PARTITIONS, "an empty transactional id")
def _(world: World, version: int) -> Any:
    return add("", NOBODY, {world.read_topic(): [0]})


@CASES.add(ADD_PARTITIONS, "no partitions")
def _(world: World, version: int) -> Any:
    return add(world.name(), world.producer(world.name()), {})


@CASES.add(ADD_PARTITIONS, "only to verify: added ones", since=4)
def _(world: World, version: int) -> Any:
    topic = world.topic("t")
    producer = world.producer(world.name())
    world.add_partitions(world.name(), producer, topic)
    return add(world.name(), producer, {topic: [0]}, verify_only=True)


@CASES.add(ADD_PARTITIONS, "only to verify: others", since=4)
def _(world: World, version: int) -> Any:
    return add(world.name(), world.producer(world.name()), {world.read_topic(): [0]}, verify_only=True)


@CASES.add(ADD_PARTITIONS, "several transactions", since=4)
def _(world: World, version: int) -> Any:
    first = add(world.name("a"), world.producer(world.name("a")), {world.read_topic(): [0]})["transactions"]
    second = add(world.name("none"), NOBODY, {world.read_topic(): [0]})["transactions"]
    return {"transactions": [*first, *second]}


# Kafka never answers: one version is enough to wait for.
@CASES.add(ADD_PARTITIONS, "no transactions", since=5)
def _(world: World, version: int) -> Any:
    return {"transactions": []}


# -- AddOffsetsToTxn, TxnOffsetCommit ----------------------------------------------------------------------------------


def add_offsets(transactional_id: str, producer: Mapping[str, int], group: str) -> dict[str, Any]:
    return {"transactional_id": transactional_id, **producer, "group_id": group}


@CASES.add(ADD_OFFSETS, "of a group", valid=True)
def _(world: World, version: int) -> Any:
    return add_offsets(world.name(), world.producer(world.name()), world.name("group"))


@CASES.add(ADD_OFFSETS, "an unknown transactional id")
def _(world: World, version: int) -> Any:
    return add_offsets(world.name("none"), NOBODY, world.name("group"))


@CASES.add(ADD_OFFSETS, "an older epoch")
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name())
    world.producer(world.name())
    return add_offsets(world.name(), producer, world.name("group"))


@CASES.add(ADD_OFFSETS, "another producer id")
def _(world: World, version: int) -> Any:
    world.producer(world.name())
    return add_offsets(world.name(), NOBODY, world.name("group"))


@CASES.add(ADD_OFFSETS, "an empty group id")
def _(world: World, version: int) -> Any:
    return add_offsets(world.name(), world.producer(world.name()), "")


@CASES.add(ADD_OFFSETS, "an empty transactional id")
def _(world: World, version: int) -> Any:
    return add_offsets("", NOBODY, world.name("group"))


def commit(
    world: World, producer: Mapping[str, int], topics: Mapping[str, list[int]], *, offset: int = 2, **request: Any
) -> dict[str, Any]:
    wanted = [
        {
            **world.of_topic(name),
            "partitions": [
                {"partition_index": index, "committed_offset": offset, "committed_metadata": "note"}
                for index in indexes
            ],
        }
        for name, indexes in topics.items()
    ]
    return {
        "transactional_id": world.name(),
        "group_id": world.name("group"),
        **producer,
        "generation_id": -1,
        "member_id": "",
        "topics": wanted,
        **request,
    }


def with_offsets(world: World) -> dict[str, Any]:
    """The producer of a transaction that has the group's offsets in it."""
    producer = world.producer(world.name())
    world.until(
        lambda: world.call(ADD_OFFSETS, 3, **add_offsets(world.name(), producer, world.name("group"))),
        lambda answer: not answer["error_code"],
    )
    return producer


@CASES.add(COMMIT_OFFSETS, "in the transaction", valid=True)
def _(world: World, version: int) -> Any:
    return commit(world, with_offsets(world), {world.read_topic(): [0]})


@CASES.add(COMMIT_OFFSETS, "an unknown topic")
def _(world: World, version: int) -> Any:
    return commit(world, with_offsets(world), {world.name("none"): [0]})


@CASES.add(COMMIT_OFFSETS, "good and bad partitions")
def _(world: World, version: int) -> Any:
    return commit(world, with_offsets(world), {world.read_topic(): [0, 77, -1], world.name("none"): [0]})


@CASES.add(COMMIT_OFFSETS, "of a group that was not added")
def _(world: World, version: int) -> Any:
    return commit(world, world.producer(world.name()), {world.read_topic(): [0]})


@CASES.add(COMMIT_OFFSETS, "an older epoch")
def _(world: World, version: int) -> Any:
    producer = with_offsets(world)
    world.producer(world.name())
    return commit(world, producer, {world.read_topic(): [0]})


@CASES.add(COMMIT_OFFSETS, "a producer that nobody knows")
def _(world: World, version: int) -> Any:
    return commit(world, NOBODY, {world.read_topic(): [0]})


@CASES.add(COMMIT_OFFSETS, "an unknown member", since=3)
def _(world: World, version: int) -> Any:
    world.member(world.name("group"))
    producer = with_offsets(world)
    return commit(world, producer, {world.read_topic(): [0]}, generation_id=1, member_id="nobody")


@CASES.add(COMMIT_OFFSETS, "another generation", since=3)
def _(world: World, version: int) -> Any:
    member = world.member(world.name("group"))["member_id"]
    producer = with_offsets(world)
    return commit(world, producer, {world.read_topic(): [0]}, generation_id=77, member_id=member)


@CASES.add(COMMIT_OFFSETS, "an empty group id")
def _(world: World, version: int) -> Any:
    return commit(world, with_offsets(world), {world.read_topic(): [0]}, group_id="")


@CASES.add(COMMIT_OFFSETS, "an offset below 0")
def _(world: World, version: int) -> Any:
    return commit(world, with_offsets(world), {world.read_topic(): [0]}, offset=-5)


@CASES.add(COMMIT_OFFSETS, "nothing")
def _(world: World, version: int) -> Any:
    return commit(world, with_offsets(world), {})


# -- EndTxn, WriteTxnMarkers -------------------------------------------------------------------------------------------


def end(transactional_id: str, producer: Mapping[str, int], *, committed: bool = True) -> dict[str, Any]:
    return {"transactional_id": transactional_id, **producer, "committed": committed}


@CASES.add(END, "a commit", valid=True)
def _(world: World, version: int) -> Any:
    return end(world.name(), world.transaction(world.name(), world.topic("t")))


@CASES.add(END, "an abort")
def _(world: World, version: int) -> Any:
    return end(world.name(), world.transaction(world.name(), world.topic("t")), committed=False)


@CASES.add(END, "an unknown transactional id")
def _(world: World, version: int) -> Any:
    return end(world.name("none"), NOBODY)


@CASES.add(END, "a commit of nothing")
def _(world: World, version: int) -> Any:
    return end(world.name(), world.producer(world.name()))


@CASES.add(END, "an abort of nothing")
def _(world: World, version: int) -> Any:
    return end(world.name(), world.producer(world.name()), committed=False)


@CASES.add(END, "an older epoch")
def _(world: World, version: int) -> Any:
    producer = world.transaction(world.name(), world.topic("t"))
    world.producer(world.name())
    return end(world.name(), producer)


@CASES.add(END, "an epoch that never was")
def _(world: World, version: int) -> Any:
    producer = world.transaction(world.name(), world.topic("t"))
    return end(world.name(), {**producer, "producer_epoch": 77})


@CASES.add(END, "another producer id")
def _(world: World, version: int) -> Any:
    world.transaction(world.name(), world.topic("t"))
    return end(world.name(), NOBODY)


@CASES.add(END, "a commit again")
def _(world: World, version: int) -> Any:
    topic = world.topic("t")
    producer = world.transaction(world.name(), topic)
    end_transaction(world, world.name(), producer, topic, committed=True)
    return end(world.name(), producer)


@CASES.add(END, "an abort of what was committed")
def _(world: World, version: int) -> Any:
    topic = world.topic("t")
    producer = world.transaction(world.name(), topic)
    end_transaction(world, world.name(), producer, topic, committed=True)
    return end(world.name(), producer, committed=False)


@CASES.add(END, "an empty transactional id")
def _(world: World, version: int) -> Any:
    return end("", NOBODY)


def markers(producer: Mapping[str, int], topics: Mapping[str, list[int]], *, epoch: int = 0) -> dict[str, Any]:
    places = [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    return {"markers": [{**producer, "transaction_result": False, "topics": places, "coordinator_epoch": epoch}]}


@CASES.add(MARKERS, "an abort", valid=True)
def _(world: World, version: int) -> Any:
    topic = world.topic("t")
    return markers(world.transaction(world.name(), topic), {topic: [0]})


@CASES.add(MARKERS, "unknown topics and partitions")
def _(world: World, version: int) -> Any:
    return markers(world.producer(world.name()), {world.name("none"): [0], world.read_topic(): [77, -1]})


@CASES.add(MARKERS, "a producer that nobody knows")
def _(world: World, version: int) -> Any:
    return markers(NOBODY, {world.topic("t"): [0]})


@CASES.add(MARKERS, "an older producer epoch")
def _(world: World, version: int) -> Any:
    topic = world.topic("t")
    world.producer(world.name())
    producer = world.transaction(world.name(), topic)
    return markers({**producer, "producer_epoch": 0}, {topic: [0]})


@CASES.add(MARKERS, "an older coordinator epoch")
def _(world: World, version: int) -> Any:
    topic = world.topic("t")
    producer = world.transaction(world.name(), topic)
    world.call(MARKERS, 1, **markers(producer, {topic: [0]}, epoch=9))
    return markers({**producer, "producer_epoch": 1}, {topic: [0]}, epoch=7)


@CASES.add(MARKERS, "nothing")
def _(world: World, version: int) -> Any:
    return {"markers": []}


# -- DescribeTransactions, ListTransactions ----------------------------------------------------------------------------


@CASES.add(DESCRIBE, "an open transaction", valid=True)
def _(world: World, version: int) -> Any:
    world.transaction(world.name(), world.topic("t"))
    return {"transactional_ids": [world.name()]}


@CASES.add(DESCRIBE, "unknown ids and one that is empty")
def _(world: World, version: int) -> Any:
    world.producer(world.name())
    return {"transactional_ids": [world.name(), world.name("none"), ""]}


@CASES.add(DESCRIBE, "an id twice")
def _(world: World, version: int) -> Any:
    world.producer(world.name())
    return {"transactional_ids": [world.name(), world.name()]}


@CASES.add(DESCRIBE, "nothing")
def _(world: World, version: int) -> Any:
    return {"transactional_ids": []}


OWN: Final = ("transaction_states", "transactional_id")


@CASES.add(LIST, "all", valid=True, only=OWN)
def _(world: World, version: int) -> Any:
    world.transaction(world.name("open"), world.topic("t"))
    world.producer(world.name("empty"))
    return {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}


@CASES.add(LIST, "by state", only=OWN)
def _(world: World, version: int) -> Any:
    world.transaction(world.name("open"), world.topic("t"))
    world.producer(world.name("empty"))
    return {"state_filters": ["Ongoing", "Asleep"], "producer_id_filters": [], "duration_filter": -1}


@CASES.add(LIST, "by producer id", only=OWN)
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name("one"))
    world.producer(world.name("two"))
    return {"state_filters": [], "producer_id_filters": [producer["producer_id"]], "duration_filter": -1}


@CASES.add(LIST, "by duration", since=1, only=OWN)
def _(world: World, version: int) -> Any:
    world.transaction(world.name("open"), world.topic("t"))
    return {"state_filters": [], "producer_id_filters": [], "duration_filter": 3_600_000}


@CASES.add(LIST, "by a pattern", since=2, only=OWN)
def _(world: World, version: int) -> Any:
    world.producer(world.name("one"))
    world.producer(world.name("two"))
    return {"duration_filter": -1, "transactional_id_pattern": ".*-two"}


@CASES.add(LIST, "by a pattern that is none", since=2, only=OWN)
def _(world: World, version: int) -> Any:
    return {"duration_filter": -1, "transactional_id_pattern": "["}


@CASES.add(LIST, "by an empty pattern", since=2, only=OWN)
def _(world: World, version: int) -> Any:
    world.producer(world.name("one"))
    return {"duration_filter": -1, "transactional_id_pattern": ""}
