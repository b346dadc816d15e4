"""A streams group while a decision on it is made (see bmq/coordinator/modern/group_draft.py)."""

from __future__ import annotations

from typing import ClassVar

from bmq.coordinator.classic.group import Group
from bmq.coordinator.modern.group_draft import EncodedRecord, GroupDraft
from bmq.coordinator.streams.streams_group import StreamsGroup
from bmq.protocol.streams_group_records import StreamsKey, StreamsValue, encode_key, encode_value


class StreamsDraft(GroupDraft[StreamsGroup, StreamsKey, StreamsValue]):
    """A draft of a streams group. `bumps_endpoints`: the partitions that members serve to interactive queries have
    changed.

    `shutdown_by`: the member that asks the whole application to shut down.
    """

    title: ClassVar = "Streams group"

    def __init__(
        self,
        group_id: str,
        group: StreamsGroup | None,
        classic: Group | None,
        record_bytes_max: int,
        *,
        is_taken: bool = False,
        may_write: bool = True,
    ) -> None:
        super().__init__(group_id, group, classic, record_bytes_max, is_taken=is_taken, may_write=may_write)
        self.bumps_endpoints = False
        self.shutdown_by: str | None = None

    def encode(self, key: StreamsKey, value: StreamsValue | None) -> EncodedRecord:
        return encode_key(key), None if value is None else encode_value(value)

    def create(self) -> None:
        """A new streams group, in place of an empty classic one if there is one."""
        self._take_place(StreamsGroup(self.group_id))
