"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from testing import wire
from tests.conformance.case import Cases
from tests.conformance.world import World

CASES: Final = Cases()
PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS, LEADER_EPOCH, PRODUCERS = 0, 1, 2, 21, 23, 61
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


# -- Produce -----------------------------------------------------------------------------------------------------------


def produce(world: World, parts: Mapping[str, Mapping[int, Any]], **request: Any) -> dict[str, Any]:
    """`parts`: records by topic and partition."""
    topics = [
        {
            **world.of_topic(topic),
            "partition_data": [{"index": index, "records": records} for index, records in partitions.items()],
        }
        for topic, partitions in parts.items()
    ]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": topics, **request}


def batch(*values: bytes, **header: Any) -> bytes:
    return wire.record_batch(values or (b"value",), **header)


def patched(records: bytes, position: int, layout: str, value: Any) -> bytes:
    """With another value in the header, and the checksum that goes with it."""
    import crc32c

    changed = bytearray(records)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def compressed(plain: bytes, codec: int, records: bytes) -> bytes:
    """The batch with these bytes for its records."""
    header = bytearray(plain[:61])
    struct.pack_into(">i", header, 8, 49 + len(records))
    return patched(bytes(header) + records, 21, ">h", codec)


@CASES.add(PRODUCE, "a batch", valid=True)
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(b"one", b"two")}})


@CASES.add(PRODUCE, "an unknown topic")
def _(world: World, version: int) -> Any:
    return produce(world, {world.name("none"): {0: batch()}})


@CASES.add(PRODUCE, "good and bad partitions")
def _(world: World, version: int) -> Any:
    parts = {0: batch(), 1: batch(crc_error=1), 2: batch(), 77: batch(), -1: batch()}
    return produce(world, {world.topic(partitions=3): parts, world.name("none"): {0: batch()}})


@CASES.add(PRODUCE, "acks=1")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch()}}, acks=1)


@CASES.add(PRODUCE, "acks=0", is_answered=False)
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch()}}, acks=0)


@CASES.add(PRODUCE, "acks=2")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch()}}, acks=2)


@CASES.add(PRODUCE, "a topic name that is not allowed", until=12)
def _(world: World, version: int) -> Any:
    return produce(world, {"no/such name": {0: batch()}, "": {0: batch()}})


@CASES.add(PRODUCE, "nothing")
def _(world: World, version: int) -> Any:
    return produce(world, {})


# Kafka never answers: one version is enough to wait for.
@CASES.add(PRODUCE, "records are null", since=12, until=12)
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: None}})


@CASES.add(PRODUCE, "records are empty")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: b""}})


@CASES.add(PRODUCE, "a partition twice")
def _(world: World, version: int) -> Any:
    values = produce(world, {world.topic(): {0: batch(b"first")}})
    topic = values["topic_data"][0]
    topic["partition_data"] = [*topic["partition_data"], {"index": 0, "records": batch(b"second")}]
    return values


@CASES.add(PRODUCE, "a topic twice")
def _(world: World, version: int) -> Any:
    values = produce(world, {world.topic(): {0: batch(b"first")}})
    values["topic_data"] = values["topic_data"] * 2
    return values


@CASES.add(PRODUCE, "topics are null")
def _(world: World, version: int) -> Any:
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": None}


@CASES.add(PRODUCE, "two batches in a partition")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(b"a") + batch(b"b")}})


@CASES.add(PRODUCE, "a batch cut short")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch()[:-1]}})


@CASES.add(PRODUCE, "bytes behind a batch")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch() + b"\0\0\0"}})


@CASES.add(PRODUCE, "magic 1")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: wire.old_message_set(1, b"old")}})


@CASES.add(PRODUCE, "magic 0")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: wire.old_message_set(0, b"old")}})


@CASES.add(PRODUCE, "magic 3")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(magic=3)}})


@CASES.add(PRODUCE, "a wrong checksum")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(crc_error=7)}})


