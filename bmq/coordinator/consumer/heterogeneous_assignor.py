"""The uniform assignment of a group whose members are subscribed to different topics. Decisions only.

Members keep the partitions they have and still subscribe to. Free partitions go, topic by topic, to the least loaded
subscriber; then partitions move from the most to the least loaded subscriber of each topic, until no move makes it more
even or `PASSES_MAX` rounds over all topics are done. Source: KAFKA-16568 (UniformHeterogeneousAssignmentBuilder).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from bmq.coordinator.consumer.partition_sets import Target

PASSES_MAX: Final = 16
"""Where subscriptions overlap but differ, each round about halves the imbalance."""
_NOBODY: Final = -1


def assign_heterogeneous(
    members: Sequence[tuple[str, frozenset[UUID], Target]], partition_counts: Mapping[UUID, int]
) -> dict[str, Target]:
    """`members`: (id, subscribed topics, last target); their order breaks ties."""
    table = _Table(members, partition_counts)
    table.assign_free()
    table.balance()
    return table.targets()


class _Table:
    """The owner of each partition, as the member's index."""

    def __init__(
        self, members: Sequence[tuple[str, frozenset[UUID], Target]], partition_counts: Mapping[UUID, int]
    ) -> None:
        self._member_ids = [member_id for member_id, _, _ in members]
        self._loads = [0] * len(members)
        self._subscribers: dict[UUID, list[int]] = {}
        for place, (_, topics, _) in enumerate(members):
            for topic_id in topics:
                self._subscribers.setdefault(topic_id, []).append(place)
        self._owners = {topic_id: [_NOBODY] * partition_counts[topic_id] for topic_id in self._subscribers}
        for place, (_, topics, target) in enumerate(members):
            for topic_id in topics & target.keys():
                owners = self._owners[topic_id]
                for partition in target[topic_id]:
                    if 0 <= partition < len(owners) and owners[partition] == _NOBODY:
                        owners[partition] = place
                        self._loads[place] += 1
        # Topics with the most partitions per subscriber first: they leave the fewest choices.
        self._topics = sorted(
            self._owners,
            key=lambda topic_id: (
                -len(self._owners[topic_id]) / len(self._subscribers[topic_id]),
                len(self._subscribers[topic_id]),
                topic_id.bytes,
            ),
        )

    def assign_free(self) -> None:
        for topic_id in self._topics:
            owners = self._owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            if free:
                least = _by_load(self._loads, self._subscribers[topic_id])
                for partition in free:
                    _, place = least[0]
                    owners[partition] = place
                    self._loads[place] += 1
                    heapq.heapreplace(least, (self._loads[place], place))

    def balance(self) -> None:
        topics = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        quiet = 0
        for _ in range(PASSES_MAX):
            for topic_id in topics:
                quiet = 0 if self._balance_topic(topic_id) else quiet + 1
                if quiet >= len(topics):
                    return

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Returns whether anything moved."""
        loads, owners, places = self._loads, self._owners[topic_id], self._subscribers[topic_id]
        if max(loads[place] for place in places) - min(loads[place] for place in places) <= 1:
            return False
        partitions: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            partitions.setdefault(owner, []).append(partition)
        # A member that takes a partition has fewer than any that still gives one away, so it never gives in this pass.
        most = [(-loads[place], -place) for place in partitions]
        heapq.heapify(most)
        least = _by_load(loads, places)
        has_moved = False
        while most:
            giver, taker = -most[0][1], least[0][1]
            if loads[taker] != least[0][0]:  # its load has changed since it was queued
                heapq.heapreplace(least, (loads[taker], taker))
                continue
            if loads[giver] - loads[taker] <= 1:
                break
            owners[partitions[giver].pop()] = taker
            loads[giver] -= 1
            loads[taker] += 1
            has_moved = True
            heapq.heapreplace(least, (loads[taker], taker))
            if partitions[giver]:
                heapq.heapreplace(most, (-loads[giver], -giver))
            else:
                heapq.heappop(most)
        return has_moved

    def targets(self) -> dict[str, Target]:
        targets: list[dict[UUID, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                targets[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in target.items()}
            for member_id, target in zip(self._member_ids, targets, strict=True)
        }


def _by_load(loads: Sequence[int], places: Iterable[int]) -> list[tuple[int, int]]:
    heap = [(loads[place], place) for place in places]
    heapq.heapify(heap)
    return heap
