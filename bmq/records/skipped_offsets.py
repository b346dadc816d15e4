"""A control batch that stands for offsets without records, in answers to consumers whose other records a filter left out. Pure.

Clients take the offset behind a batch as their next position, also behind an empty one. But librdkafka (2.16, msgset_reader) takes
an answer without any record, marker or aborted batch for one whose limit of bytes was too small. It doubles that limit each time,
and after some ten such answers of its life the application gets MSG_SIZE_TOO_LARGE. So the batch has a control record of
ours, which clients skip (protocol/control_batch). The record is at the last offset: clients look for nothing below their
position.
"""

from __future__ import annotations

from typing import Final

from bmq.protocol.control_batch import OwnControlType, own_control_key
from bmq.protocol.record_batch import (
    CONTROL,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    BatchHeader,
    assemble_batch,
)
from bmq.records.records_twin import append_varint

_NO_VALUE: Final = -1


def skipped_offsets(base_offset: int, last_offset_delta: int, leader_epoch: int) -> bytearray:
    """The batch for the offsets from `base_offset` to `last_offset_delta` behind it."""
    key = own_control_key(OwnControlType.SKIPPED_OFFSETS)
    body = bytearray(1)  # attributes
    append_varint(body, 0)  # of time
    append_varint(body, last_offset_delta)
    append_varint(body, len(key))
    body += key
    append_varint(body, _NO_VALUE)
    append_varint(body, 0)  # headers
    record = bytearray()
    append_varint(record, len(body))
    return assemble_batch(
        BatchHeader(
            base_offset=base_offset,
            length=0,
            leader_epoch=leader_epoch,
            magic=2,
            crc=0,
            attributes=CONTROL,
            last_offset_delta=last_offset_delta,
            base_timestamp_ms=NO_TIMESTAMP_MS,
            max_timestamp_ms=NO_TIMESTAMP_MS,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=1,
        ),
        record + body,
    )
