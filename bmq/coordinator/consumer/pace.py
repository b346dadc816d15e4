"""How soon members heartbeat again while their group is not settled. Decisions only (KIP-848).

A member does each step of a rebalance in a heartbeat, and so does whoever waits for what it gives back. Clients obey the
interval that each answer names, so a group that is not settled is told a shorter one, and settles in seconds instead of
in a few of its usual intervals.
"""

from __future__ import annotations

from bmq.coordinator.config import ConsumerConfig, GroupTerms
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.effects import Moment


def is_settled(group: ConsumerGroup, member_id: str, terms: GroupTerms, now: Moment) -> bool:
    """Whether nothing is to be expected of the group before the member's next usual heartbeat.

    A target younger than an interval is not believed: who joins first gets all there is, and the others are on their way.
    """
    since_ms = now.wall_ms - group.target_timestamp_ms
    return (
        group.epoch == group.target_epoch
        and group.members[member_id].is_reconciled_to(group.target_epoch)
        and not 0 <= since_ms < terms.heartbeat_interval_ms
        and group.subscribed_regexes <= group.regexes.keys()
    )


class HeartbeatPace:
    """The heartbeats ahead of all members in groups that are not settled, however many groups: at most so many a second.

    Each is given a place of its own in time, so the interval grows with those who want one, up to the usual one.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._least_ms = config.unsettled_heartbeat_interval_ms
        self._gap_ms = 1_000 / config.unsettled_heartbeats_per_s_max
        self._free_ms = 0.0  # no place before is free, on the event loop's clock

    def interval_ms(self, usual_ms: int, loop_ms: float) -> int:
        """For a member whose group is not settled; `usual_ms` at most."""
        at_ms = max(loop_ms + self._least_ms, self._free_ms)
        if at_ms >= loop_ms + usual_ms:
            return usual_ms
        self._free_ms = at_ms + self._gap_ms
        return round(at_ms - loop_ms)
