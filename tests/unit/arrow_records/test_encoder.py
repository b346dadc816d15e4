"""What is encoded from columns is what the plain encoder would write, and is read back as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.arrow_records.decoder import decode
from bmq.arrow_records.encoder import BatchFields, encode
from bmq.arrow_records.layout import Layout
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
    batches,
    verify_crc,
)
from tests.unit.arrow_records.strategies import CODECS, ORIGIN, RECORDS

pytestmark = pytest.mark.unit

FIELDS = st.builds(
    BatchFields,
    leader_epoch=st.integers(-1, 9),
    compression=CODECS,
    timestamp_type=st.sampled_from(TimestampType),
    producer_id=st.integers(0, 9),
    producer_epoch=st.integers(0, 9),
    base_sequence=st.integers(0, 2**31 - 1),
    is_transactional=st.booleans(),
    is_control=st.booleans(),
)
BINARIES = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])
HEADER = pa.struct([("key", pa.binary()), ("value", pa.binary())])


def table_of(records: list[Record], binary: pa.DataType) -> pa.RecordBatch:
    """The columns of records, behind a row that is sliced off, as slices of a bigger table have it."""
    rows = [Record(b"in front", b"of it", (("a", b"b"),)), *records]
    headers = [[{"key": k.encode("utf-8", "surrogateescape"), "value": v} for k, v in row.headers] for row in rows]
    columns = {
        "offset": pa.array([row.offset for row in rows], pa.int64()),
        "timestamp": pa.array([row.timestamp_ms for row in rows], pa.int64()),
        "key": pa.array([row.key for row in rows], binary),
        "value": pa.array([row.value for row in rows], binary),
        "headers": pa.array(headers, pa.list_(HEADER)),
    }
    return pa.RecordBatch.from_pydict(columns).slice(1)


@given(records=st.lists(RECORDS, min_size=1, max_size=10), fields=FIELDS, binary=BINARIES, base=st.integers(0, 2**60))
def test_one_batch_is_what_the_plain_encoder_writes(
    records: list[Record], fields: BatchFields, binary: pa.DataType, base: int
) -> None:
    (batch,) = encode(table_of(records, binary), fields, base_offset=base)
    assert batch == encode_batch(
        records,
        base_offset=base,
        leader_epoch=fields.leader_epoch,
        compression=fields.compression,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=fields.base_sequence,
        attributes=(TRANSACTIONAL if fields.is_transactional else 0)
        | (CONTROL if fields.is_control else 0)
        | (LOG_APPEND_TIME if fields.timestamp_type else 0),
    )


@given(
    records=st.lists(RECORDS, max_size=12),
    gaps=st.lists(st.integers(1, 3) | st.just(2**31), min_size=12, max_size=12),
    codec=CODECS,
    batch_bytes_max=st.integers(1, 400),
    has_sequence=st.booleans(),
)
def test_columns_come_back_from_batches_of_any_size(
    records: list[Record], gaps: list[int], codec: Compression, batch_bytes_max: int, has_sequence: bool
) -> None:
    offset = 5
    for index, gap in enumerate(gaps[: len(records)]):
        offset += gap
        records[index] = records[index]._replace(offset=offset)
    table = table_of(records, pa.binary())
    fields = BatchFields(compression=codec, base_sequence=2**31 - 3 if has_sequence else -1)
    sequence = fields.base_sequence
    log = bytearray()
    for batch in encode(table, fields, batch_bytes_max=batch_bytes_max):
        header = BatchHeader.parse(batch)
        verify_crc(batch, 0, header)
        assert header.base_sequence == sequence
        if has_sequence:
            sequence = (sequence + header.record_count) % 2**31
        if header.record_count > 1 and codec is Compression.NONE:
            assert len(batch) - 61 <= batch_bytes_max
        log += batch
    decoded = decode(log, ORIGIN, Layout(tuple(table.schema.names)))
    assert decoded.table.to_pylist() == table.to_pylist()
    assert [record for place, _ in batches(log) for record in decode_records(log, place)] == records


def test_columns_may_be_missing_or_of_another_type() -> None:
    table = pa.table(
        {
            "value": pa.chunked_array([["a"], ["naïve", None]], pa.string()),
            "timestamp": pa.array([1_500_999, None, 3_000_000], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [None, [], [{"key": "k", "value": b"v"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "other": pa.array([1, 2, 3]),
        }
    )
    (batch,) = encode(table, BatchFields(), base_offset=7)
    assert decode_records(batch) == (
        Record(None, b"a", (), 1_500, 7),
        Record(None, "naïve".encode(), (), -1, 8),
        Record(None, None, (("k", b"v"),), 3_000, 9),
    )
    (bare,) = encode(table.select(["value"]), BatchFields(), base_offset=7)
    assert [record.timestamp_ms for record in decode_records(bare)] == [-1, -1, -1]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"value": pa.array([b"a"])}), "neither a base offset"),
        (pa.table({"offset": pa.array([1, None])}), "neither a base offset"),
        (pa.table({"offset": pa.array([1, 1])}), "do not ascend"),
        (
            pa.table({"offset": pa.array([1]), "headers": pa.array([[{"key": None, "value": b""}]], pa.list_(HEADER))}),
            "header without a key",
        ),
    ],
)
def test_columns_that_make_no_batch_are_refused(table: pa.Table, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(encode(table, BatchFields()))


def test_timestamps_at_both_ends_fit_into_one_batch() -> None:
    """As in Kafka, whose sums wrap."""
    times = [-(2**63), 2**63 - 1, 0]
    (batch,) = encode(pa.table({"timestamp": pa.array(times, pa.int64())}), BatchFields(), base_offset=0)
    assert decode(batch, ORIGIN, Layout(("timestamp",))).table.column(0).to_pylist() == times


def test_no_rows_are_no_batches() -> None:
    assert list(encode(table_of([], pa.binary()), BatchFields())) == []
