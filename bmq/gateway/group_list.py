"""The groups of a cluster, of every type: librdkafka lists consumer groups alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bmq.gateway.kafka_links import KafkaLinks
from bmq.gateway.principal import Principal
from bmq.gateway.status import kafka_failure
from bmq.gateway.v1 import gateway_pb2
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.metadata_request import MetadataRequest


class GroupList:
    """Part of a Principal."""

    def __init__(self, principal: Principal) -> None:
        self._links = KafkaLinks(principal.settings, principal.credentials)

    async def groups(self) -> Sequence[gateway_pb2.Group]:
        """In order of their names; every server is asked for those that it coordinates. Raises GatewayFailed."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        brokers = (await self._links.call(await self._links.any(), ApiKey.METADATA, request)).brokers
        answers = await asyncio.gather(*(self._of(one.host, one.port) for one in brokers))
        return sorted((group for some in answers for group in some), key=lambda group: group.group)

    async def _of(self, host: str, port: int) -> Sequence[gateway_pb2.Group]:
        request = ListGroupsRequest(states_filter=(), types_filter=())
        answer: Any = await self._links.call(await self._links.to(host, port), ApiKey.LIST_GROUPS, request)
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            raise kafka_failure("the groups cannot be listed", code)
        return [
            gateway_pb2.Group(group=one.group_id, type=one.group_type.lower(), state=one.group_state.lower())
            for one in answer.groups
        ]

    async def close(self) -> None:
        await self._links.close()
