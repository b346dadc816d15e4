"""A share group while a decision on it is made (see bmq/coordinator/modern/group_draft.py). Decisions only."""

from __future__ import annotations

from typing import ClassVar, Final

from bmq.coordinator.modern.group_draft import EncodedRecord, GroupDraft
from bmq.coordinator.share_membership.share_group import ShareGroup, StatePartitions
from bmq.protocol.share_group_records import (
    EpochKey,
    EpochValue,
    ShareKey,
    ShareValue,
    StatePartitionsKey,
    TargetEpochKey,
    TargetEpochValue,
    encode_key,
    encode_value,
)

FIRST_EPOCH: Final = 1
"""Epoch of a group before its first member."""


class ShareDraft(GroupDraft[ShareGroup, ShareKey, ShareValue]):
    """A draft of a share group."""

    title: ClassVar = "Share group"

    def encode(self, key: ShareKey, value: ShareValue | None) -> EncodedRecord:
        return encode_key(key), None if value is None else encode_value(value)

    def create(self) -> None:
        """A new share group. A group of another type is never converted, not even an empty one."""
        self._take_place(ShareGroup(self.group_id))
        self.write(EpochKey(group=self.group_id), EpochValue(epoch=FIRST_EPOCH))
        self.write(TargetEpochKey(group=self.group_id), TargetEpochValue(epoch=FIRST_EPOCH))

    def write_states(self, states: StatePartitions) -> None:
        """Write which share partitions have state."""
        self.write(StatePartitionsKey(group=self.group_id), states.record())
