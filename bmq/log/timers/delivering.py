"""Makes the batch of delivered records out of held ones. Pure.

A delivered record has the produced record's key, value and headers, and three more headers behind them: `bmq-timer-offset` (its
name), `bmq-timer-due` (its due time in ms) and `bmq-timer-created` (its original timestamp in ms). Its timestamp is the time of
delivery, so that retention counts from there.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from bmq.protocol.batch_records import encode_batch, encode_batch_of
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import BatchHeader, CorruptRecords, assemble_batch
from bmq.records.deliveries import delivered_records
from bmq.records.held_row_layout import ROW_FIELDS
from bmq.records.records_twin import Damage


class DueRecord(NamedTuple):
    """A record to deliver. `offset`: its name. `body`: its bytes from the key's length on.

    `is_cancellation`: it cancels the record with this name and due time instead; `created_ms` and `body` have no meaning then.
    """

    offset: int
    due_ms: int
    created_ms: int
    body: Buffer
    is_cancellation: bool = False


class DeliveryDraft:
    """The records of a delivery, in order. Bodies stay in the buffers ("parts") that they came in, until `batch` copies them.

    `rows`: a row for each record (records/held_row_layout). `part_of`: for each record, the number of the part that has its body.
    `size_bytes`: bytes of all bodies.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.rows = array("q")
        self.part_of = array("q")
        self._parts: list[Buffer] = []
        self._numbers: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """How many records the draft has."""
        return len(self.part_of)

    def number_of(self, key: Hashable, part: Buffer) -> int:
        """The number of the part `key`; an unknown part is added."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._parts)
            self._parts.append(part)
        return number

    def add_record(self, record: DueRecord) -> None:
        """Add a record whose body lies in no part."""
        size_bytes = len(record.body)
        self.rows.extend((record.due_ms, record.offset, record.created_ms, 0, size_bytes))
        self.part_of.append(self.number_of(object(), record.body))
        self.size_bytes += size_bytes

    def records(self) -> list[DueRecord]:
        """The records as objects."""
        found: list[DueRecord] = []
        for place, number in zip(range(0, len(self.rows), ROW_FIELDS), self.part_of, strict=True):
            due_ms, name, created_ms, start, length = self.rows[place : place + ROW_FIELDS]
            found.append(DueRecord(name, due_ms, created_ms, memoryview(self._parts[number])[start : start + length]))
        return found

    def batch(self, now_ms: int) -> bytearray:
        """The delivery as one uncompressed batch; without records it is empty, has one offset and no timestamp.

        Raises CorruptRecords for a body that is not a record's.
        """
        if not self:
            empty = BatchHeader.parse(encode_batch(()))
            return assemble_batch(empty._replace(last_offset_delta=0), b"")
        try:
            body = delivered_records(self.rows, self.part_of, self._parts)
        except (Damage, ValueError) as error:
            raise CorruptRecords(f"a held record: {error}") from error
        return encode_batch_of(body, len(self), now_ms)


def delivered_batch(records: Iterable[DueRecord], now_ms: int) -> bytearray:
    """The batch that delivers these records. Raises CorruptRecords."""
    draft = DeliveryDraft()
    for record in records:
        draft.add_record(record)
    return draft.batch(now_ms)
