"""Records of retry topics as they are held: attempts counted, levels, headers, and what is given up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.opened_batch import HEADERS_MAX, BatchTooLong
from bmq.log.timers.delivering import DueRecord, delivered_batch
from bmq.log.timers.retrying import RECORDS_MAX, Retried, Retries, dead_body, split_retries
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import LOG_APPEND_TIME, BatchHeader, CorruptRecords, assemble_batch, verify_crc
from bmq.protocol.retry_topics import RetryTopic, letters_topic_of, retry_topic_of
from bmq.records.records_twin import Damage

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
RETRIES = Retries((1_000, 10_000, 60_000), "orders", NOW_MS, -1)
ORIGINAL = ("bmq-original-topic", b"orders")
Header = tuple[str, bytes | None]


def split_of(records: list[Record], retries: Retries = RETRIES, **options: Any) -> Retried:
    batch = memoryview(encode_batch(records, producer_id=9, producer_epoch=2, base_sequence=5, **options))
    return split_retries(batch, BatchHeader.parse(batch), retries)


def attempt(*headers: Header, retries: Retries = RETRIES) -> tuple[int, list[Header]]:
    """Of one record with these headers: how long it waits, and the headers that it is delivered with, but for those of timers."""
    (held,) = split_of([Record(b"k", b"v", headers, NOW_MS - 7)], retries).split.held
    assert dead_body(held.body) is None
    (record,) = decode_records(delivered_batch([DueRecord(1, held.due_ms, held.timestamp_ms, held.body)], NOW_MS))
    assert (record.key, record.value) == (b"k", b"v")
    return held.due_ms - NOW_MS, list(record.headers)[:-3]


def test_the_name_of_a_retry_topic_has_its_source_and_its_group() -> None:
    assert retry_topic_of("orders.retry.app") == RetryTopic("orders", "app")
    assert retry_topic_of("a.b.retry.my.app") == RetryTopic("a.b", "my.app")
    assert retry_topic_of("a.retry.b.retry.c") == RetryTopic("a.retry.b", "c")
    for name in ("orders", "orders.retry", "orders.retry.", ".retry.app", "orders-retry-app", ""):
        assert retry_topic_of(name) is None
    assert letters_topic_of("app", "dlq.") == letters_topic_of("app", "") == "dlq.app"
    assert RetryTopic("orders", "app").letters_topic("dead-") == "dead-app"


def test_each_attempt_is_counted_and_waits_for_its_level() -> None:
    headers: list[Header] = [("own", b"1")]
    for number, wait_ms in enumerate(RETRIES.levels_ms, 1):
        waited_ms, headers = attempt(*headers)
        assert waited_ms == wait_ms
        assert sorted(headers) == sorted([("own", b"1"), ("bmq-attempt", b"%d" % number), ORIGINAL])


def test_a_record_that_comes_back_has_the_headers_of_its_last_delivery_once() -> None:
    (held,) = split_of([Record(b"k", b"v", [("bmq-deliver-at", b"77")])]).split.held
    for name in (41, 42):
        (came,) = decode_records(delivered_batch([DueRecord(name, NOW_MS, 5, held.body)], NOW_MS))
        (held,) = split_of([came]).split.held
    (came,) = decode_records(delivered_batch([DueRecord(43, NOW_MS, 5, held.body)], NOW_MS))
    assert came.headers == (
        ("bmq-deliver-at", b"77"),  # it means nothing here, and stays
        ORIGINAL,
        ("bmq-attempt", b"3"),
        ("bmq-timer-offset", b"43"),
        ("bmq-timer-due", b"%d" % NOW_MS),
        ("bmq-timer-created", b"5"),
    )


def test_headers_of_spring_stay_and_tell_the_original_topic() -> None:
    spring: list[Header] = [
        ("kafka_original-topic", b"orders"),
        ("kafka_original-partition", b"\0\0\0\3"),
        ("kafka_original-offset", b"\0\0\0\0\0\0\0\x2a"),
        ("kafka_exception-fqcn", b"java.lang.IllegalStateException"),
        ("kafka_exception-message", None),
        ("retry_topic-attempts", b"\0\0\0\2"),
        ("retry_topic-attempts", b"\0\0\0\3"),
    ]
    assert attempt(*spring)[1] == [*spring, ("bmq-attempt", b"1")]


def test_after_the_last_level_a_record_is_given_up_now() -> None:
    came = [Record(b"a", b"1", [("x", None), ("bmq-attempt", b"3")]), Record(b"b", b"2", [("bmq-attempt", b"2")])]
    found = split_of(came)
    last, living = found.split.held
    assert [one.batch_index for one in found.given_up] == [0]
    assert found.given_up[0].size_bytes == len(last.body)
    assert (last.due_ms, living.due_ms) == (NOW_MS, NOW_MS + 60_000)
    dead = dead_body(last.body)
    assert dead is not None and (dead.attempts, dead.key, dead.value) == (4, b"a", b"1")
    assert dead.headers == [("x", None), ORIGINAL]
    assert dead_body(living.body) is None


def test_no_record_is_due_before_the_floor() -> None:
    retries = RETRIES._replace(floor_ms=NOW_MS + 5_000)
    records = [Record(None, b"", [("bmq-attempt", count)]) for count in (b"0", b"1", b"9")]
    assert [one.due_ms - NOW_MS for one in split_of(records, retries).split.held] == [5_000, 10_000, 5_000]


def test_a_mark_that_a_producer_sends_is_taken_away() -> None:
    waited_ms, headers = attempt(("bmq-dead-letter", b"1"), ("own", b"1"))
    assert (waited_ms, headers) == (1_000, [("own", b"1"), ("bmq-attempt", b"1"), ORIGINAL])


@pytest.mark.parametrize("count", [b"", b"-1", b"one", b"1.5", b"1234567890", "1².".encode(), None])
def test_a_count_that_is_none_is_refused_by_the_place_of_its_record(count: bytes | None) -> None:
    found = split_of([Record(None, b"good"), Record(None, b"bad", [("bmq-attempt", count)])])
    assert [one.batch_index for one in found.split.refused] == [1]
    assert "bmq-attempt" in found.split.refused[0].reason
    assert not found.split.held and not found.given_up


def test_two_counts_are_refused() -> None:
    found = split_of([Record(None, b"", [("bmq-attempt", b"1"), ("bmq-attempt", b"1")])])
    assert "more than once" in found.split.refused[0].reason


def test_a_batch_of_too_many_records_is_refused_before_they_are_read() -> None:
    with pytest.raises(BatchTooLong, match="send smaller ones"):
        split_of([Record(None, None)] * (RECORDS_MAX + 1))


def test_a_batch_of_too_many_headers_is_refused_before_they_are_read() -> None:
    headers: list[Header] = [("", None)] * (HEADERS_MAX - 1)
    assert split_of([Record(None, None, headers), Record(b"k", b"v", [("", None)])]).split.held
    with pytest.raises(BatchTooLong, match=f"{HEADERS_MAX + 1} headers"):
        split_of([Record(None, None, headers), Record(b"k", b"v", [("", None)] * 2)])


def test_a_number_of_headers_that_cannot_be_is_damage() -> None:
    header = BatchHeader.parse(encode_batch([Record(None, None)]))
    for body in (b"\x0c\0\0\0\1\1\1", b"\x0c\0\0\0\1\1", b"\x0e\0\0\0\1\1\xfe\xff"):
        with pytest.raises(Damage):
            split_retries(memoryview(assemble_batch(header, body)), header._replace(length=49 + len(body)), RETRIES)


names = st.sampled_from(["bmq-attempt", "bmq-original-topic", "kafka_original-topic", "own", "", "bmq-timer-due", "é"])
contents = st.one_of(st.none(), st.sampled_from([b"", b"0", b"2", b"3", b"7"]), st.binary(max_size=200))
records_of = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=5),
        st.lists(st.tuples(names, contents), max_size=4),
        st.integers(NOW_MS, NOW_MS + 9),
    ),
    min_size=1,
    max_size=5,
)


@given(records_of, st.sampled_from(list(Compression)), st.booleans())
@example([Record(None, None, [("bmq-attempt", b"3")], NOW_MS)], Compression.ZSTD, True)
def test_any_batch_is_held_whole_or_refused(records: list[Record], codec: Compression, is_append_time: bool) -> None:
    attributes = LOG_APPEND_TIME if is_append_time else 0
    found = split_of(records, compression=codec, attributes=attributes)
    if found.split.refused:
        return
    header = BatchHeader.parse(found.split.visible)
    verify_crc(found.split.visible, 0, header)
    assert (header.record_count, header.last_offset_delta) == (0, len(records) - 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)
    assert [one.offset_delta for one in found.split.held] == list(range(len(records)))
    for record, held in zip(records, found.split.held, strict=True):
        count = int(dict(record.headers).get("bmq-attempt") or 0) + 1
        ours = {"bmq-attempt", "bmq-timer-due"}
        kept = [one for one in record.headers if one[0] not in ours]
        dead = dead_body(held.body)
        assert (dead is not None) == (count > len(RETRIES.levels_ms))
        if dead is not None:
            assert (dead.attempts, dead.key, dead.value) == (count, record.key, record.value)
            assert dead.headers[: len(kept)] == kept
        elif not is_append_time:
            assert held.timestamp_ms == record.timestamp_ms


@given(st.binary(max_size=40), st.integers(0, 60))
def test_damaged_bodies_are_told_or_are_records(tail: bytes, cut: int) -> None:
    body = (b"\x02k\x02v\x04\x1ebmq-dead-letter\x02" + b"4" + b"\x02x\x01" + tail)[:cut]
    try:
        found = dead_body(body)
    except CorruptRecords as error:
        assert str(error)
    else:
        assert found is None or found.attempts >= 0


def test_no_records_are_delivered_as_a_batch_with_an_offset() -> None:
    batch = delivered_batch([], NOW_MS)
    header = BatchHeader.parse(batch)
    verify_crc(batch, 0, header)
    assert (header.record_count, header.last_offset_delta, header.max_timestamp_ms) == (0, 0, -1)