@CASES.add(PRODUCE, "a control batch")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 21, ">h", 1 << 5)}})


@CASES.add(PRODUCE, "a codec that does not exist")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 21, ">h", 7)}})


@CASES.add(PRODUCE, "compressed by gzip, but not so")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 21, ">h", 1)}})


@CASES.add(PRODUCE, "compressed by gzip, and damaged")
def _(world: World, version: int) -> Any:
    # The beginning of a gzip stream, and nothing that could be inflated behind it.
    return produce(
        world, {world.topic(): {0: compressed(batch(b"one"), 1, bytes.fromhex("1f8b0800000000000003") + b"\xff" * 30)}}
    )


@CASES.add(PRODUCE, "compressed by lz4, but not so")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 21, ">h", 3)}})


@CASES.add(PRODUCE, "compressed by zstd, but not so", since=7)
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 21, ">h", 4)}})


@CASES.add(PRODUCE, "the beginning of a second batch")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch() + batch()[:40]}})


@CASES.add(PRODUCE, "bytes behind a batch that are none")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch() + bytes(40)}})


@CASES.add(PRODUCE, "zstd")
def _(world: World, version: int) -> Any:
    import cramjam

    plain = batch(b"one", b"two")
    return produce(world, {world.topic(): {0: compressed(plain, 4, bytes(cramjam.zstd.compress(plain[61:])))}})


@CASES.add(PRODUCE, "more records announced than there are")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 57, ">i", 2)}})


@CASES.add(PRODUCE, "a negative number of records")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 57, ">i", -1)}})


@CASES.add(PRODUCE, "a last offset that does not fit")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: patched(batch(), 23, ">i", 5)}})


@CASES.add(PRODUCE, "a base offset of its own")
def _(world: World, version: int) -> Any:
    records = bytearray(batch())
    struct.pack_into(">q", records, 0, 42)
    return produce(world, {world.topic(): {0: bytes(records)}})


@CASES.add(PRODUCE, "a batch larger than the topic takes")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(configs={"max.message.bytes": "100"}): {0: batch(b"x" * 1_000)}})


@CASES.add(PRODUCE, "a record without a key to a compacted topic")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(configs={"cleanup.policy": "compact"}): {0: batch()}})


@CASES.add(PRODUCE, "a time too far ahead")
def _(world: World, version: int) -> Any:
    records = patched(patched(batch(), 27, ">q", 2**53), 35, ">q", 2**53)
    return produce(world, {world.topic(configs={"message.timestamp.after.max.ms": "1000"}): {0: records}})


@CASES.add(PRODUCE, "the log's own time")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(configs={"message.timestamp.type": "LogAppendTime"}): {0: batch()}})


@CASES.add(PRODUCE, "the log's own time, said by the producer")
def _(world: World, version: int) -> Any:
    records = patched(batch(b"one", b"two"), 21, ">h", 1 << 3)
    stamping = world.topic("stamping", configs={"message.timestamp.type": "LogAppendTime"})
    return produce(world, {world.topic(): {0: records}, stamping: {0: records}})


@CASES.add(PRODUCE, "a delete horizon, and attributes that mean nothing")
def _(world: World, version: int) -> Any:
    return produce(
        world,
        {world.topic(partitions=2): {0: patched(batch(), 21, ">h", 1 << 6), 1: patched(batch(), 21, ">h", 1 << 9)}},
    )


@CASES.add(PRODUCE, "a leader epoch of its own")
def _(world: World, version: int) -> Any:
    records = bytearray(batch())
    struct.pack_into(">i", records, 12, 42)
    return produce(world, {world.topic(): {0: bytes(records)}})


@CASES.add(PRODUCE, "times below 0")
def _(world: World, version: int) -> Any:
    times = {
        index: patched(patched(batch(), 27, ">q", first), 35, ">q", last)
        for index, (first, last) in enumerate([(-1, -1), (-5, -5), (-1, 5)])
    }
    return produce(world, {world.topic(partitions=3): times})


