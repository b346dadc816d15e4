"""A group while something is decided about it: the records written so far, and the group as they will make it.

The group itself changes when its records are durable and replayed. A decision that takes several steps, and the next
one in the same append, go on from the draft. A decision that fails is dropped with its draft.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import error as struct_error
from typing import Final

from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer.timers import TimerKind, TimerOrder
from bmq.coordinator.group import Group
from bmq.protocol.consumer_group_records import (
    ConsumerKey,
    ConsumerRecord,
    ConsumerValue,
    EpochKey,
    EpochValue,
    TargetEpochKey,
    TargetEpochValue,
    encode_key,
    encode_value,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.group_records import GroupMetadataKey, GroupMetadataValue
from bmq.protocol.group_records import encode_key as encode_classic_key
from bmq.protocol.group_records import encode_value as encode_classic_value

EncodedRecord = tuple[bytes, bytes | None]

FIRST_EPOCH: Final = 1
"""Of a group that nobody has subscribed anything in."""


class NotToBeWritten(Exception):
    """A decision for which something would have to be written, where only one without is wanted."""


class Draft:
    """`group`: the consumer group, or None; `classic`: the classic group of this id, or None. There is never both.

    `timers`: what becomes of members' deadlines. `is_refreshed`: topics were looked at. `is_last`: the group is another
    one once this is durable, so nothing is decided behind it before. `rebalances`: the classic group that comes of it
    begins a rebalance.
    """

    def __init__(
        self,
        group_id: str,
        group: ConsumerGroup | None,
        classic: Group | None,
        record_bytes_max: int,
        *,
        may_write: bool = True,
    ) -> None:
        self.group_id = group_id
        self.group = group
        self.classic = classic
        self.records: list[EncodedRecord] = []
        self.timers: list[TimerOrder] = []
        self.is_refreshed = False
        self.is_last = False
        self.rebalances = False
        self._record_bytes_max = record_bytes_max
        self._may_write = may_write
        self._is_own = False  # `group` is a fork, or new

    @property
    def existing(self) -> ConsumerGroup:
        """Raises KafkaError GROUP_ID_NOT_FOUND."""
        if self.group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {self.group_id} not found.")
        return self.group

    def require_writable(self) -> None:
        """To be called before what is expensive and written in the end. Raises NotToBeWritten."""
        if not self._may_write:
            raise NotToBeWritten

    def create(self) -> None:
        """A new consumer group, in place of an empty classic one if there is one."""
        self._drop_classic()
        self.group = ConsumerGroup(self.group_id)
        self._is_own = True
        self.write(EpochKey(group=self.group_id), EpochValue(epoch=FIRST_EPOCH))
        self.write(TargetEpochKey(group=self.group_id), TargetEpochValue(epoch=FIRST_EPOCH))

    def become(self, group: ConsumerGroup) -> None:
        """A consumer group in place of the classic one."""
        self._drop_classic()
        self.group = ConsumerGroup(self.group_id)
        self._is_own = True
        for key, value in group.as_records():
            self.write(key, value)

    def become_classic(self, value: GroupMetadataValue, *, rebalances: bool) -> None:
        """A classic group in place of the consumer group."""
        self.delete()
        self._add(encode_classic_key(GroupMetadataKey(group=self.group_id)), encode_classic_value(value))
        self.rebalances = rebalances

    def delete(self) -> None:
        """The consumer group is no more."""
        self.write_all(tuple(self.existing.tombstones()))
        self.is_last = True

    def write(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Raises KafkaError when names are too long for a record."""
        self.require_writable()
        try:
            self._add(encode_key(key), None if value is None else encode_value(value))
        except struct_error as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a name too long for a record: {error}") from error
        group = self.existing
        if not self._is_own:
            group = self.group = group.fork()
            self._is_own = True
        group.apply(key, value)

    def write_all(self, records: Iterable[ConsumerRecord]) -> None:
        for key, value in records:
            self.write(key, value)

    def add_encoded(self, records: Iterable[EncodedRecord]) -> None:
        """Records of the same append that are not about the group itself: its offsets."""
        self.records += records

    def start(self, kind: TimerKind, member_id: str, timeout_ms: int, epoch: int = -1, *, keeps: bool = False) -> None:
        """A member's timer begins anew; `keeps`: unless it runs."""
        self.timers.append(TimerOrder(kind, member_id, timeout_ms, epoch, keeps))

    def stop(self, kind: TimerKind, member_id: str) -> None:
        self.timers.append(TimerOrder(kind, member_id, None))

    def _drop_classic(self) -> None:
        self.require_writable()
        if self.classic is not None and self.classic.written is not None:
            self.records.append((encode_classic_key(GroupMetadataKey(group=self.group_id)), None))
        self.classic = None

    def _add(self, key: bytes, value: bytes | None) -> None:
        size_bytes = len(key) + len(value or b"")
        if size_bytes > self._record_bytes_max:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a group's record of {size_bytes} bytes, {self._record_bytes_max} are allowed",
            )
        self.records.append((key, value))
