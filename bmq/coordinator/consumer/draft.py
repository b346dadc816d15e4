"""A consumer group while something is decided about it (see group_draft.py)."""

from __future__ import annotations

from typing import ClassVar, Final

from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.group_draft import EncodedRecord, GroupDraft
from bmq.protocol.consumer_group_records import (
    ConsumerKey,
    ConsumerValue,
    EpochKey,
    EpochValue,
    TargetEpochKey,
    TargetEpochValue,
    encode_key,
    encode_value,
)
from bmq.protocol.group_records import GroupMetadataKey, GroupMetadataValue
from bmq.protocol.group_records import encode_key as encode_classic_key
from bmq.protocol.group_records import encode_value as encode_classic_value

FIRST_EPOCH: Final = 1
"""Of a group that nobody has subscribed anything in."""


class Draft(GroupDraft[ConsumerGroup, ConsumerKey, ConsumerValue]):
    """Of a consumer group."""

    title: ClassVar = "Consumer group"

    def encode(self, key: ConsumerKey, value: ConsumerValue | None) -> EncodedRecord:
        return encode_key(key), None if value is None else encode_value(value)

    def create(self) -> None:
        """A new consumer group, in place of an empty classic one if there is one."""
        self._take_place(ConsumerGroup(self.group_id))
        self.write(EpochKey(group=self.group_id), EpochValue(epoch=FIRST_EPOCH))
        self.write(TargetEpochKey(group=self.group_id), TargetEpochValue(epoch=FIRST_EPOCH))

    def become(self, group: ConsumerGroup) -> None:
        """A consumer group in place of the classic one."""
        self._take_place(ConsumerGroup(self.group_id))
        for key, value in group.as_records():
            self.write(key, value)

    def become_classic(self, value: GroupMetadataValue, *, rebalances: bool) -> None:
        """A classic group in place of the consumer group."""
        self.delete()
        self._add(encode_classic_key(GroupMetadataKey(group=self.group_id)), encode_classic_value(value))
        self.rebalances = rebalances