@CASES.add(PRODUCE, "a producer without an epoch")
def _(world: World, version: int) -> Any:
    identity = {"producer_id": world.producer()["producer_id"], "producer_epoch": -1}
    return produce(world, {world.topic(): {0: batch(**identity, base_sequence=0)}})


@CASES.add(PRODUCE, "an epoch and a sequence without a producer")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(producer_epoch=3, base_sequence=5)}})


@CASES.add(PRODUCE, "a producer id below -1")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(producer_id=-9, producer_epoch=3, base_sequence=5)}})


@CASES.add(PRODUCE, "a base offset of its own, and a wrong checksum")
def _(world: World, version: int) -> Any:
    records = bytearray(batch(crc_error=7))
    struct.pack_into(">q", records, 0, 42)
    return produce(world, {world.topic(): {0: bytes(records)}})


@CASES.add(PRODUCE, "a base offset of its own beside a good batch")
def _(world: World, version: int) -> Any:
    records = bytearray(batch())
    struct.pack_into(">q", records, 0, -42)
    return produce(
        world, {world.topic(partitions=2): {0: bytes(records), 1: batch()}, world.name("none"): {0: bytes(records)}}
    )


@CASES.add(PRODUCE, "an idempotent producer")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(**world.producer(), base_sequence=0)}})


@CASES.add(PRODUCE, "the same batch again")
def _(world: World, version: int) -> Any:
    topic, producer = world.topic(), world.producer()
    world.produce(topic, [b"first"], **producer, base_sequence=0)
    world.produce(topic, [b"second"], **producer, base_sequence=1)
    return produce(world, {topic: {0: batch(b"first", **producer, base_sequence=0)}})


@CASES.add(PRODUCE, "a sequence too far ahead")
def _(world: World, version: int) -> Any:
    topic, producer = world.topic(), world.producer()
    world.produce(topic, [b"first"], **producer, base_sequence=0)
    return produce(world, {topic: {0: batch(**producer, base_sequence=5)}})


@CASES.add(PRODUCE, "the first sequence is not 0")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(**world.producer(), base_sequence=5)}})


@CASES.add(PRODUCE, "a sequence below 0")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(**world.producer(), base_sequence=-5)}})


@CASES.add(PRODUCE, "an older producer epoch")
def _(world: World, version: int) -> Any:
    topic, producer = world.topic(), world.producer()
    world.produce(topic, [b"first"], producer_id=producer["producer_id"], producer_epoch=3, base_sequence=0)
    return produce(world, {topic: {0: batch(**producer, base_sequence=1)}})


@CASES.add(PRODUCE, "a producer that nobody knows")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(producer_id=2**40, producer_epoch=0, base_sequence=0)}})


@CASES.add(PRODUCE, "a transactional batch without its id")
def _(world: World, version: int) -> Any:
    producer = world.producer(world.name("id"))
    return produce(world, {world.topic(): {0: batch(**producer, base_sequence=0, is_transactional=True)}})


@CASES.add(PRODUCE, "a transactional batch without its id beside others")
def _(world: World, version: int) -> Any:
    records = batch(**world.producer(world.name("id")), base_sequence=0, is_transactional=True)
    parts = {0: batch(), 1: records, 77: batch()}
    return produce(world, {world.topic(partitions=2): parts, world.name("none"): {0: batch()}})


@CASES.add(PRODUCE, "a transactional batch without a producer")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch(is_transactional=True)}})


@CASES.add(PRODUCE, "a transactional batch with an id and without a producer")
def _(world: World, version: int) -> Any:
    name = world.name("id")
    world.producer(name)
    return produce(world, {world.topic(): {0: batch(is_transactional=True)}}, transactional_id=name)


@CASES.add(PRODUCE, "a damaged transactional batch without its id")
def _(world: World, version: int) -> Any:
    records = batch(**world.producer(world.name("id")), base_sequence=0, is_transactional=True, crc_error=7)
    return produce(world, {world.topic(): {0: records}})


