"""A filtered batch is the batch without the records that do not pass: offsets, times, producer and bytes stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader, CorruptRecords, verify_crc
from bmq.views.batch_filter import KERNEL_STEP_RECORDS, NOTHING, STEP_RECORDS, BatchFilter, run_of
from bmq.views.view_filter import ViewFilter, compiled

pytestmark = pytest.mark.unit

PARTITION = 3
HEADERS = st.lists(
    st.tuples(st.sampled_from(("bmq-tag", "TAGS", "x", "y")), st.none() | st.sampled_from((b"a", b"b", b"7", b"\xff"))),
    max_size=3,
)
RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=4),
        st.none() | st.binary(max_size=200),
        HEADERS.map(tuple),
        st.integers(1_000, 2_000),
    ),
    min_size=1,
    max_size=12,
)


def filtered(batch: bytearray, text: str) -> bytes | None:
    found = BatchFilter(compiled(text)).filtered(batch, BatchHeader.parse(batch), PARTITION)
    return None if found is None else bytes(found)


def tags_of(record: Record) -> list[bytes | None]:
    return [value for name, value in record.headers if name in ("bmq-tag", "TAGS")]


@given(
    RECORDS,
    st.sampled_from(Compression),
    st.sampled_from((0, TRANSACTIONAL, LOG_APPEND_TIME)),
    st.integers(0, 1 << 50),
    st.sampled_from(("tag = 'a'", "key >= 'm' OR x = 7", "timestamp < 1500", "y IS NOT NULL AND NOT tag IN ('b')")),
)
def test_exactly_the_passing_records_stay(
    records: list[Record], compression: Compression, attributes: int, base_offset: int, text: str
) -> None:
    batch = encode_batch(
        records,
        base_offset=base_offset,
        leader_epoch=7,
        compression=compression,
        attributes=attributes,
        producer_id=4,
        producer_epoch=2,
        base_sequence=9,
    )
    header = BatchHeader.parse(batch)
    times = [header.max_timestamp_ms if attributes == LOG_APPEND_TIME else record.timestamp_ms for record in records]
    wanted = [
        record._replace(offset=base_offset + place, timestamp_ms=time)
        for place, (record, time) in enumerate(zip(records, times, strict=True))
        if passes(record, time, text)
    ]
    found = filtered(batch, text)
    if not wanted:
        assert found == NOTHING
        return
    if len(wanted) == len(records):
        assert found is None
        return
    assert found is not None
    left = BatchHeader.parse(found)
    verify_crc(found, 0, left)
    assert list(decode_records(found)) == wanted
    changed = {"length", "crc", "attributes", "record_count"}
    assert {name: value for name, value in left._asdict().items() if name not in changed} == {
        name: value for name, value in header._asdict().items() if name not in changed
    }
    assert left.attributes & ~7 == header.attributes & ~7
    assert left.record_count == len(wanted)


def passes(record: Record, time: int, text: str) -> bool:
    """The four filters of the test above, said in Python."""
    tags = [value for value in tags_of(record) if value not in (None, b"\xff")]
    unknown_tag = not tags_of(record) or any(value in (None, b"\xff") for value in tags_of(record))
    if text == "tag = 'a'":
        return b"a" in tags
    if text == "timestamp < 1500":
        return time < 1500
    if text.startswith("key"):
        is_text = record.key is not None
        try:
            (record.key or b"").decode()
        except UnicodeDecodeError:
            is_text = False
        is_key = is_text and (record.key or b"") >= b"m"
        return is_key or any(name == "x" and value == b"7" for name, value in record.headers)
    has_y = any(name == "y" and value is not None for name, value in record.headers)
    return has_y and not unknown_tag and b"b" not in tags


def test_markers_stay_and_other_control_batches_go() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 1), producer_id=5, producer_epoch=0, timestamp_ms=1
    )
    assert filtered(marker, "tag = 'a'") is None
    announcement = encode_batch([Record(b"\0\0\0\x64", b"held records", timestamp_ms=1)], attributes=CONTROL)
    assert filtered(announcement, "TRUE") == NOTHING


def test_a_batch_without_records_is_nothing() -> None:
    assert filtered(run_of(BatchHeader.parse(encode_batch([Record(b"", b"")]))).encoded(), "TRUE") == NOTHING


def test_a_run_spans_batches_of_one_epoch() -> None:
    def header(base_offset: int, epoch: int, count: int = 2) -> BatchHeader:
        records = [Record(None, b"x")] * count
        return BatchHeader.parse(encode_batch(records, base_offset=base_offset, leader_epoch=epoch))

    run = run_of(header(10, 4)).joined(run_of(header(12, 4, 5)))
    assert run is not None
    assert run.joined(run_of(header(17, 5))) is None
    far = header(10 + 2**31 - 1, 4, 1)
    assert run.joined(run_of(far)) == run._replace(next_offset=far.end_offset)
    assert run.joined(run_of(header(10 + 2**31 - 1, 4, 2))) is None
    encoded = run.encoded()
    parsed = BatchHeader.parse(encoded)
    verify_crc(encoded, 0, parsed)
    assert (parsed.base_offset, parsed.end_offset, parsed.is_control, parsed.leader_epoch) == (10, 17, True, 4)


def test_a_rewritten_compressed_batch_is_not_longer_than_its_records_uncompressed() -> None:
    records = [Record(None, b"z" * 1000, (("bmq-tag", b"b" if place else b"a"),)) for place in range(200)]
    batch = encode_batch(records, compression=Compression.ZSTD)
    found = filtered(batch, "tag = 'b'")
    assert found is not None
    assert len(found) <= len(batch)
    assert BatchHeader.parse(found).compression is Compression.ZSTD
    assert len(decode_records(found)) == 199
    few = filtered(batch, "tag = 'a'")
    assert few is not None
    assert len(few) < 1200


@pytest.mark.parametrize("cut", [1, 30])
def test_damage_is_an_error(cut: int) -> None:
    batch = encode_batch([Record(b"k", b"v" * 40)] * 3)
    header = BatchHeader.parse(batch)
    with pytest.raises(CorruptRecords):
        BatchFilter(compiled("key = 'k'")).filtered(batch[:-cut], header, PARTITION)


@pytest.mark.parametrize(("text", "step"), [("tag = 'a'", KERNEL_STEP_RECORDS), ("tag <> 'a'", STEP_RECORDS)])
def test_a_long_batch_is_filtered_in_steps(text: str, step: int) -> None:
    records = [Record(None, None, (("bmq-tag", b"a" if place % 3 else b"b"),)) for place in range(2 * step + 1)]
    batch = encode_batch(records)
    steps = BatchFilter(compiled(text)).steps(batch, BatchHeader.parse(batch), PARTITION)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
        count += 1
    assert count == 2
    wanted = [place for place in range(2 * step + 1) if bool(place % 3) == (text == "tag = 'a'")]
    assert [one.offset for one in decode_records(found)] == wanted


@given(
    RECORDS,
    st.recursive(
        st.sampled_from(
            ("tag = 'a'", "tag IN ('b', '7')", "x = 'a'", "\"y\" IN ('')", "key = 'a'", "'b' = key", "TRUE", "FALSE")
        ),
        lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(("AND", "OR")), inner),
        max_leaves=7,
    ),
)
def test_the_kernel_and_the_predicate_agree(records: list[Record], text: str) -> None:
    batch, known = encode_batch(records), compiled(text)
    if known.kernel_filter is None:
        return
    header = BatchHeader.parse(batch)
    plain = ViewFilter(text, known.predicate, is_by_headers=False)
    assert BatchFilter(known).filtered(batch, header, 0) == BatchFilter(plain).filtered(batch, header, 0)


def test_what_is_remembered_is_bounded() -> None:
    kept = BatchFilter(compiled("x = 17"))
    for base in range(0, 9000, 3000):
        batch = encode_batch([Record(None, None, (("x", b"%d" % (base + at)),)) for at in range(3000)])
        found = kept.filtered(batch, BatchHeader.parse(batch), PARTITION)
        assert (found != NOTHING) == (base == 0)
    assert len(kept._answers) <= 4096
    long = encode_batch([Record(None, None, (("x", b"z" * 600),))])
    kept.filtered(long, BatchHeader.parse(long), PARTITION)
    assert max(map(len, kept._answers)) <= 512
