"""A member of a share group: immutable. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Final
from uuid import UUID

from bmq.coordinator.share_membership.assignor import Target
from bmq.dataclass import dataclass
from bmq.protocol import share_group_records as records
from bmq.protocol.share_group_records import TopicPartitions

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
NOTHING: Final[Target] = {}


@dataclass(frozen=True, slots=True)
class ShareMember:
    """`assigned`: what the member has; it takes a new target at once, as others may have the same partitions."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Target = field(default_factory=dict)

    @property
    def instance_id(self) -> None:
        """Share groups have no static members."""
        return None

    def metadata_value(self) -> records.MemberValue:
        """Its metadata record."""
        return records.MemberValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topic_names)),
        )

    def current_value(self) -> records.CurrentValue:
        """Its current assignment record."""
        return records.CurrentValue(
            epoch=self.epoch, previous_epoch=self.previous_epoch, assigned_partitions=parts_of(self.assigned)
        )

    def saying(self, value: records.MemberValue) -> ShareMember:
        """The member with the metadata of `value`."""
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def having(self, value: records.CurrentValue | None) -> ShareMember:
        """The member with the current assignment of `value`; None: as if it had just joined."""
        if value is None:
            return replace(self, epoch=0, previous_epoch=-1, assigned=NOTHING)
        return replace(
            self,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            assigned=target_of(value.assigned_partitions),
        )


def target_of(parts: Iterable[TopicPartitions]) -> Target:
    """From a record."""
    return {part.topic_id: frozenset(part.partitions) for part in parts if part.topic_id and part.partitions}


def parts_of(target: Target) -> tuple[TopicPartitions, ...]:
    """For a record: in the order of topic ids, so that the same target always makes the same bytes."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(target[topic_id])))
        for topic_id in sorted(target, key=_bytes_of)
    )


def _bytes_of(topic_id: UUID) -> bytes:
    return topic_id.bytes