@CASES.add(PRODUCE, "a batch of no transaction with a transactional id")
def _(world: World, version: int) -> Any:
    return produce(world, {world.topic(): {0: batch()}}, transactional_id=world.name("id"))


@CASES.add(PRODUCE, "a transactional batch in its transaction", since=3)
def _(world: World, version: int) -> Any:
    topic, name = world.topic(), world.name("id")
    producer = world.producer(name)
    world.add_partitions(name, producer, topic)
    records = batch(**producer, base_sequence=0, is_transactional=True)
    return produce(world, {topic: {0: records}}, transactional_id=name)


@CASES.add(PRODUCE, "a transactional batch of a partition not added")
def _(world: World, version: int) -> Any:
    name = world.name("id")
    records = batch(**world.producer(name), base_sequence=0, is_transactional=True)
    return produce(world, {world.topic(): {0: records}}, transactional_id=name)


# -- Fetch -------------------------------------------------------------------------------------------------------------


def fetch(world: World, topic: str, *partitions: Mapping[str, Any], **request: Any) -> dict[str, Any]:
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **one} for one in partitions or ({},)]
    return {
        "replica_id": -1,
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{**world.of_topic(topic), "partitions": wanted}],
        **request,
    }


def beside_unknown_ones(world: World) -> dict[str, Any]:
    values = fetch(world, world.read_topic())
    unknown = fetch(world, world.name("none"), {"partition": 0}, {"partition": 7})["topics"]
    return {**values, "topics": [*unknown, *values["topics"], *fetch(world, world.topic())["topics"]]}


@CASES.add(FETCH, "records", valid=True)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic())


@CASES.add(FETCH, "an unknown topic")
def _(world: World, version: int) -> Any:
    return fetch(world, world.name("none"))


@CASES.add(FETCH, "good and bad partitions")
def _(world: World, version: int) -> Any:
    partitions: Sequence[Mapping[str, Any]] = (
        {"partition": 0},
        {"partition": 1, "fetch_offset": 99},
        {"partition": 77},
        {"partition": -1},
    )
    return fetch(world, world.read_topic(), *partitions)


@CASES.add(FETCH, "unknown topics beside known ones")
def _(world: World, version: int) -> Any:
    return beside_unknown_ones(world)


# Kafka does not answer before the time is over: one version is enough to wait for.
@CASES.add(FETCH, "unknown topics beside known ones, for more bytes than there are", since=12, until=12)
def _(world: World, version: int) -> Any:
    return {**beside_unknown_ones(world), "max_wait_ms": 30_000, "min_bytes": 1 << 20}


@CASES.add(FETCH, "a new session with an unknown topic", since=7)
def _(world: World, version: int) -> Any:
    values = fetch(world, world.read_topic(), session_epoch=0)
    unknown = fetch(world, world.name("none"))["topics"]
    return {**values, "topics": [*values["topics"], *unknown]}


@CASES.add(FETCH, "from the end")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"fetch_offset": 3})


@CASES.add(FETCH, "an offset behind the end")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"fetch_offset": 4})


@CASES.add(FETCH, "an offset below 0")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"fetch_offset": -1})


@CASES.add(FETCH, "the middle of a batch")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"fetch_offset": 1})


@CASES.add(FETCH, "fewer bytes than a batch")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"partition_max_bytes": 1}, max_bytes=1)


@CASES.add(FETCH, "0 bytes")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"partition_max_bytes": 0}, max_bytes=0)


@CASES.add(FETCH, "a negative number of bytes")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"partition_max_bytes": -1}, max_bytes=-1)


@CASES.add(FETCH, "below the log's start")
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"one", b"two"])
    world.call(21, 2, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}], timeout_ms=9_000)
    return fetch(world, topic, {"fetch_offset": 0})


