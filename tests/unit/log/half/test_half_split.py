"""Half messages and decisions taken out of a batch, announced, and found again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.half.half_announcement import (
    DISTANCE_MAX,
    HalfRecord,
    PlacedDecision,
    encode_half,
    parse_half,
)
from bmq.log.half.half_headers import AskedDecision, HalfRefused, Outcome
from bmq.log.half.half_split import HalfSplit, empty_batch, split_half
from bmq.log.opened_batch import HEADERS_MAX, BatchTooLong
from bmq.log.timers.announcements import NamedBatch, parse_announcement
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import LOG_APPEND_TIME, BatchHeader, CorruptRecords, verify_crc

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
CODECS = st.sampled_from(list(Compression))


def record(value: bytes | None, *headers: tuple[str, bytes | None], **fields: Any) -> Record:
    return Record(b"key", value, (("first", b"1"), *headers, ("last", None)), **{"timestamp_ms": NOW_MS, **fields})


def half(value: bytes, check_id: bytes = b"check-1") -> Record:
    return record(value, ("bmq-half", check_id))


def commit(offset: int) -> Record:
    return record(None, ("bmq-half-commit", b"%d" % offset))


def is_new(asked: AskedDecision) -> bool:
    """Offset 1 is known as decided already, offset 2 is unknown."""
    if asked.offset == 2:
        raise HalfRefused("unknown")
    return asked.offset != 1


def split_of(records: list[Record], *, has_delay: bool = False, **options: Any) -> HalfSplit | None:
    batch = memoryview(encode_batch(records, producer_id=9, producer_epoch=2, base_sequence=5, **options))
    return split_half(batch, BatchHeader.parse(batch), is_new, has_delay=has_delay)


def test_batch_without_half_messages_is_left_alone() -> None:
    assert split_of([record(b"a"), record(b"b", ("bmq-deliver-after", b"9"))]) is None
    assert split_of([record(b"bmq-half"), record(b"b", ("bmq-half-offset", b"3"))]) is None


@pytest.mark.parametrize("codec", list(Compression))
def test_visible_batch_keeps_offsets_sequences_and_the_other_records(codec: Compression) -> None:
    records = [record(b"a"), half(b"b"), commit(7), commit(1), record(b"c", timestamp_ms=NOW_MS - 9)]
    found = split_of(records, compression=codec)
    assert found is not None and not found.refused
    header = BatchHeader.parse(found.visible)
    verify_crc(found.visible, 0, header)
    assert (header.last_offset_delta, header.record_count, header.base_sequence, header.producer_id) == (4, 2, 5, 9)
    assert header.compression is codec and header.max_timestamp_ms == NOW_MS
    assert [(one.offset, one.value) for one in decode_records(found.visible)] == [(0, b"a"), (4, b"c")]
    assert found.kept_indexes == [0, 4]
    assert [(one.offset_delta, one.check_id) for one in found.halves] == [(1, "check-1")]
    assert [(one.asked, one.offset_delta) for one in found.decisions] == [(AskedDecision(Outcome.COMMIT, 7), 2)], (
        "a decision that changes nothing is taken out, and not announced"
    )


def test_batch_of_a_decision_that_changes_nothing_is_empty() -> None:
    found = split_of([commit(1)], compression=Compression.ZSTD, attributes=LOG_APPEND_TIME)
    assert found is not None and not found.halves and not found.decisions
    header = BatchHeader.parse(found.visible)
    verify_crc(found.visible, 0, header)
    assert (header.last_offset_delta, header.record_count, header.max_timestamp_ms) == (0, 0, -1)


def test_refused_records_are_named_and_nothing_else_is_taken() -> None:
    found = split_of([half(b"a"), commit(2), record(b"x", ("bmq-half", None)), commit(7)])
    assert found is not None and not found.visible
    assert [(one.batch_index, one.reason[:7]) for one in found.refused] == [(1, "unknown"), (2, "the hea")]


def test_delay_and_half_are_refused_together_where_both_mean_something() -> None:
    both = record(b"a", ("bmq-half", b"x"), ("bmq-deliver-at", b"5"))
    found = split_of([both], has_delay=True)
    assert found is not None and "delay" in found.refused[0].reason
    found = split_of([both])
    assert found is not None and len(found.halves) == 1


def test_too_many_records_or_bytes_are_refused() -> None:
    with pytest.raises(BatchTooLong, match="10001 records"):
        split_of([half(b"")] * 10_001)
    with pytest.raises(BatchTooLong, match="bytes of records"):
        split_of([half(b"x" * 5_000_000)], compression=Compression.ZSTD)


def test_too_many_headers_are_refused_before_they_are_read() -> None:
    many = Record(None, b"", [("bmq-half", b"id"), *[("", None)] * (HEADERS_MAX - 1)])
    assert split_of([many]) is not None
    with pytest.raises(BatchTooLong, match=f"{HEADERS_MAX + 1} headers"):
        split_of([many, Record(None, b"", [("", None)])])


HALVES = st.builds(
    lambda timestamp_ms, check_id, body: HalfRecord(timestamp_ms, 0, check_id, body),
    st.integers(0, 2**42),
    st.text(min_size=1, max_size=40).filter(
        lambda text: 0 < len(text.encode("utf-8", "replace")) <= 128 and text.isprintable()
    ),
    st.binary(max_size=60),
)
DECISIONS = st.builds(
    lambda offset, due_ms, outcome: PlacedDecision(offset, due_ms, 0, outcome),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**42),
    st.sampled_from(list(Outcome)),
)


@given(st.lists(HALVES, max_size=6), st.lists(DECISIONS, max_size=6), CODECS, st.integers(1, DISTANCE_MAX))
def test_an_announcement_is_found_as_it_was_made(
    halves: list[HalfRecord], decisions: list[PlacedDecision], codec: Compression, distance: int
) -> None:
    if not halves and not decisions:
        return
    halves = [one._replace(offset_delta=place) for place, one in enumerate(halves)]
    decisions = [one._replace(offset_delta=place) for place, one in enumerate(decisions)]
    behind = NamedBatch(0xDEADBEEF, 9)
    batch = encode_half(halves, decisions, behind, NOW_MS, distance=distance, codec=codec)
    header = BatchHeader.parse(batch)
    verify_crc(batch, 0, header)
    assert header.is_control and not header.has_producer_id and header.last_offset_delta == 0
    assert parse_announcement(batch) is None, "no announcement of a delayed record"
    found = parse_half(batch)
    assert found is not None
    assert (found.behind, found.distance, found.now_ms, found.decisions) == (behind, distance, NOW_MS, tuple(decisions))
    bodies = found.bodies()
    assert [
        HalfRecord(one.timestamp_ms, one.offset_delta, one.check_id, bodies[one.body_start :][: one.body_bytes])
        for one in found.halves
    ] == halves


def changed(batch: bytearray, value: bytes) -> bytes:
    (record_,) = decode_records(batch)
    return bytes(encode_batch([record_._replace(value=value)], attributes=0x20))


def test_an_announcement_that_contradicts_itself_is_damage() -> None:
    batch = encode_half(
        [HalfRecord(1, 0, "id", b"body")], [PlacedDecision(5, 6, 1, Outcome.COMMIT)], NamedBatch(1, 3), NOW_MS
    )
    (whole,) = decode_records(batch)
    value = whole.value or b""
    assert parse_half(changed(batch, value)) is not None
    wrong = [b"\x01" + value[1:], b"", value[:20], value[:40], value[:60]]
    wrong += [value[:2] + bytes([0]) + value[3:], value[:2] + bytes([9]) + value[3:], value[:1] + b"\x07" + value[2:]]
    for one in wrong:
        with pytest.raises(CorruptRecords):
            parse_half(changed(batch, one))


@given(st.binary(max_size=120), st.integers(0, 60))
def test_any_bytes_are_an_announcement_or_damage(noise: bytes, keep: int) -> None:
    batch = encode_half(
        [HalfRecord(1, 0, "id", b"body")], [PlacedDecision(5, 6, 1, Outcome.COMMIT)], NamedBatch(1, 3), NOW_MS
    )
    value = decode_records(batch)[0].value or b""
    try:
        found = parse_half(changed(batch, b"\0" + value[1:keep] + noise))
    except CorruptRecords:
        return
    assert found is not None


def test_markers_of_transactions_are_no_announcement() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 3), producer_id=9, producer_epoch=1, timestamp_ms=NOW_MS
    )
    assert parse_half(marker) is None


def test_the_owners_own_decisions_lie_in_front_of_an_empty_batch() -> None:
    batch = empty_batch(3)
    header = BatchHeader.parse(batch)
    verify_crc(batch, 0, header)
    assert (header.last_offset_delta, header.record_count, header.has_producer_id) == (2, 0, False)
    assert decode_records(batch) == ()
