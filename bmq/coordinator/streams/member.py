"""One member of a streams group (KIP-1071) as a value: its metadata, its tasks, its pending revocations."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Final

from bmq.coordinator.streams.tasks import NOTHING_HELD, HeldTasks, assigned_of, current_value, pending_of
from bmq.dataclass import dataclass
from bmq.protocol import streams_group_records as records
from bmq.protocol.streams_group_records import Endpoint

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member leaves temporarily."""
NO_EPOCH: Final = -1


class MemberState(IntEnum):
    """Numbers as in records. UNKNOWN: written by a server that has more states."""

    STABLE = 1
    """It has what its epoch assigns."""
    UNREVOKED = 2
    """It was asked to revoke tasks and has not confirmed that yet."""
    UNRELEASED = 3
    """It has reached the target's epoch, but other members still have to revoke tasks of its target."""
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        return cls(number) if number in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(map(int, MemberState))


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """`process_id`: members of one process share its state on disk. `client_tags`: (key, value), in order.

    `tasks` and `pending` (revocation) are the tasks that no other member may have.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    epoch: int = 0
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    tasks: HeldTasks = NOTHING_HELD
    pending: HeldTasks = NOTHING_HELD

    @property
    def has_left_for_a_while(self) -> bool:
        """A static member that left temporarily (epoch -2)."""
        return self.epoch == STATIC_LEAVE_EPOCH

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def metadata_value(self) -> records.MemberValue:
        """Its metadata record: what the member says of itself."""
        return records.MemberValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=self.user_endpoint,
            client_tags=tuple(records.KeyValue(key=key, value=value) for key, value in self.client_tags),
        )

    def current_value(self) -> records.CurrentValue:
        """Its current assignment record."""
        return current_value(self.epoch, self.previous_epoch, self.state, self.tasks, self.pending)

    def saying(self, value: records.MemberValue) -> StreamsMember:
        """The member with the metadata of `value`."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=value.user_endpoint,
            client_tags=tuple((tag.key, tag.value) for tag in value.client_tags),
        )

    def having(self, value: records.CurrentValue | None) -> StreamsMember:
        """The member with the current assignment of `value`; None: as if it had just joined."""
        if value is None:
            value = records.CurrentValue(previous_epoch=NO_EPOCH)
        return replace(
            self,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=MemberState.of(value.state),
            tasks=assigned_of(value),
            pending=pending_of(value),
        )
