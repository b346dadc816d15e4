"""A consumer group while a decision on it is made (see group_draft.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.modern.group_draft import EncodedRecord, GroupDraft
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
"""Epoch of a group before its first subscription."""


class Draft(GroupDraft[ConsumerGroup, ConsumerKey, ConsumerValue]):
    """A draft of a consumer group."""

    title: ClassVar = "Consumer group"

    def encode(self, key: ConsumerKey, value: ConsumerValue | None) -> EncodedRecord:
        return encode_key(key), None if value is None else encode_value(value)

    def create(self) -> None:
        """A new consumer group, in place of an empty classic one if there is one."""
        self._take_place(ConsumerGroup(self.group_id))
        self.write(EpochKey(group=self.group_id), EpochValue(epoch=FIRST_EPOCH))
        self.write(TargetEpochKey(group=self.group_id), TargetEpochValue(epoch=FIRST_EPOCH))

    def become(self, group: ConsumerGroup) -> None:
        """Replace the classic group by this consumer group."""
        self._take_place(ConsumerGroup(self.group_id))
        for key, value in group.as_records():
            self.write(key, value)

    def become_classic(self, value: GroupMetadataValue, *, rebalances: bool) -> bool:
        """Replace the consumer group by a classic one; False: it stays, as the record of all its members is too large.

        Else a member that has left or expired could never be removed. A record without a leader tells the next owner, too,
        that the group has to rebalance.
        """
        if rebalances:
            value = replace(value, leader=None)
        record = encode_classic_key(GroupMetadataKey(group=self.group_id)), encode_classic_value(value)
        if not self._fits(*record):
            return False
        self.delete()
        self._add(*record)
        self.rebalances = rebalances
        return True
