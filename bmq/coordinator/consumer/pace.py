"""Heartbeat intervals while a group is not settled. Decisions only (KIP-848).

A member does each step of a rebalance in a heartbeat, and so do the members that wait for its revoked partitions.
Clients follow the interval in each answer, so an unsettled group gets a shorter one and settles within seconds instead
of a few usual intervals.
"""

from __future__ import annotations

from bmq.coordinator.config import ConsumerConfig, GroupTerms
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.runtime.moment import Moment


def is_settled(group: ConsumerGroup, member_id: str, terms: GroupTerms, now: Moment) -> bool:
    """Whether the group will not change before the member's next usual heartbeat, as far as we can tell.

    A target younger than one interval does not count: the first member gets all partitions while the others are still
    joining.
    """
    since_ms = now.wall_ms - group.target_timestamp_ms
    return (
        group.epoch == group.target_epoch
        and group.members[member_id].is_reconciled_to(group.target_epoch)
        and not 0 <= since_ms < terms.heartbeat_interval_ms
        and group.subscribed_regexes <= group.regexes.keys()
    )


class HeartbeatPace:
    """Limits the heartbeats of all members in unsettled groups to a rate per second, over all groups.

    Each heartbeat gets its own time slot, so with more members the interval grows, up to the usual one.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._least_ms = config.unsettled_heartbeat_interval_ms
        self._gap_ms = 1_000 / config.unsettled_heartbeats_per_s_max
        self._free_ms = 0.0  # the earliest free slot, on the event loop's clock

    def interval_ms(self, usual_ms: int, loop_ms: float) -> int:
        """For a member whose group is not settled; `usual_ms` at most."""
        at_ms = max(loop_ms + self._least_ms, self._free_ms)
        if at_ms >= loop_ms + usual_ms:
            return usual_ms
        self._free_ms = at_ms + self._gap_ms
        return round(at_ms - loop_ms)
