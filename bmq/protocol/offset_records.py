"""Records of committed offsets in a batch, written from templates in which only the numbers change.

The same bytes as from group_records.py and record_batch.py, for offsets without metadata and expiry of their own. One
struct call writes all partitions that a group commits in a topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Final
from uuid import UUID

from bmq.protocol.batch_records import Record, encode_records, varint_bytes
from bmq.protocol.group_records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value

_DELTAS_OF_ONE_BYTE: Final = 64
_DELTAS_OF_TWO_BYTES: Final = 8_192
_FIELDS: Final = 8  # of one record in the template
_LAYOUTS_MAX: Final = 1_024
_VALUE: Final = Struct(">hqiBq")
_VALUE_HEAD_BYTES: Final = 2  # the version


class OffsetRecords:
    """A group's offsets in these partitions of a topic. Raises struct.error for a name too long for Kafka's format.

    `size_bytes`: of all keys and values.
    """

    def __init__(self, group: str, topic: str, topic_id: UUID, indexes: Sequence[int]) -> None:
        self.count = len(indexes)
        self._topic_id = topic_id
        self._keys = [encode_key(OffsetCommitKey(group, topic, index)) for index in indexes]
        self._value = self._value_of(0, 0, 0)
        self.size_bytes = sum(map(len, self._keys)) + self.count * len(self._value)
        self._templates: dict[int, tuple[Struct, list[Any]]] = {}  # by the number of bytes of an offset delta

    def encoded(
        self,
        first_delta: int,
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        commit_timestamp_ms: int,
    ) -> bytes | bytearray:
        """The records, without timestamps of their own; the first one has this offset delta in the batch.

        One number for each partition, in their order.
        """
        end = first_delta + self.count
        if end <= _DELTAS_OF_ONE_BYTE:
            layout, fields = self._template(1)
        elif first_delta >= _DELTAS_OF_ONE_BYTE and end <= _DELTAS_OF_TWO_BYTES:
            layout, fields = self._template(2)
        else:  # once in a batch, or in one of very many records
            records = [
                Record(key, self._value_of(offset, leader_epoch, commit_timestamp_ms))
                for key, offset, leader_epoch in zip(self._keys, offsets, leader_epochs, strict=True)
            ]
            return encode_records(records, first_delta)
        fields[1::_FIELDS] = _deltas()[first_delta:end]
        fields[3::_FIELDS] = offsets
        fields[4::_FIELDS] = leader_epochs
        fields[6::_FIELDS] = [commit_timestamp_ms] * self.count
        return layout.pack(*fields)

    def _value_of(self, offset: int, leader_epoch: int, commit_timestamp_ms: int) -> bytes:
        value = OffsetCommitValue(
            offset, leader_epoch, commit_timestamp_ms=commit_timestamp_ms, topic_id=self._topic_id
        )
        return encode_value(value)

    def _template(self, delta_bytes: int) -> tuple[Struct, list[Any]]:
        """The fields of a record: its length, attributes and time; offset delta; key and value up to the offset; the
        offset; its leader epoch; the metadata's length; the time of the commit; the value's rest and the headers' number.
        """
        template = self._templates.get(delta_bytes)
        if template is not None:
            return template
        value = self._value
        fields: list[Any] = []
        for key in self._keys:
            middle = varint_bytes(len(key)) + key + varint_bytes(len(value)) + value[:_VALUE_HEAD_BYTES]
            rest = value[_VALUE.size :] + b"\0"
            length = 2 + delta_bytes + len(middle) + _VALUE.size - _VALUE_HEAD_BYTES + len(rest)
            fields += (varint_bytes(length) + b"\0\0", b"", middle, 0, 0, 1, 0, rest)
        # The keys of one group and topic have the same length.
        layout = _layout(len(fields[0]), delta_bytes, len(fields[2]), len(fields[7]), self.count)
        template = self._templates[delta_bytes] = (layout, fields)
        return template


@lru_cache(maxsize=_LAYOUTS_MAX)
def _layout(head_bytes: int, delta_bytes: int, middle_bytes: int, rest_bytes: int, count: int) -> Struct:
    return Struct(">" + f"{head_bytes}s{delta_bytes}s{middle_bytes}sqiBq{rest_bytes}s" * count)


@cache
def _deltas() -> list[bytes]:
    return [varint_bytes(delta) for delta in range(_DELTAS_OF_TWO_BYTES)]
