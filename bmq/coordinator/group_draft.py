"""A group while something is decided about it: the records written so far, and the group as they will make it.

The group itself changes when its records are durable and replayed. A decision that takes several steps, and the next
one in the same append, go on from the draft. A decision that fails is dropped with its draft.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from struct import error as struct_error
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from bmq.coordinator.group import Group
from bmq.coordinator.member_timers import TimerKind, TimerOrder
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.group_records import GroupMetadataKey
from bmq.protocol.group_records import encode_key as encode_classic_key

EncodedRecord = tuple[bytes, bytes | None]


class DraftedGroup(Protocol):
    """A group that records alone change."""

    def apply(self, key: Any, value: Any) -> None:
        """Become what a record says; None deletes."""

    def fork(self) -> Self:
        """The same group, to be changed without changing this one."""

    def tombstones(self) -> Iterator[tuple[Any, Any]]:
        """Records that delete it."""


G = TypeVar("G", bound=DraftedGroup)
K = TypeVar("K")
V = TypeVar("V")


class NotToBeWritten(Exception):
    """A decision for which something would have to be written, where only one without is wanted."""


class GroupDraft(ABC, Generic[G, K, V]):
    """`group`: the group, or None; `classic`: the classic group of this id, or None. There is never both.

    `is_taken`: a group of another new protocol has this id. `timers`: what becomes of deadlines. `is_refreshed`: topics
    were looked at. `is_last`: the group is another one once this is durable, so nothing is decided behind it before.
    `rebalances`: the classic group that comes of it begins a rebalance.
    """

    title: ClassVar[str]
    """What such a group is called in messages."""

    def __init__(
        self,
        group_id: str,
        group: G | None,
        classic: Group | None,
        record_bytes_max: int,
        *,
        is_taken: bool = False,
        may_write: bool = True,
    ) -> None:
        self.group_id = group_id
        self.group = group
        self.classic = classic
        self.is_taken = is_taken
        self.records: list[EncodedRecord] = []
        self.timers: list[TimerOrder] = []
        self.is_refreshed = False
        self.is_last = False
        self.rebalances = False
        self._record_bytes_max = record_bytes_max
        self._may_write = may_write
        self._is_own = False  # `group` is a fork, or new

    @abstractmethod
    def encode(self, key: K, value: V | None) -> EncodedRecord:
        """A record's bytes. Raises struct.error for a name too long for its format."""

    @property
    def existing(self) -> G:
        """Raises KafkaError GROUP_ID_NOT_FOUND."""
        if self.group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{self.title} {self.group_id} not found.")
        return self.group

    def require_writable(self) -> None:
        """To be called before what is expensive and written in the end. Raises NotToBeWritten."""
        if not self._may_write:
            raise NotToBeWritten

    def delete(self) -> None:
        """The group is no more."""
        self.write_all(tuple(self.existing.tombstones()))
        self.is_last = True

    def write(self, key: K, value: V | None) -> None:
        """Raises KafkaError when names are too long for a record."""
        self.require_writable()
        try:
            self._add(*self.encode(key, value))
        except struct_error as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a name too long for a record: {error}") from error
        group = self.existing
        if not self._is_own:
            group = self.group = group.fork()
            self._is_own = True
        group.apply(key, value)

    def write_all(self, records: Iterable[tuple[K, V | None]]) -> None:
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

    def _take_place(self, group: G) -> None:
        """A new group, in place of the classic one if there is one."""
        self.require_writable()
        if self.classic is not None and self.classic.written is not None:
            self.records.append((encode_classic_key(GroupMetadataKey(group=self.group_id)), None))
        self.classic = None
        self.group = group
        self._is_own = True

    def _add(self, key: bytes, value: bytes | None) -> None:
        size_bytes = len(key) + len(value or b"")
        if size_bytes > self._record_bytes_max:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a group's record of {size_bytes} bytes, {self._record_bytes_max} are allowed",
            )
        self.records.append((key, value))
