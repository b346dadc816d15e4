"""CPU of a share member's heartbeat that changes nothing: `python -m bench.micro_share_heartbeats MEMBERS PARTITIONS`.

One group whose members share one topic. The decision alone is measured: no socket, no log.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from bmq.coordinator.config import ShareConfig
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_membership.draft import ShareDraft
from bmq.coordinator.share_membership.heartbeat import Beat, ShareContext, heartbeat, initialized
from bmq.coordinator.share_membership.share_group import ShareGroup, StateTopic
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.share_group_records import RECORD_TYPES

BEATS: Final = 5_000
TOPIC_ID: Final = UUID(int=1)
LIMIT_BYTES: Final = 1_048_588


@dataclass
class OneTopic:
    name: str
    topic_id: UUID
    partitions: tuple[int, ...]
    view: None = None


@dataclass
class Image:
    topics: Mapping[str, Any]
    topics_by_id: Mapping[UUID, Any] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    offset: int = 1


def settled_group(member_count: int, context: ShareContext, partitions: int) -> ShareGroup:
    """As a new owner of the group's shard reads it from the log."""
    draft = ShareDraft("g", None, None, LIMIT_BYTES)
    _beat(draft, "0", 0, context)
    initialized(draft, {TOPIC_ID: StateTopic("t", frozenset(range(partitions)))})
    _beat(draft, "0", 2, context)
    one = draft.existing
    of_member = [(type(key), value) for key, value in one.as_records() if getattr(key, "member_id", None) == "0"]
    for number in range(1, member_count):
        for key_class, value in of_member:
            one.apply(key_class(group="g", member_id=str(number)), value)
    group = ShareGroup("g")
    for encoded_key, encoded_value in one.encoded_records():
        key = RECORD_TYPES.decode_key(encoded_key)
        group.apply(key, RECORD_TYPES.decode_value(key, encoded_value))
    return group


def _beat(draft: ShareDraft, member_id: str, epoch: int, context: ShareContext) -> None:
    names = ["t"] if epoch == 0 else None
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
    )
    heartbeat(draft, Beat(request, "client", "/host"), context)


def heartbeat_us(member_count: int, partitions: int) -> float:
    """CPU of one, in microseconds."""
    topic = OneTopic("t", TOPIC_ID, tuple(range(partitions)))
    config = ShareConfig(max_size=2 * member_count, assignment_interval_ms=0)
    context = ShareContext(
        Image({"t": topic}, {TOPIC_ID: topic}), config, config.terms({}), Moment(0.0, 1_000_000), is_stale=False
    )
    group = settled_group(member_count, context, partitions)
    epoch = group.members["0"].epoch
    begun = time.process_time()
    for number in range(BEATS):
        draft = ShareDraft("g", group, None, LIMIT_BYTES)
        _beat(draft, str(number % member_count), epoch, context)
        if draft.records:
            raise AssertionError("a heartbeat has changed something")
    return (time.process_time() - begun) / BEATS * 1e6


if __name__ == "__main__":
    print(f"{heartbeat_us(*map(int, sys.argv[1:3])):.1f} us")
