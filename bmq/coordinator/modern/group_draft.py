"""A group while a decision on it is made: the records so far, and the group as it will be once they are replayed. Pure.

The group itself changes only when its records are durable and replayed. The later steps of a decision, and later
decisions in the same append, build on the draft. A decision that fails is dropped with its draft.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from struct import error as struct_error
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from bmq.coordinator.classic.group import Group
from bmq.coordinator.modern.cached_responses import CacheableResponse
from bmq.coordinator.modern.member_timers import TimerKind, TimerOrder
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.group_records import GroupMetadataKey
from bmq.protocol.group_records import encode_key as encode_classic_key

EncodedRecord = tuple[bytes, bytes | None]


class DraftedGroup(Protocol):
    """A group that only records change."""

    def apply(self, key: Any, value: Any) -> None:
        """Apply a record; None deletes."""

    def fork(self) -> Self:
        """A copy that can change without changing this group."""

    def tombstones(self) -> Iterator[tuple[Any, Any]]:
        """Records that delete it."""


G = TypeVar("G", bound=DraftedGroup)
K = TypeVar("K")
V = TypeVar("V")


class NotToBeWritten(Exception):
    """A decision wants to write a record where only decisions without records are allowed."""


class GroupDraft(ABC, Generic[G, K, V]):
    """`group`: the group, or None; `classic`: the classic group of this id, or None. Never both.

    `is_taken`: a group of another new protocol has this id. `timers`: timer orders. `is_refreshed`: the decision
    compared the group with the topics. `is_last`: the records delete the group, perhaps for a classic one, so the next
    decision waits until they are durable. `rebalances`: the resulting classic group begins a rebalance. `cacheable`: the
    decision's response, if it may be sent again.
    """

    title: ClassVar[str]
    """Name of this kind of group in messages."""

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
        self.cacheable: CacheableResponse | None = None
        self._record_bytes_max = record_bytes_max
        self._may_write = may_write
        self._is_own = False  # `group` is a fork, or new, so it may be changed

    @abstractmethod
    def encode(self, key: K, value: V | None) -> EncodedRecord:
        """A record's bytes. Raises struct.error for a name that is too long for its format."""

    @property
    def existing(self) -> G:
        """Raises KafkaError GROUP_ID_NOT_FOUND."""
        if self.group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{self.title} {self.group_id} not found.")
        return self.group

    def require_writable(self) -> None:
        """Call before expensive work that ends in a write. Raises NotToBeWritten."""
        if not self._may_write:
            raise NotToBeWritten

    def delete(self) -> None:
        """Delete the group."""
        self.write_all(tuple(self.existing.tombstones()))
        self.is_last = True

    def write(self, key: K, value: V | None) -> None:
        """Add a record and apply it to the draft. Raises KafkaError when a name is too long for a record."""
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
        """Add records that are not about the group itself but belong to the same append: its offsets."""
        self.records += records

    def start(self, kind: TimerKind, member_id: str, timeout_ms: int, epoch: int = -1, *, keeps: bool = False) -> None:
        """Restart a member's timer; `keeps`: leave it alone if it is running."""
        self.timers.append(TimerOrder(kind, member_id, timeout_ms, epoch, keeps))

    def stop(self, kind: TimerKind, member_id: str) -> None:
        self.timers.append(TimerOrder(kind, member_id, None))

    def _take_place(self, group: G) -> None:
        """Put a new group in place of the classic one, if there is one."""
        self.require_writable()
        if self.classic is not None and self.classic.written is not None:
            self.records.append((encode_classic_key(GroupMetadataKey(group=self.group_id)), None))
        self.classic = None
        self.group = group
        self._is_own = True

    def _fits(self, key: bytes, value: bytes | None) -> bool:
        return len(key) + len(value or b"") <= self._record_bytes_max

    def _add(self, key: bytes, value: bytes | None) -> None:
        if not self._fits(key, value):
            size_bytes = len(key) + len(value or b"")
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a group's record of {size_bytes} bytes, {self._record_bytes_max} are allowed",
            )
        self.records.append((key, value))
