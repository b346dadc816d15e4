"""The mark of lanes in members' client ids: a member and its fetches have to belong to one group."""

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
    """bmq.coordinator.group_shard.GroupShard is one."""

    lanes: ShardLanes

    async def prove(self) -> None: ...


def are_lanes_enabled(image: Topics, base: str) -> bool:
    """Whether the base group may have lanes, as far as this process knows."""
    configs: Mapping[str, str] = image.group_configs.get(base, {})
    return configs.get(ENABLE_CONFIG, "").strip().lower() == "true"


def grace_ms(image: Topics, base: str) -> int:
    """How long a lane is kept without members of its group."""
    return int(image.group_configs.get(base, {}).get(GRACE_CONFIG, GRACE_MS))


async def check_mark(shard: LaneShard, group_id: str, client_id: str | None, image: Topics) -> None:
    """Raises KafkaError INVALID_REQUEST for a client that may not join the group, after a proof (rule 15)."""

    def has_lanes(base: str) -> bool:
        return are_lanes_enabled(image, base) or shard.lanes.states.has_group(base)

    refusal = refusal_of(group_id, client_id or "", has_lanes)
    if refusal is not None:
        await shard.prove()
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal)
