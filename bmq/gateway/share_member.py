"""This gateway's membership of one share group (KIP-932): heartbeats, and which server leads which assigned partition."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import structlog

from bmq.gateway.failure import GatewayFailed
from bmq.gateway.kafka_links import KafkaLinks
from bmq.gateway.status import kafka_failure
from bmq.internode_client.link import Link
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

GROUP_KEY: Final = 0
LEAVING: Final = -1
RETRY_S: Final = 0.25
FIRST_ASSIGNMENT_S: Final = 0.2
"""Between heartbeats while the coordinator has assigned nothing yet: it does so a moment after the first one."""
REFRESH_S: Final = 0.1
_REJOIN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_PASSING: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"})

_log = structlog.get_logger("bmq.gateway")

SharePlace = tuple[UUID, int]
"""Topic id and partition."""


class ShareMember:
    """`changed`: assigned partitions or their leaders are others. `failed`: the membership cannot go on."""

    def __init__(
        self,
        links: KafkaLinks,
        group: str,
        topics: Sequence[str],
        changed: Callable[[], None],
        failed: Callable[[GatewayFailed], None],
    ) -> None:
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.names: dict[UUID, str] = {}
        self._links = links
        self._topics = list(topics)
        self._changed = changed
        self._failed = failed
        self._epoch = 0
        self._assigned: frozenset[SharePlace] = frozenset()
        self._leaders: dict[SharePlace, int] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._coordinator: tuple[str, int] | None = None
        self._is_stale = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        note_end(task, self._failed)

    def by_leader(self) -> Mapping[int, frozenset[SharePlace]]:
        """The assigned partitions of each server that leads some."""
        found: dict[int, set[SharePlace]] = {}
        for place in self._assigned:
            leader = self._leaders.get(place, -1)
            if leader in self._nodes:
                found.setdefault(leader, set()).add(place)
        return {leader: frozenset(places) for leader, places in found.items()}

    async def link_to(self, node: int) -> Link:
        """Raises GatewayFailed."""
        address = self._nodes.get(node)
        if address is None:
            raise GatewayFailed("UNAVAILABLE", f"server {node} is not known to the cluster now")
        return await self._links.to(*address)

    def refresh_soon(self) -> None:
        """Leaders have changed: ask for them again."""
        self._is_stale.set()

    async def _run(self) -> None:
        while True:
            try:
                interval_s = await self._heartbeat()
                await self._learn_leaders()
            except GatewayFailed as failed:
                if failed.status not in _PASSING:
                    self._failed(failed)
                    return
                self._coordinator = None
                _log.debug("gateway_share_heartbeat_retried", group=self.group, reason=str(failed))
                await asyncio.sleep(RETRY_S)
                continue
            await self._until_due(interval_s)

    async def _until_due(self, interval_s: float) -> None:
        """Wait for the time of the next heartbeat; leaders may be asked for again meanwhile."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + interval_s
        while (left_s := due_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._is_stale.wait()
            except TimeoutError:
                return
            await asyncio.sleep(REFRESH_S)  # several partitions notice a change at once, and the change takes a moment
            self._is_stale.clear()
            try:
                await self._learn_leaders()
            except GatewayFailed as failed:
                if failed.status not in _PASSING:
                    self._failed(failed)
                    return
                self._is_stale.set()

    async def _heartbeat(self) -> float:
        """Seconds to the next one."""
        answer = await self._beat(self._epoch)
        code = ErrorCode(answer.error_code)
        if code in _REJOIN:
            self._epoch = 0
            self._take_assignment(frozenset())
            answer = await self._beat(0)
            code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            raise kafka_failure(f"group {self.group!r}", code, answer.error_message)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._take_assignment(
                frozenset(
                    (one.topic_id, index) for one in answer.assignment.topic_partitions for index in one.partitions
                )
            )
        interval_s: float = max(0.1, answer.heartbeat_interval_ms / 1000)
        return interval_s if self._assigned else min(interval_s, FIRST_ASSIGNMENT_S)

    async def _beat(self, epoch: int) -> Any:
        if self._coordinator is None:
            self._coordinator = await self._find_coordinator()
        link = await self._links.to(*self._coordinator)
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=self._topics if epoch == 0 else None,
        )
        return await self._links.call(link, ApiKey.SHARE_GROUP_HEARTBEAT, request)

    async def _find_coordinator(self) -> tuple[str, int]:
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[self.group])
        found = (await self._links.call(await self._links.any(), ApiKey.FIND_COORDINATOR, request)).coordinators[0]
        if found.error_code:
            raise kafka_failure(
                f"the coordinator of group {self.group!r}", ErrorCode(found.error_code), found.error_message
            )
        return found.host, found.port

    def _take_assignment(self, assigned: frozenset[SharePlace]) -> None:
        if assigned != self._assigned:
            self._assigned = assigned
            self._changed()

    async def _learn_leaders(self) -> None:
        if not self._is_stale.is_set() and all(place in self._leaders for place in self._assigned):
            return
        self._is_stale.clear()
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in self._topics], allow_auto_topic_creation=False
        )
        answer = await self._links.call(await self._links.any(), ApiKey.METADATA, request)
        for topic in answer.topics:
            code = ErrorCode(topic.error_code)
            if code is not ErrorCode.NONE:
                raise kafka_failure(f"topic {topic.name!r}", code)
            self.names[topic.topic_id] = topic.name
            for one in topic.partitions:
                self._leaders[topic.topic_id, one.partition_index] = one.leader_id
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._changed()

    async def close(self) -> None:
        """Leave the group; what was acquired must be released before."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if self._epoch > 0:
            try:
                await self._beat(LEAVING)
            except GatewayFailed:
                return  # the coordinator notices the missing heartbeats


def note_end(task: asyncio.Task[None], failed: Callable[[GatewayFailed], None]) -> None:
    """A task that ends by an error nobody expected ends the streams that depend on it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("gateway_share_group_failed", exc_info=error)
        failed(GatewayFailed("INTERNAL", f"the gateway cannot go on with this group: {type(error).__name__}"))