@CASES.add(FETCH, "a newer leader epoch", since=9)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"current_leader_epoch": 1_000})


@CASES.add(FETCH, "a leader epoch below -1", since=9)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"current_leader_epoch": -7})


@CASES.add(FETCH, "a last fetched epoch that never was", since=12)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {"last_fetched_epoch": 1_000, "fetch_offset": 1})


@CASES.add(FETCH, "read committed: an open transaction")
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"before"])
    world.transaction(world.name("id"), topic)
    return fetch(world, topic, isolation_level=1)


@CASES.add(FETCH, "read committed: an aborted transaction")
def _(world: World, version: int) -> Any:
    topic, name = world.topic(), world.name("id")
    producer = world.transaction(name, topic)
    end_transaction(world, name, producer, topic, committed=False)
    return fetch(world, topic, isolation_level=1)


@CASES.add(FETCH, "read uncommitted: an aborted transaction")
def _(world: World, version: int) -> Any:
    topic, name = world.topic(), world.name("id")
    producer = world.transaction(name, topic)
    end_transaction(world, name, producer, topic, committed=False)
    return fetch(world, topic, isolation_level=0)


@CASES.add(FETCH, "an isolation level that does not exist")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), isolation_level=9)


# Two encoders make two bodies of the same records.
@CASES.add(FETCH, "a topic that is compressed by zstd", ignored=("body",))
def _(world: World, version: int) -> Any:
    topic = world.topic(configs={"compression.type": "zstd"})
    world.produce(topic, [b"one"])
    return fetch(world, topic)


@CASES.add(FETCH, "nothing")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), topics=[])


@CASES.add(FETCH, "topics are null")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), topics=None)


@CASES.add(FETCH, "a partition twice")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), {}, {})


@CASES.add(FETCH, "a new session", since=7)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), session_epoch=0)


@CASES.add(FETCH, "an unknown session", since=7)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), session_id=123_456, session_epoch=1)


@CASES.add(FETCH, "a session's next request", since=7)
def _(world: World, version: int) -> Any:
    session = new_session(world, version)
    return fetch(world, world.read_topic(), topics=[], session_id=session, session_epoch=1, max_wait_ms=1)


@CASES.add(FETCH, "a session's epoch too far ahead", since=7)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), topics=[], session_id=new_session(world, version), session_epoch=7)


@CASES.add(FETCH, "a session forgets a partition", since=7)
def _(world: World, version: int) -> Any:
    topic = world.read_topic()
    session = new_session(world, version)
    forgotten = [{**world.of_topic(topic), "partitions": [0]}]
    return fetch(
        world,
        topic,
        topics=[],
        session_id=session,
        session_epoch=1,
        forgotten_topics_data=forgotten,
        max_wait_ms=1,
    )


@CASES.add(FETCH, "of a follower that does not exist")
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), replica_id=55, replica_state={"replica_id": 55, "replica_epoch": 1})


@CASES.add(FETCH, "another cluster's id", since=12)
def _(world: World, version: int) -> Any:
    return fetch(world, world.read_topic(), cluster_id="another")


def new_session(world: World, version: int) -> int:
    answer = world.call(FETCH, version, **fetch(world, world.read_topic(), session_epoch=0))
    session: int = answer["session_id"]
    return session


def end_transaction(world: World, name: str, producer: Mapping[str, Any], topic: str, *, committed: bool) -> None:
    """Ended, and its marker is in the partition."""
    world.call(26, 4, transactional_id=name, **producer, committed=committed)
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]

    def offset(isolation_level: int) -> Any:
        answer = world.call(2, 5, replica_id=-1, isolation_level=isolation_level, topics=wanted)
        return answer["topics"][0]["partitions"][0]["offset"]

    world.until(lambda: {"settled": offset(0) == offset(1)}, lambda answer: answer["settled"])


# -- ListOffsets -------------------------------------------------------------------------------------------------------


