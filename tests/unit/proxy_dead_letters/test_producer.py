"""Dead letters as they are written: their topic, their headers, the copy of the record, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.features import SHARE_VERSION
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.dead_letters import DeadLetterTerms, DeadReason, DeadRecords
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import HEADER_BYTES
from bmq.proxy.dead_letters import producer
from bmq.proxy.dead_letters.letter_topics import DeadLetterSettings
from bmq.proxy.dead_letters.letters import letters_of, size_of
from tests.unit.proxy_dead_letters.letter_cluster import NAME, LetterCluster
from tests.unit.proxy_fetch.cluster import TOPIC_ID

pytestmark = pytest.mark.unit


def dead(first: int, last: int, partition: int = 0, *, topic: str = NAME, is_copying: bool = True) -> DeadRecords:
    terms = DeadLetterTerms(topic, is_copying)
    return DeadRecords("g", TOPIC_ID, partition, first, last, 3, DeadReason.DELIVERY_COUNT, terms)


async def refusal(cluster: LetterCluster, records: DeadRecords) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        await cluster.producer.write(records)
    assert all(not log.batches for key, log in cluster.logs.logs.items() if key.topic_id != TOPIC_ID)
    return refused.value


async def test_a_dead_letter_says_where_its_record_was_and_has_a_copy(cluster: LetterCluster) -> None:
    cluster.produce([Record(b"k0", b"v0", [("a", b"1"), ("b", None)]), Record(None, None)], partition=3)
    assert await cluster.producer.write(dead(0, 1, 3)) == 2
    first, second = cluster.letters(3 % 3)
    kafkas = [
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
    ]
    assert (first.key, first.value) == (b"k0", b"v0")
    assert list(first.headers) == [*kafkas, ("a", b"1"), ("b", None)]
    assert (second.key, second.value, dict(second.headers)["__dlq.errors.offset"]) == (None, None, b"1")
    assert first.timestamp_ms == cluster.fetch_cluster.services.clock.now_ms()
    assert cluster.letters(1) == cluster.letters(2) == []


async def test_without_copies_nothing_is_read(cluster: LetterCluster) -> None:
    cluster.produce([Record(b"k", b"secret", [("h", b"secret")])])
    cluster.log().refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await cluster.producer.write(dead(0, 0, is_copying=False)) == 1
    (letter,) = cluster.letters()
    assert (letter.key, letter.value, len(letter.headers)) == (None, None, 6)


async def test_only_the_records_named_are_taken_out_of_their_batches(cluster: LetterCluster) -> None:
    for codec in (Compression.NONE, Compression.ZSTD, Compression.GZIP):
        cluster.produce([Record(None, b"%s %d" % (codec.name.encode(), n)) for n in range(10)], codec=codec)
    assert await cluster.producer.write(dead(8, 21)) == 22
    values = [letter.value for letter in cluster.letters()]
    assert values == [b"NONE 8", b"NONE 9", *(b"ZSTD %d" % n for n in range(10)), b"GZIP 0", b"GZIP 1"]
    assert cluster.aside == 2, "compressed batches are opened away from the loop"


async def test_what_is_no_longer_in_the_log_has_a_dead_letter_without_a_copy(cluster: LetterCluster) -> None:
    for number in range(4):
        cluster.produce([Record(None, b"%d" % number)])
    await cluster.log().delete_records(2)
    assert await cluster.producer.write(dead(0, 3)) == 4
    found = [(one.value, dict(one.headers).get("bmq-dead-letter-copy")) for one in cluster.letters()]
    assert found == [(None, b"missing"), (None, b"missing"), (b"2", None), (b"3", None)]
    assert [dict(one.headers)["__dlq.errors.offset"] for one in cluster.letters()] == [b"0", b"1", b"2", b"3"]


async def test_a_batch_that_cannot_be_opened_does_not_stop_the_group(cluster: LetterCluster) -> None:
    cluster.produce([Record(None, b"x" * 100)] * 3, codec=Compression.GZIP)
    damaged = cluster.log().batches[0]
    data = bytearray(damaged.data)
    data[HEADER_BYTES + 12 : HEADER_BYTES + 20] = b"\xff" * 8
    cluster.log().batches[0] = replace(damaged, data=bytes(data))
    cluster.produce([Record(None, b"sound")])
    assert await cluster.producer.write(dead(0, 3)) == 4
    assert [one.value for one in cluster.letters()] == [None, None, None, b"sound"]


async def test_a_copy_that_the_topic_does_not_take_is_left_out(cluster: LetterCluster) -> None:
    cluster.add("dlq.small", TOPIC_ID.__class__(int=0xD9), 1, max_message_bytes=2_000)
    cluster.produce([Record(None, b"x" * 1_000), Record(None, b"y" * 2_500), Record(None, b"z")])
    end = 0
    while end < 3:
        end = await cluster.producer.write(dead(end, 2, topic="dlq.small"))
    letters = cluster.letters(0, TOPIC_ID.__class__(int=0xD9))
    assert [len(one.value or b"") for one in letters] == [1_000, 0, 1]
    assert dict(letters[1].headers)["bmq-dead-letter-copy"] == b"too-large"


async def test_large_records_are_written_in_parts(cluster: LetterCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "BATCH_BYTES_WANTED", 5_000)
    cluster.produce([Record(None, b"%d" % n * 2_000) for n in range(5)])
    ends: list[Any] = []
    while not ends or ends[-1] < 5:
        ends.append(await cluster.producer.write(dead(ends[-1] if ends else 0, 4)))
    assert ends == [2, 4, 5]
    assert [(one.value or b"")[:1] for one in cluster.letters()] == [b"0", b"1", b"2", b"3", b"4"]


# --- the topic


@pytest.mark.parametrize(
    ("topic", "code", "why"),
    [
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION, "is internal"),
        ("__mine", ErrorCode.INVALID_TOPIC_EXCEPTION, "is internal"),
        ("t", ErrorCode.INVALID_TOPIC_EXCEPTION, "has the records themselves"),
        ("other", ErrorCode.INVALID_TOPIC_EXCEPTION, "does not begin with dlq."),
        ("dlq.none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        ("dlq.off", ErrorCode.POLICY_VIOLATION, "errors.deadletterqueue.group.enable is not true"),
    ],
)
async def test_topics_that_take_no_dead_letters(cluster: LetterCluster, topic: str, code: ErrorCode, why: str) -> None:
    cluster.produce([Record(None, b"v")])
    cluster.add("dlq.off", TOPIC_ID.__class__(int=0xD8), 1, is_on=False)
    error = await refusal(cluster, dead(0, 0, topic=topic))
    assert error.code == code and why in str(error) and topic in str(error)


async def test_without_a_prefix_any_topic_that_is_switched_on_will_do(cluster: LetterCluster) -> None:
    cluster.settings = DeadLetterSettings(prefix="")
    cluster.produce([Record(None, b"v")])
    cluster.add("letters", TOPIC_ID.__class__(int=0xD8), 1)
    assert await cluster.producer.write(dead(0, 0, topic="letters")) == 1


async def test_a_missing_topic_is_created_where_that_is_allowed(cluster: LetterCluster) -> None:
    cluster.settings = DeadLetterSettings(creates_topics=True)
    cluster.produce([Record(None, b"v")])
    cluster.is_creation_shown = False
    error = await refusal(cluster, dead(0, 0, topic="dlq.new"))
    assert "does not exist" in str(error) or "was created a moment ago" in str(error)
    cluster.is_creation_shown = True
    assert await cluster.producer.write(dead(0, 0, topic="dlq.new")) == 1
    made = cluster.created[-1]
    assert (made.name, made.num_partitions, made.replication_factor) == ("dlq.new", -1, -1)
    assert {one.name: one.value for one in made.configs} == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }


async def test_a_topic_that_is_deleted_while_it_is_used_is_named(cluster: LetterCluster) -> None:
    cluster.produce([Record(None, b"a"), Record(None, b"b")])
    assert await cluster.producer.write(dead(0, 0)) == 1
    cluster.drop(NAME)
    with pytest.raises(KafkaError, match=r"topic dlq\.t does not exist"):
        await cluster.producer.write(dead(1, 1))


async def test_a_refused_append_is_told_with_its_topic(cluster: LetterCluster) -> None:
    cluster.produce([Record(None, b"a")])
    cluster.log(0, cluster.image.topics[NAME].topic_id).refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    error = await refusal(cluster, dead(0, 0))
    assert error.code == ErrorCode.NOT_ENOUGH_REPLICAS and "topic dlq.t, partition 0" in str(error)


@pytest.mark.parametrize(("level", "is_on"), [(None, True), (2, True), (1, False), (0, False)])
async def test_dead_letters_are_there_from_level_two_on(cluster: LetterCluster, level: int | None, is_on: bool) -> None:
    cluster.change(features={} if level is None else {SHARE_VERSION: level})
    assert cluster.producer.is_enabled() is is_on


# --- sizes


@given(
    st.builds(
        Record,
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=5_000),
        st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=50)), max_size=5),
        st.just(1),
    )
)
def test_no_record_takes_more_than_is_thought(record: Record) -> None:
    assert len(encode_batch([record])) <= HEADER_BYTES + size_of(record)


@given(sizes=st.lists(st.integers(0, 4_000), min_size=1, max_size=20), limit=st.integers(600, 5_000))
def test_a_batch_of_dead_letters_fits_its_topic(sizes: list[int], limit: int) -> None:
    records = dead(0, len(sizes) - 1)
    copies = {offset: Record(None, b"x" * size, offset=offset) for offset, size in enumerate(sizes)}
    seen, first = 0, 0
    while first < len(sizes):
        letters = letters_of(
            records._replace(first=first), "t", copies, len(sizes), 1, batch_bytes_max=limit, bytes_wanted=10_000
        )
        assert letters.end > first and len(letters.records) == letters.end - first
        assert len(encode_batch(letters.records)) <= limit
        seen, first = seen + len(letters.records), letters.end
    assert seen == len(sizes)
