"""One member of a consumer group (KIP-848) as a value: its subscription, its partitions, its pending revocations."""

from __future__ import annotations

from dataclasses import field, replace
from enum import IntEnum
from typing import Final

from bmq.coordinator.classic.member import Protocols
from bmq.coordinator.consumer.partition_sets import Owned, Target, owned_of, owned_parts
from bmq.dataclass import dataclass
from bmq.protocol import consumer_group_records as records

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
NO_EPOCH: Final = -1


class MemberState(IntEnum):
    """Numbers as in records. UNKNOWN: written by a server that has more states."""

    STABLE = 0
    """It has what its epoch assigns."""
    UNREVOKED = 1
    """It was asked to revoke partitions and has not confirmed that yet."""
    UNRELEASED = 2
    """It has reached the target's epoch, but other members still have to revoke partitions of its target."""
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        return cls(number) if number in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(map(int, MemberState))


@dataclass(frozen=True, slots=True)
class ClassicTerms:
    """What a classic member joined with; `protocols`: (name, subscription), most preferred first."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """`classic` is None for a member of the new protocol; `topic_regex` is empty for none.

    `assigned` and `pending` (revocation) are the partitions that no other member may have.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicTerms | None = None
    epoch: int = 0
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    pending: Owned = field(default_factory=dict)

    @property
    def has_left_for_a_while(self) -> bool:
        """A static member that left temporarily (epoch -2)."""
        return self.epoch == STATIC_LEAVE_EPOCH

    @property
    def held(self) -> Target:
        """The partitions it has or still has to revoke."""
        return {
            topic_id: frozenset((*self.assigned.get(topic_id, ()), *self.pending.get(topic_id, ())))
            for topic_id in (*self.assigned, *self.pending)
        }

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def has_same_metadata(self, other: ConsumerMember) -> bool:
        """Whether `metadata_value` gives the same record for both."""
        return (
            self.topic_names == other.topic_names
            and self.topic_regex == other.topic_regex
            and self.client_host == other.client_host
            and self.client_id == other.client_id
            and self.rebalance_timeout_ms == other.rebalance_timeout_ms
            and self.instance_id == other.instance_id
            and self.rack_id == other.rack_id
            and self.server_assignor == other.server_assignor
            and self.classic == other.classic
        )

    def metadata_value(self) -> records.MemberValue:
        """Its metadata record: what the member says of itself."""
        classic = None
        if self.classic is not None:
            classic = records.ClassicMember(
                session_timeout_ms=self.classic.session_timeout_ms,
                protocols=tuple(
                    records.ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.classic.protocols
                ),
            )
        return records.MemberValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topic_names=tuple(sorted(self.topic_names)),
            topic_regex=self.topic_regex or None,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic=classic,
        )

    def current_value(self) -> records.CurrentValue:
        """Its current assignment record."""
        return records.CurrentValue(
            epoch=self.epoch,
            previous_epoch=self.previous_epoch,
            state=self.state,
            assigned=owned_parts(self.assigned),
            pending_revocation=owned_parts(self.pending),
        )

    def saying(self, value: records.MemberValue) -> ConsumerMember:
        """The member with the metadata of `value`."""
        stored = value.classic
        classic = None
        if stored is not None:
            classic = ClassicTerms(stored.session_timeout_ms, tuple((p.name, p.metadata) for p in stored.protocols))
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.topic_names),
            topic_regex=value.topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic,
        )

    def having(self, value: records.CurrentValue | None) -> ConsumerMember:
        """The member with the current assignment of `value`; None: as if it had just joined."""
        if value is None:
            value = records.CurrentValue(previous_epoch=NO_EPOCH)
        return replace(
            self,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=MemberState.of(value.state),
            assigned=owned_of(value.assigned, value.epoch),
            pending=owned_of(value.pending_revocation, value.epoch),
        )