def list_offsets(world: World, topic: str, *timestamps: int, **request: Any) -> dict[str, Any]:
    """Of partition 0, 1 …"""
    partitions = [
        {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": -1}
        for index, timestamp in enumerate(timestamps)
    ]
    return {
        "replica_id": -1,
        "timeout_ms": 5_000,
        "topics": [{**world.of_topic(topic), "partitions": partitions}],
        **request,
    }


@CASES.add(LIST_OFFSETS, "earliest and latest", valid=True)
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -2, -1)


@CASES.add(LIST_OFFSETS, "an unknown topic")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.name("none"), -1)


@CASES.add(LIST_OFFSETS, "an unknown partition beside a known one")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -1, -1, -1)


@CASES.add(LIST_OFFSETS, "a time before all records, and one behind")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), 0, wire.TIMESTAMP_MS + 1)


@CASES.add(LIST_OFFSETS, "the records' own time")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), wire.TIMESTAMP_MS, INT64_MAX)


@CASES.add(LIST_OFFSETS, "the largest timestamp")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -3)


def with_marker(world: World) -> str:
    """A record of a transaction with the records' own time, and the marker of now; then a record of no transaction."""
    topic, name = world.topic(), world.name("id")
    end_transaction(world, name, world.transaction(name, topic), topic, committed=True)
    world.produce(topic, [b"behind"])
    return topic


@CASES.add(LIST_OFFSETS, "the largest timestamp is a marker's", since=7)
def _(world: World, version: int) -> Any:
    return list_offsets(world, with_marker(world), -3)


@CASES.add(LIST_OFFSETS, "a time that a marker alone has reached")
def _(world: World, version: int) -> Any:
    return list_offsets(world, with_marker(world), wire.TIMESTAMP_MS + 1)


@CASES.add(LIST_OFFSETS, "the earliest local offset")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -4)


@CASES.add(LIST_OFFSETS, "the latest tiered offset")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -5)


@CASES.add(LIST_OFFSETS, "the earliest pending upload")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -6)


@CASES.add(LIST_OFFSETS, "a timestamp that means nothing")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -77, -(2**63))


@CASES.add(LIST_OFFSETS, "an empty partition")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.topic(partitions=3), -1, -3, 0)


@CASES.add(LIST_OFFSETS, "a partition twice")
def _(world: World, version: int) -> Any:
    values = list_offsets(world, world.read_topic(), -2, -1)
    values["topics"][0]["partitions"] += [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    return values


@CASES.add(LIST_OFFSETS, "a newer leader epoch", since=4)
def _(world: World, version: int) -> Any:
    values = list_offsets(world, world.read_topic(), -1)
    values["topics"][0]["partitions"][0]["current_leader_epoch"] = 1_000
    return values


@CASES.add(LIST_OFFSETS, "read committed: an open transaction", since=2)
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"before"])
    world.transaction(world.name("id"), topic)
    return list_offsets(world, topic, -1, isolation_level=1)


@CASES.add(LIST_OFFSETS, "an isolation level that does not exist", since=2)
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -1, isolation_level=9)


@CASES.add(LIST_OFFSETS, "a replica that does not exist")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -1, replica_id=55)


@CASES.add(LIST_OFFSETS, "the debugging client")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), -1, replica_id=-2)


@CASES.add(LIST_OFFSETS, "nothing")
def _(world: World, version: int) -> Any:
    return list_offsets(world, world.read_topic(), topics=[])


# -- OffsetForLeaderEpoch ----------------------------------------------------------------------------------------------


def leader_epochs(world: World, topic: str, *epochs: tuple[int, int, int]) -> dict[str, Any]:
    """(partition, current leader epoch, leader epoch)."""
    partitions = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        for partition, current, epoch in epochs
    ]
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": partitions}]}


@CASES.add(LEADER_EPOCH, "the present epoch", valid=True)
def _(world: World, version: int) -> Any:
    topic = world.read_topic()
    found = world.call(3, 12, topics=[{"name": topic}])["topics"][0]["partitions"]
    epochs = {one["partition_index"]: one["leader_epoch"] for one in found}
    return leader_epochs(world, topic, *((index, -1, epochs[index]) for index in (0, 1)))


