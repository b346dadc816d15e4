"""What is left of a log is what Kafka's cleaner leaves: a plain model of it, record by record, is the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.compaction.key_map import LOAD_MAX, SLOT_BYTES, KeyMap
from bmq.compaction.log_cleaner import CleanedBatch, LastRecord, LogCleaner, Step
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.origin import DamagedBatch
from bmq.log.producer_state import ProducerStates
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
    parse_end_transaction_marker,
)
from bmq.protocol.record_batch import BatchHeader
from tests.support.flagged_batch import flagged_batch
from tests.unit.arrow_records.strategies import ORIGIN, batches_in

pytestmark = pytest.mark.unit

SEED = bytes(range(16))
NOW_MS = 1_700_000_000_000
DELETE_RETENTION_MS = 100
KEYS = [b"a", b"b", b"c", b"a key that does not fit into a view", None]
HORIZON = 1 << 6


@dataclass(slots=True)
class Log:
    """Batches as an owner places them, with the producers' state behind them."""

    batches: list[bytes] = field(default_factory=list)
    producers: ProducerStates = field(default_factory=ProducerStates)
    end_offset: int = 0

    def append(self, batch: bytes | bytearray, marker: EndTransactionMarker | None = None) -> None:
        header = BatchHeader.parse(batch)
        if header.producer_id >= 0:
            if marker is None:
                self.producers.place(header, header.base_offset, NOW_MS)
            else:
                self.producers.place_marker(header, header.base_offset, marker, NOW_MS)
        self.end_offset = header.end_offset
        self.producers.synced(self.end_offset)
        self.batches.append(bytes(batch))

    @property
    def aborted(self) -> tuple[AbortedEntry, ...]:
        return tuple(self.producers.aborted)

    @property
    def last_records(self) -> dict[int, LastRecord]:
        return {
            producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for producer_id, entry in self.producers.entries()
        }


@dataclass(slots=True)
class Story:
    """Draws what producers do."""

    draw: st.DrawFn
    log: Log = field(default_factory=Log)
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def step(self) -> None:
        producer_id = self.draw(st.sampled_from([-1, 7, 8, 9]))
        if producer_id in self.open and self.draw(st.booleans()):
            self.end(producer_id)
        else:
            self.write(producer_id)

    def write(self, producer_id: int) -> None:
        now_ms = self.log.end_offset
        records = [
            Record(key, value, (), now_ms)
            for key, value in self.draw(
                st.lists(
                    st.tuples(st.sampled_from(KEYS), st.sampled_from([b"v", None, b"w" * 40])), min_size=1, max_size=4
                )
            )
        ]
        fields: dict[str, Any] = {}
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            fields = {
                "producer_id": producer_id,
                "producer_epoch": self.epochs.get(producer_id, 0),
                "base_sequence": sequence,
                "is_transactional": producer_id > 7,
            }
            self.sequences[producer_id] = sequence + len(records)
            if producer_id > 7:
                self.open.add(producer_id)
        codec = self.draw(st.sampled_from([Compression.NONE, Compression.LZ4]))
        self.log.append(flagged_batch(records, base_offset=self.log.end_offset, compression=codec, **fields))

    def end(self, producer_id: int) -> None:
        kind = self.draw(st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
        if self.draw(st.booleans()):  # each end has a new epoch, or not
            self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
            self.sequences[producer_id] = 0
        marker = EndTransactionMarker(kind, 1)
        batch = encode_end_transaction_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, 0),
            timestamp_ms=self.log.end_offset,
            base_offset=self.log.end_offset,
        )
        self.log.append(batch, marker)
        self.open.discard(producer_id)


@st.composite
def stories(draw: st.DrawFn) -> Log:
    story = Story(draw)
    for _ in range(draw(st.integers(1, 25))):
        story.step()
    for producer_id in sorted(story.open):
        story.end(producer_id)
    return story.log


