"""Checks the mark of lanes in members' client ids. Fetches name no group, so the mark ties a member's fetches to its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from bmq.coordinator.lanes.shard_lanes import ShardLanes
from bmq.coordinator.topics import Topics
from bmq.log.lanes.names import refusal_of
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

ENABLE_CONFIG: Final = "bmq.lane.enable"
GRACE_CONFIG: Final = "bmq.lane.grace.ms"
GRACE_MS: Final = 60_000


class LaneShard(Protocol):
    """The part of a group's shard that lanes use (bmq.coordinator.group_shard.GroupShard)."""

    lanes: ShardLanes

    async def prove(self) -> None: ...


def are_lanes_enabled(image: Topics, base: str) -> bool:
    """Whether `bmq.lane.enable` is set for the base group, by this process's image of the metadata."""
    configs: Mapping[str, str] = image.group_configs.get(base, {})
    return configs.get(ENABLE_CONFIG, "").strip().lower() == "true"


def grace_ms(image: Topics, base: str) -> int:
    """Milliseconds for which a lane stays taken without members of its group (`bmq.lane.grace.ms`)."""
    return int(image.group_configs.get(base, {}).get(GRACE_CONFIG, GRACE_MS))


async def check_mark(shard: LaneShard, group_id: str, client_id: str | None, image: Topics) -> None:
    """Refuse a client whose id lacks the group's mark, or has another's. Proves ownership before it refuses (rule 15).

    Raises KafkaError INVALID_REQUEST, and what the proof raises.
    """

    def has_lanes(base: str) -> bool:
        return are_lanes_enabled(image, base) or shard.lanes.states.has_group(base)

    refusal = refusal_of(group_id, client_id or "", has_lanes)
    if refusal is not None:
        await shard.prove()
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal)