@CASES.add(LEADER_EPOCH, "an unknown topic")
def _(world: World, version: int) -> Any:
    return leader_epochs(world, world.name("none"), (0, -1, 0))


@CASES.add(LEADER_EPOCH, "epochs that never were, and an unknown partition")
def _(world: World, version: int) -> Any:
    return leader_epochs(world, world.read_topic(), (0, -1, 1_000), (1, -1, -5), (7, -1, 0))


@CASES.add(LEADER_EPOCH, "a newer current epoch")
def _(world: World, version: int) -> Any:
    return leader_epochs(world, world.read_topic(), (0, 1_000, 0))


@CASES.add(LEADER_EPOCH, "nothing")
def _(world: World, version: int) -> Any:
    return leader_epochs(world, world.read_topic())


# -- DeleteRecords -----------------------------------------------------------------------------------------------------


def delete_records(topic: str, **offsets: int) -> dict[str, Any]:
    """`p0=1`: of partition 0 below offset 1."""
    partitions = [{"partition_index": int(key[1:]), "offset": offset} for key, offset in offsets.items()]
    return {"timeout_ms": 9_000, "topics": [{"name": topic, "partitions": partitions}]}


@CASES.add(DELETE_RECORDS, "below an offset", valid=True)
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"one", b"two", b"three"])
    return delete_records(topic, p0=2)


@CASES.add(DELETE_RECORDS, "an unknown topic")
def _(world: World, version: int) -> Any:
    return delete_records(world.name("none"), p0=1)


@CASES.add(DELETE_RECORDS, "all of them")
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"one", b"two"])
    return delete_records(topic, p0=-1)


@CASES.add(DELETE_RECORDS, "good and bad partitions")
def _(world: World, version: int) -> Any:
    topic = world.topic(partitions=4)
    world.produce(topic, [b"one", b"two"])
    return delete_records(topic, p0=1, p1=1, p2=-2, p3=INT64_MAX, p9=0)


@CASES.add(DELETE_RECORDS, "below the log's start")
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"one", b"two", b"three"])
    world.call(DELETE_RECORDS, 2, **delete_records(topic, p0=2))
    return delete_records(topic, p0=1)


@CASES.add(DELETE_RECORDS, "a compacted topic")
def _(world: World, version: int) -> Any:
    return delete_records(world.topic(configs={"cleanup.policy": "compact"}), p0=0)


@CASES.add(DELETE_RECORDS, "nothing")
def _(world: World, version: int) -> Any:
    return {"timeout_ms": 9_000, "topics": []}


@CASES.add(DELETE_RECORDS, "a topic name that is not allowed")
def _(world: World, version: int) -> Any:
    return delete_records("no/such name", p0=0)


# -- DescribeProducers -------------------------------------------------------------------------------------------------


@CASES.add(PRODUCERS, "an idempotent and a transactional producer", valid=True)
def _(world: World, version: int) -> Any:
    topic = world.topic()
    world.produce(topic, [b"one"], **world.producer(), base_sequence=0)
    world.transaction(world.name("id"), topic)
    return {"topics": [{"name": topic, "partition_indexes": [0]}]}


@CASES.add(PRODUCERS, "an unknown topic and an unknown partition")
def _(world: World, version: int) -> Any:
    known = {"name": world.read_topic(), "partition_indexes": [0, 9, -1]}
    return {"topics": [known, {"name": world.name("none"), "partition_indexes": [0]}]}


@CASES.add(PRODUCERS, "a topic name that is not allowed")
def _(world: World, version: int) -> Any:
    return {"topics": [{"name": "no/such name", "partition_indexes": [0]}]}


@CASES.add(PRODUCERS, "nothing")
def _(world: World, version: int) -> Any:
    return {"topics": []}