def cleaned_by_us(
    batches: Sequence[bytes],
    log: Log,
    *,
    dirty_offset: int,
    now_ms: int,
    keys_max: int = 1_000,
    chunk_bytes: int = 1 << 20,
) -> tuple[list[bytes], LogCleaner]:
    cleaner = LogCleaner(
        KeyMap(int(keys_max / LOAD_MAX) * SLOT_BYTES, dirty_offset, SEED),
        dirty_offset,
        now_ms,
        DELETE_RETENTION_MS,
        DELETE_RETENTION_MS,
        log.aborted,
        log.last_records,
    )
    dirty = [batch for batch in batches if BatchHeader.parse(batch).end_offset > dirty_offset]
    for chunk in chunks_of(b"".join(dirty), chunk_bytes):
        if not cleaner.is_full:
            cleaner.note(chunk, ORIGIN)
    out: list[CleanedBatch] = []
    for chunk in chunks_of(b"".join(batches), chunk_bytes):
        cleaner.clean(chunk, ORIGIN, log.end_offset, out)
    for kept in out:
        assert kept.header == BatchHeader.parse(kept.data)
    return [bytes(kept.data) for kept in out], cleaner


def chunks_of(data: bytes, chunk_bytes: int) -> list[bytes]:
    """Whole batches, as many as fit."""
    found: list[bytes] = []
    chunk = b""
    for batch in batches_in(data):
        if chunk and len(chunk) + len(batch) > chunk_bytes:
            found.append(chunk)
            chunk = b""
        chunk += batch
    return [*found, chunk] if chunk else found


# --- the model

Left = tuple[BatchHeader, tuple[Record, ...]]


@dataclass(slots=True)
class Model:
    """Kafka's Cleaner, one record at a time."""

    log: Log
    now_ms: int

    def clean(self, batches: Sequence[bytes], noted: Mapping[bytes, int], noted_offset: int) -> list[Left]:
        left: list[Left] = []
        transactions = ModelTransactions(self.log.aborted)
        for batch in batches:
            header, records = BatchHeader.parse(batch), decode_records(batch)
            can_discard = transactions.can_discard(batch, header)
            horizon_ms = header.delete_horizon_ms
            discards = can_discard and (not header.is_control or (horizon_ms is not None and horizon_ms <= self.now_ms))
            kept = tuple(
                record
                for record in records
                if not discards and (header.is_control or self.is_kept(record, header, noted, noted_offset))
            )
            tombstones = not header.is_control and any(record.value is None for record in kept)
            if kept:
                if horizon_ms is None and (tombstones or (can_discard and header.is_control)):
                    horizon_ms = self.now_ms + DELETE_RETENTION_MS
                    header = header._replace(attributes=header.attributes | HORIZON, base_timestamp_ms=horizon_ms)
                left.append((header, kept))
            elif header.end_offset == self.log.end_offset or self.is_last(header):
                left.append((header, ()))
        return left

    def is_kept(self, record: Record, header: BatchHeader, noted: Mapping[bytes, int], noted_offset: int) -> bool:
        if record.offset >= noted_offset:
            return True
        if record.key is None or record.offset < noted.get(record.key, -1):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.value is not None or horizon_ms is None or self.now_ms < horizon_ms

    def is_last(self, header: BatchHeader) -> bool:
        last = self.log.last_records.get(header.producer_id)
        if last is None:
            return False
        if last.offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.offset


class ModelTransactions:
    def __init__(self, aborted: Sequence[AbortedEntry]) -> None:
        self.aborted = sorted(aborted, key=lambda entry: entry.first_offset)
        self.ongoing_aborted: dict[int, bool] = {}
        self.ongoing_committed: set[int] = set()

    def can_discard(self, batch: bytes, header: BatchHeader) -> bool:
        while self.aborted and self.aborted[0].first_offset <= header.last_offset:
            self.ongoing_aborted.setdefault(self.aborted.pop(0).producer_id, False)
        producer_id = header.producer_id
        if not header.is_control:
            if not header.is_transactional:
                return False
            if producer_id in self.ongoing_aborted:
                self.ongoing_aborted[producer_id] = True
                return True
            self.ongoing_committed.add(producer_id)
            return False
        marker = parse_end_transaction_marker(batch) if header.record_count else None
        if marker is None:
            return True
        if marker.control_type is ControlType.ABORT:
            return not self.ongoing_aborted.pop(producer_id, False)
        was_there = producer_id in self.ongoing_committed
        self.ongoing_committed.discard(producer_id)
        return not was_there


def noted_by_model(batches: Sequence[bytes], log: Log, dirty_offset: int) -> dict[bytes, int]:
    transactions = ModelTransactions(log.aborted)
    noted: dict[bytes, int] = {}
    for batch in batches:
        header = BatchHeader.parse(batch)
        if header.end_offset <= dirty_offset:
            continue
        is_discarded = transactions.can_discard(batch, header)
        if header.is_control or is_discarded:
            continue
        for record in decode_records(batch):
            if record.key is not None and record.offset >= dirty_offset:
                noted[record.key] = record.offset
    return noted


