"""The common part of consumer, share and streams groups (KIP-848, KIP-1071): epochs, members, and each member's target. Pure.

`apply` takes records in any order, also of deleted members and groups: the state of a key is its last record, so a log
that was compacted, or is loaded from the middle, gives the same group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from bmq.protocol.record_types import (
    CurrentKey,
    EpochKey,
    MemberKey,
    RecordTypes,
    TargetEpochKey,
    TargetEpochValue,
    TargetKey,
)

FIRST_TARGET_EPOCH: Final = 1
"""Epoch of the empty target that a group begins with, as in Kafka."""
AT_ONCE_MS: Final = 0
"""Timestamp of a target that the next one may follow without waiting for the assignment interval."""


class Member(Protocol):
    """Immutable."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    def saying(self, value: Any) -> Self:
        """The member with the metadata of a record."""

    def having(self, value: Any) -> Self:
        """The member with the current assignment of a record; None: as if it had just joined."""

    def metadata_value(self) -> Any: ...
    def current_value(self) -> Any: ...


M = TypeVar("M", bound=Member)
T = TypeVar("T")
"""A member's target."""


class ModernGroup(ABC, Generic[M, T]):
    """Everything its records say; only `apply` changes it. `epoch` is 0 while the group has no record of its own."""

    record_types: ClassVar[RecordTypes[Any, Any]]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = FIRST_TARGET_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        self.static_ids: dict[str, str] = {}  # group instance id -> member id
        self._loose: dict[str, Any] = {}  # current assignments of members whose metadata record has not come yet

    @property
    def exists(self) -> bool:
        """Whether the group has its own record, not only records of members."""
        return self.epoch > 0

    def static_member(self, instance_id: str | None) -> M | None:
        """The member that has this instance id now."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_target_due(self, now_ms: int, interval_ms: int) -> bool:
        """Whether the target is older than the group's epoch, and the assignment interval has passed since.

        A clock that went back delays no target.
        """
        is_young = self.target_timestamp_ms != AT_ONCE_MS and 0 <= now_ms - self.target_timestamp_ms < interval_ms
        return self.epoch > self.target_epoch and not is_young

    # ---------------------------------------------------------------- its offsets

    @property
    def may_expire_offsets(self) -> bool:
        return True

    @property
    def empty_since_ms(self) -> int | None:
        """None: retention of its offsets counts from each commit, not from when the group became empty."""
        return None

    # ---------------------------------------------------------------- the log

    def apply(self, key: Any, value: Any) -> None:
        """Apply a record; None deletes."""
        match key:
            case TargetEpochKey():
                value = value or TargetEpochValue()
                # Earlier releases have 0 in snapshots of groups that had no target yet.
                self.target_epoch = max(value.epoch, FIRST_TARGET_EPOCH)
                self.target_timestamp_ms = value.timestamp_ms
            case MemberKey(member_id=member_id) if value is not None:
                member = self.members.get(member_id)
                if member is None:
                    member = self._new_member(member_id).having(self._loose.pop(member_id, None))
                self._put(member.saying(value))
            case MemberKey(member_id=member_id):
                self._remove(member_id)
            case CurrentKey(member_id=member_id):
                self._set_current(member_id, value)
            case TargetKey(member_id=member_id) if value is not None:
                self.targets[member_id] = self._target_of_record(value)
            case TargetKey(member_id=member_id):
                self.targets.pop(member_id, None)

    def as_records(self) -> Iterator[tuple[Any, Any]]:
        """Records that restore this group."""
        group = self.group_id
        for member in self.members.values():
            yield MemberKey(group=group, member_id=member.member_id), member.metadata_value()
        yield from self._own_records()
        for member_id, target in self.targets.items():
            yield TargetKey(group=group, member_id=member_id), self._record_of_target(target)
        target_epoch = TargetEpochValue(epoch=self.target_epoch, timestamp_ms=self.target_timestamp_ms)
        yield TargetEpochKey(group=group), target_epoch
        for member in self.members.values():
            yield CurrentKey(group=group, member_id=member.member_id), member.current_value()

    def encoded_records(self) -> Iterator[tuple[bytes, bytes]]:
        types = self.record_types
        for key, value in self.as_records():
            yield types.encode_key(key), types.encode_value(value)

    def tombstones(self) -> Iterator[tuple[Any, None]]:
        """Records that delete it, in Kafka's order."""
        group = self.group_id
        for member_id in self.members:
            yield CurrentKey(group=group, member_id=member_id), None
        for member_id in self.targets:
            yield TargetKey(group=group, member_id=member_id), None
        yield TargetEpochKey(group=group), None
        for member_id in self.members:
            yield MemberKey(group=group, member_id=member_id), None
        for key in self._own_keys():
            yield key, None
        yield EpochKey(group=group), None

    def drop_leftovers(self) -> None:
        """Call once all records were replayed: drop what belongs to members that are gone."""
        self._loose.clear()
        self.targets = {member_id: target for member_id, target in self.targets.items() if member_id in self.members}

    def fork(self) -> Self:
        """A copy that can change without changing this group."""
        fork = type(self)(self.group_id)
        fork.epoch, fork.metadata_hash = self.epoch, self.metadata_hash
        fork.target_epoch, fork.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        fork.members = self.members.copy()
        fork.targets = self.targets.copy()
        fork.static_ids = self.static_ids.copy()
        fork._loose = self._loose.copy()  # noqa: SLF001 of the same class
        return fork

    # ---------------------------------------------------------------- inside

    @abstractmethod
    def _new_member(self, member_id: str) -> M: ...

    @abstractmethod
    def _target_of_record(self, value: Any) -> T: ...

    @abstractmethod
    def _record_of_target(self, target: T) -> Any: ...

    @abstractmethod
    def _own_records(self) -> Iterator[tuple[Any, Any]]:
        """The record of the group's epoch, and those that only this kind of group has."""

    @abstractmethod
    def _own_keys(self) -> Iterator[Any]:
        """Keys of the records that only this kind of group has."""

    def _set_current(self, member_id: str, value: Any) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._put(member.having(value))
        elif value is None:
            self._loose.pop(member_id, None)
        else:
            self._loose[member_id] = value

    def _put(self, member: M) -> None:
        self._forget_instance(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        self._forget_instance(self.members.pop(member_id, None))

    def _forget_instance(self, member: M | None) -> None:
        instance_id = None if member is None else member.instance_id
        if member is not None and instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]
