"""Delayed records taken out of a batch, announced, and made into records again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.opened_batch import HEADERS_MAX, BatchTooLong
from bmq.log.timers.announcements import (
    Cancel,
    Delivery,
    Held,
    HeldRecord,
    NamedBatch,
    Position,
    encode_delivery,
    encode_held,
    parse_announcement,
)
from bmq.log.timers.delivering import DueRecord, delivered_batch
from bmq.log.timers.holding import Delays, Split, split
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
    parse_end_transaction_marker,
)
from bmq.protocol.record_batch import LOG_APPEND_TIME, BatchHeader, CorruptRecords, verify_crc
from tests.support.earlier_announcements import of_earlier_release

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
DELAYS = Delays(NOW_MS, 86_400_000, -1)
CODECS = st.sampled_from(list(Compression))


def record(value: bytes | None, after_ms: int | None = None, **fields: Any) -> Record:
    headers = [("first", b"1")]
    if after_ms is not None:
        headers.append(("bmq-deliver-after", b"%d" % after_ms))
    return Record(b"key", value, (*headers, ("last", None)), **{"timestamp_ms": NOW_MS - 7, **fields})


def split_of(records: list[Record], delays: Delays = DELAYS, **options: Any) -> Split | None:
    batch = memoryview(encode_batch(records, producer_id=9, producer_epoch=2, base_sequence=5, **options))
    return split(batch, BatchHeader.parse(batch), delays)


def test_batch_without_delays_is_left_alone() -> None:
    assert split_of([record(b"a"), record(b"b")]) is None
    assert split_of([record(b"bmq-deliver-at"), record(b"b", 0)]) is None


@pytest.mark.parametrize("codec", list(Compression))
def test_visible_batch_keeps_offsets_sequences_and_the_other_records(codec: Compression) -> None:
    found = split_of([record(b"a"), record(b"b", 5000), record(b"c", timestamp_ms=NOW_MS - 9)], compression=codec)
    assert found is not None
    header = BatchHeader.parse(found.visible)
    verify_crc(found.visible, 0, header)
    assert (header.last_offset_delta, header.record_count, header.base_sequence, header.producer_id) == (2, 2, 5, 9)
    assert header.compression is codec
    assert header.max_timestamp_ms == NOW_MS - 7
    assert [(one.offset, one.value, one.timestamp_ms) for one in decode_records(found.visible)] == [
        (0, b"a", NOW_MS - 7),
        (2, b"c", NOW_MS - 9),
    ]
    assert [(one.offset_delta, one.due_ms, one.timestamp_ms) for one in found.held] == [(1, NOW_MS + 5000, NOW_MS - 7)]


def test_batch_of_delayed_records_alone_stays_as_an_empty_one() -> None:
    found = split_of([record(b"a", 100), record(b"b", 200)], compression=Compression.ZSTD, attributes=LOG_APPEND_TIME)
    assert found is not None
    header = BatchHeader.parse(found.visible)
    verify_crc(found.visible, 0, header)
    assert (header.last_offset_delta, header.record_count, header.last_sequence) == (1, 0, 6)
    assert header.max_timestamp_ms == header.base_timestamp_ms == -1, "no look-up by time finds it"
    assert decode_records(found.visible) == ()


def test_record_is_not_held_below_the_floor() -> None:
    found = split_of([record(b"a", 100), record(b"b", 9000)], DELAYS._replace(floor_ms=NOW_MS + 500))
    assert found is not None
    assert [one.due_ms for one in found.held] == [NOW_MS + 500, NOW_MS + 9000]


def test_all_refused_records_are_named_and_nothing_is_held() -> None:
    found = split_of([record(b"a", 5), record(b"b", 86_400_001), record(b"c"), record(b"d", 10**18)])
    assert found is not None
    assert [one.batch_index for one in found.refused] == [1, 3]
    assert found.held == [] and not found.visible


def test_batches_too_long_to_look_into_are_refused() -> None:
    with pytest.raises(BatchTooLong, match="4194304"):
        split_of([record(bytes(5 << 20), 5)], compression=Compression.ZSTD)
    with pytest.raises(BatchTooLong, match="10001 records"):
        split_of([record(b"", 5)] * 10_001)


def cancel(offset: int, due_ms: int) -> Record:
    return Record(b"key", None, (("bmq-cancel", b"%d,%d" % (offset, due_ms)),))


@pytest.mark.parametrize("codec", list(Compression))
def test_records_that_cancel_others_are_announced_and_not_visible(codec: Compression) -> None:
    delays = DELAYS._replace(why_not=lambda target: "" if target.offset < 9 else "unknown")
    found = split_of([cancel(7, 5), record(b"b", 5000), record(b"c"), cancel(3, 6)], delays, compression=codec)
    assert found is not None and not found.refused
    assert [one.value for one in decode_records(found.visible)] == [b"c"]
    assert found.cancels == [Cancel(Position(5, 7), 0), Cancel(Position(6, 3), 3)]
    control = encode_held(found.held, NamedBatch.of(BatchHeader.parse(found.visible)), codec, cancels=found.cancels)
    held = parse_announcement(control)
    assert isinstance(held, Held)
    assert held.cancels == tuple(found.cancels)
    assert [entry.offset_delta for entry in held.entries] == [1]
    assert bytes(held.record(1).body) == found.held[0].body

    alone = split_of([cancel(7, 5)], delays, compression=codec)
    assert alone is not None and not alone.held
    held = parse_announcement(encode_held([], NamedBatch(1, 0), cancels=alone.cancels))
    assert isinstance(held, Held) and held.entries == () and held.cancels == (Cancel(Position(5, 7), 0),)


def test_a_cancellation_of_what_cannot_be_cancelled_is_refused_with_its_place() -> None:
    delays = DELAYS._replace(why_not=lambda target: "" if target.offset < 9 else f"{target.offset} is unknown")
    found = split_of([cancel(7, 5), cancel(9, 5), record(b"b", 5), cancel(10, 5)], delays)
    assert found is not None
    assert [(one.batch_index, one.reason) for one in found.refused] == [(1, "9 is unknown"), (3, "10 is unknown")]
    assert not found.visible and not found.held and not found.cancels, "nothing of the batch is applied"


def test_an_announcement_without_cancellations_may_have_no_entry_of_one() -> None:
    """An owner that knows version 0 alone refuses what it would not carry out."""
    control = encode_held([], NamedBatch(1, 0), cancels=[Cancel(Position(5, 7), 0)])
    (only,) = decode_records(control)
    assert only.value is not None and only.value[0] == 1
    place = bytes(control).index(only.value)
    control[place] = 0
    with pytest.raises(CorruptRecords):
        parse_announcement(control)


RECORDS = st.lists(
    st.builds(
        record,
        st.none() | st.binary(max_size=40),
        st.none() | st.integers(0, 86_400_000),
        timestamp_ms=st.integers(NOW_MS - 1000, NOW_MS + 1000),
    ),
    min_size=1,
    max_size=12,
)


@given(RECORDS, CODECS)
def test_what_is_held_and_delivered_is_what_was_produced(records: list[Record], codec: Compression) -> None:
    found = split_of(records, compression=codec)
    if found is None:
        return
    visible = BatchHeader.parse(found.visible)
    control = encode_held(found.held, NamedBatch.of(visible), codec)
    verify_crc(control, 0, BatchHeader.parse(control))
    held = parse_announcement(control)
    assert isinstance(held, Held) and held.behind == NamedBatch.of(visible)
    due = []
    for entry in held.entries:
        one = held.record(entry.offset_delta)
        due.append(DueRecord(100 + entry.offset_delta, one.due_ms, one.timestamp_ms, one.body))
    batch = delivered_batch(due, NOW_MS + 1)
    verify_crc(batch, 0, BatchHeader.parse(batch))
    there = {one.offset for one in decode_records(found.visible)}
    hidden = [one for offset, one in enumerate(records) if offset not in there]
    delivered = decode_records(batch)
    assert [(one.key, one.value, one.timestamp_ms) for one in delivered] == [
        (one.key, one.value, NOW_MS + 1) for one in hidden
    ]
    for got, before, timer in zip(delivered, hidden, due, strict=True):
        assert got.headers == (
            *before.headers,
            ("bmq-timer-offset", b"%d" % timer.offset),
            ("bmq-timer-due", b"%d" % timer.due_ms),
            ("bmq-timer-created", b"%d" % before.timestamp_ms),
        )


def test_a_batch_of_many_headers_is_refused_if_it_has_to_be_looked_at() -> None:
    delay = ("bmq-deliver-after", b"5000")
    many = Record(None, b"", [delay, *[("", None)] * HEADERS_MAX])
    found = split_of([many])
    assert found is not None and len(found.held) == 1, "the kernel reads as many as there are"
    with pytest.raises(BatchTooLong, match="headers together"):
        split_of([many, Record(None, b"", [("bmq-other", b"")])])


def test_announcements_are_control_batches_of_no_producer_that_no_time_finds() -> None:
    behind = NamedBatch(7, 3)
    delivery = Delivery(behind, Position(-1, -1), Position(5, 6))
    for batch in (encode_held([HeldRecord(1, 2, 3, b"\1\1\0")], behind), encode_delivery(delivery)):
        header = BatchHeader.parse(batch)
        assert header.is_control and not header.is_transactional and header.producer_id == -1
        assert header.max_timestamp_ms == header.base_timestamp_ms == -1
        (only,) = decode_records(batch)
        assert only.key is not None and len(only.key) == 4 and only.key[:2] == b"\0\1", "librdkafka skips it at once"
        assert parse_end_transaction_marker(batch) is None
    assert parse_announcement(encode_delivery(delivery)) == delivery
    assert parse_announcement(of_earlier_release(encode_delivery(delivery))) == delivery
    held = encode_held([HeldRecord(1, 2, 3, b"\1\1\0")], behind)
    assert isinstance(parse_announcement(of_earlier_release(held)), Held)


def test_other_control_batches_are_no_announcements() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 1), producer_id=1, producer_epoch=0, timestamp_ms=0
    )
    assert parse_announcement(marker) is None


@given(st.data())
def test_damaged_announcement_is_refused_or_reads_within_its_bytes(data: st.DataObject) -> None:
    cancels = data.draw(st.sampled_from([[], [Cancel(Position(5, 7), 2)]]))
    batch = encode_held([HeldRecord(1, 2, 0, b"abc"), HeldRecord(4, 5, 1, b"de")], NamedBatch(7, 3), cancels=cancels)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        held = parse_announcement(batch)
        if isinstance(held, Held):
            for entry in held.entries:
                assert len(held.record(entry.offset_delta).body) == entry.body_bytes
    except CorruptRecords as error:
        assert str(error)


@pytest.mark.parametrize("body", [b"", b"\x50ab", b"\1", b"\1\1", b"\1\x50a\0"])
def test_body_that_is_no_record_is_not_delivered(body: bytes) -> None:
    with pytest.raises(CorruptRecords):
        delivered_batch([DueRecord(1, 2, 3, body)], NOW_MS)