FIELDS = ("base_offset", "last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")


def assert_same(found: Sequence[bytes], expected: Sequence[Left]) -> None:
    headers = [BatchHeader.parse(batch) for batch in found]
    assert [header.base_offset for header in headers] == [header.base_offset for header, _ in expected]
    for batch, header, (model, records) in zip(found, headers, expected, strict=True):
        assert all(getattr(header, name) == getattr(model, name) for name in FIELDS)
        assert decode_records(batch) == records
        assert header.delete_horizon_ms == (model.delete_horizon_ms if records else None)


# --- the tests


@settings(max_examples=2 * settings.default.max_examples)  # type: ignore[union-attr]
@given(log=stories(), gaps=st.lists(st.integers(0, 150), min_size=1, max_size=4), chunk_bytes=st.integers(1, 600))
def test_pass_after_pass_the_same_is_left_as_in_kafka(log: Log, gaps: list[int], chunk_bytes: int) -> None:
    now_ms, dirty_offset, batches = 1_000, 0, log.batches
    for gap_ms in gaps:
        now_ms += gap_ms
        noted = noted_by_model(batches, log, dirty_offset)
        expected = Model(log, now_ms).clean(batches, noted, log.end_offset)
        found, cleaner = cleaned_by_us(batches, log, dirty_offset=dirty_offset, now_ms=now_ms, chunk_bytes=chunk_bytes)
        assert cleaner.noted_offset == log.end_offset
        assert_same(found, expected)
        for offset in cleaner.dropped_aborts:
            log.producers.aborted.remove(offset)
        batches, dirty_offset = found, log.end_offset
    assert BatchHeader.parse(batches[-1]).end_offset == log.end_offset


@given(log=stories(), keys_max=st.integers(1, 3))
def test_a_map_that_is_full_leaves_the_rest_for_later(log: Log, keys_max: int) -> None:
    """Pass after pass, each further; in the end nothing is left but what one pass would leave."""
    in_one, _ = cleaned_by_us(log.batches, log, dirty_offset=0, now_ms=1_000)
    batches, dirty_offset = log.batches, 0
    while dirty_offset < log.end_offset:
        batches, cleaner = cleaned_by_us(batches, log, dirty_offset=dirty_offset, now_ms=1_000, keys_max=keys_max)
        assert cleaner.noted_offset > dirty_offset
        dirty_offset = cleaner.noted_offset
    values = [record for batch in batches for record in decode_records(batch) if record.value is not None]
    assert values == [record for batch in in_one for record in decode_records(batch) if record.value is not None]


@given(log=stories())
def test_readers_of_committed_records_see_the_newest_of_each_key(log: Log) -> None:
    found, _ = cleaned_by_us(log.batches, log, dirty_offset=0, now_ms=1_000)

    def committed(batches: Sequence[bytes]) -> dict[bytes, tuple[int, bytes | None]]:
        state: dict[bytes, tuple[int, bytes | None]] = {}
        for batch in batches:
            header = BatchHeader.parse(batch)
            is_aborted = header.is_transactional and any(
                entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset < entry.last_offset
                for entry in log.aborted
            )
            if header.is_control or is_aborted:
                continue
            state.update(
                (record.key, (record.offset, record.value))
                for record in decode_records(batch)
                if record.key is not None
            )
        return state

    assert committed(found) == committed(log.batches)


def test_a_damaged_batch_ends_the_cleaning() -> None:
    batch = bytearray(encode_batch([Record(b"k", b"v")]))
    batch[-1] ^= 1
    log = Log([bytes(batch)], end_offset=1)
    with pytest.raises(DamagedBatch):
        cleaned_by_us(log.batches, log, dirty_offset=0, now_ms=0)


def test_a_cut_batch_is_left_for_the_next_buffer() -> None:
    batch = encode_batch([Record(b"k", b"v")])
    cleaner = LogCleaner(KeyMap(1_000, 0, SEED), 0, 0, 0, 0)
    assert cleaner.note(batch[:-5], ORIGIN) == Step(0, 5)
    assert cleaner.noted_offset == 0
