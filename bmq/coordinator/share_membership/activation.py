"""The active members of a share group's partitions, and which of them the shards of the state know. Decisions only.

In a group that is exclusive, or has a failover subscription, one member alone may acquire records of a partition. Fetches
do not ask the group, so the shard of the partition's state knows the member: it is told before the member's heartbeat is
answered. A member that has lost a partition gets no more records from then on; what it has locked stays locked.

A shard is told again with each target of the group, whoever it names: the epochs of what it is told rise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from bmq.coordinator.share_membership.assignor import Place, Target

NO_EPOCH = -1


class Activation:
    """How far one group's active members are named. Kept in this process: after a failover all shards are told again."""

    __slots__ = ("_epoch", "_is_complete", "_named")

    def __init__(self) -> None:
        self._epoch = NO_EPOCH
        self._is_complete = False
        self._named: set[Place] = set()  # also those that are being told

    def begin(self, epoch: int, targets: Mapping[str, Target]) -> Mapping[Place, str]:
        """Members by place that have to be told at this epoch of the target; each is returned once, until it failed."""
        if epoch != self._epoch:
            self._epoch, self._is_complete, self._named = epoch, False, set()
        if self._is_complete:
            return {}
        missing = {place: member for place, member in _places(targets) if place not in self._named}
        self._named.update(missing)
        self._is_complete = True
        return missing

    def has_begun(self, epoch: int) -> bool:
        """Whether `begin` has nothing to tell at this epoch of the target."""
        return epoch == self._epoch and self._is_complete

    def failed(self, epoch: int, places: Iterable[tuple[UUID, int]]) -> None:
        """These shards were not reached; tell them again."""
        if epoch == self._epoch:
            self._named.difference_update(places)
            self._is_complete = False


def _places(targets: Mapping[str, Target]) -> Iterable[tuple[Place, str]]:
    for member_id, target in targets.items():
        for topic_id, partitions in target.items():
            for number in partitions:
                yield (topic_id, number), member_id
