"""The context of the group coordinator's APIs: the shards of this process, the topics, the settings."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Protocol
from uuid import UUID

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.runtime.directory import ShardDirectory
from bmq.coordinator.topics import OFFSETS_TOPIC, CurrentTopics
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class RandomBits(Protocol):
    """Source of randomness for member ids; random.Random is one."""

    def getrandbits(self, k: int, /) -> int: ...


@dataclass(slots=True)
class CoordinatorContext:
    """One for all APIs of a coordinator. `config` changes with GroupCoordinator.reconfigure."""

    directory: ShardDirectory[GroupShard]
    clock: Clock
    rng: RandomBits
    image: CurrentTopics
    metrics: GroupMetrics
    config: CoordinatorConfig
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def has_offsets_topic(self) -> bool:
        return OFFSETS_TOPIC in self.image().topics

    async def existing(self, group_id: str) -> GroupShard:
        """The group's shard. Raises KafkaError.

        While our metadata has no offsets topic we must not answer "no such group" or "no offsets": the metadata may be
        old (rule 15). As in Kafka, the client has to find the coordinator, which creates the topic.
        """
        shard = self.directory.find(group_id)
        if shard is not None:
            return shard
        if not self.has_offsets_topic():
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "there is no offsets topic yet")
        return await self.directory.get(group_id)

    async def with_group(self, group_id: str) -> tuple[GroupShard, bool]:
        """The group's shard, and whether the group exists; False is only returned after a proof (rule 15).

        Raises KafkaError.
        """
        shard = await self.existing(group_id)
        if shard.has_group(group_id):
            return shard, True
        await shard.prove()
        return shard, shard.has_group(group_id)

    async def shard_for_heartbeat(self, group_id: str, *, is_joining: bool) -> GroupShard:
        """The shard of a consumer or streams group. Raises KafkaError."""
        shard = await (self.directory.get(group_id) if is_joining else self.existing(group_id))
        if is_joining and not shard.has_group(group_id) and shard.group_count >= self.config.groups_per_shard_max:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many groups")
        return shard

    def new_uuid(self) -> str:
        """A random UUID for a member id."""
        return str(UUID(int=self.rng.getrandbits(128), version=4))
