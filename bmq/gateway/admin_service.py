"""Admin basics: topics and groups, with the rights of the user who calls."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.admin import NewTopic, OffsetSpec

from bmq.gateway.calls import Calls
from bmq.gateway.failure import invalid
from bmq.gateway.group_list import GroupList
from bmq.gateway.known_topics import KnownTopics
from bmq.gateway.principal import Principal
from bmq.gateway.subscription import require_topic
from bmq.gateway.tail_hub import TailHub
from bmq.gateway.v1 import gateway_pb2

CONFIGS_MAX: Final = 200
PARTITIONS_MAX: Final = 10_000


class AdminService:
    """The service `bmq.gateway.v1.Admin`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create_topic(
        self, request: gateway_pb2.CreateTopicRequest, context: Any
    ) -> gateway_pb2.CreateTopicResponse:
        async with self._calls.admitted(context, "CreateTopic") as principal:
            require_topic(request.topic)
            if request.HasField("partitions") and not 0 < request.partitions <= PARTITIONS_MAX:
                raise invalid(f"{request.partitions} partitions are asked for; 1 to {PARTITIONS_MAX} are allowed")
            if request.HasField("replication_factor") and not 0 < request.replication_factor <= 32_767:
                raise invalid(f"replication factor {request.replication_factor} is none; leave it out")
            if len(request.configs) > CONFIGS_MAX:
                raise invalid(f"{len(request.configs)} configs are given, {CONFIGS_MAX} are allowed")
            topic = NewTopic(
                request.topic,
                num_partitions=request.partitions if request.HasField("partitions") else -1,
                replication_factor=request.replication_factor if request.HasField("replication_factor") else -1,
                config=dict(request.configs),
            )
            futures = principal.admin.create_topics(
                [topic], validate_only=request.validate_only, request_timeout=principal.answer_wait_s
            )
            await principal.answer(futures[request.topic], f"topic {request.topic!r} cannot be made")
        return gateway_pb2.CreateTopicResponse()

    async def delete_topic(
        self, request: gateway_pb2.DeleteTopicRequest, context: Any
    ) -> gateway_pb2.DeleteTopicResponse:
        async with self._calls.admitted(context, "DeleteTopic") as principal:
            require_topic(request.topic)
            futures = principal.admin.delete_topics([request.topic], request_timeout=principal.answer_wait_s)
            await principal.answer(futures[request.topic], f"topic {request.topic!r} cannot be deleted")
            principal.part(KnownTopics).forget(request.topic)
        return gateway_pb2.DeleteTopicResponse()

    async def list_topics(
        self, _request: gateway_pb2.ListTopicsRequest, context: Any
    ) -> gateway_pb2.ListTopicsResponse:
        async with self._calls.admitted(context, "ListTopics") as principal:
            names = await principal.part(KnownTopics).names()
            return gateway_pb2.ListTopicsResponse(topics=names)
        return gateway_pb2.ListTopicsResponse()

    async def describe_topic(
        self, request: gateway_pb2.DescribeTopicRequest, context: Any
    ) -> gateway_pb2.DescribeTopicResponse:
        async with self._calls.admitted(context, "DescribeTopic") as principal:
            require_topic(request.topic)
            return await _described(principal, request.topic)
        return gateway_pb2.DescribeTopicResponse()

    async def list_groups(
        self, _request: gateway_pb2.ListGroupsRequest, context: Any
    ) -> gateway_pb2.ListGroupsResponse:
        async with self._calls.admitted(context, "ListGroups") as principal:
            groups = await principal.part(GroupList).groups()
            return gateway_pb2.ListGroupsResponse(groups=groups)
        return gateway_pb2.ListGroupsResponse()


async def _described(principal: Principal, topic: str) -> gateway_pb2.DescribeTopicResponse:
    described = await principal.part(KnownTopics).describe(topic)
    hub = principal.part(TailHub)
    led = [(topic, one.id) for one in described.partitions if one.leader is not None and one.leader.id >= 0]
    earliest = await hub.offsets(led, OffsetSpec.earliest()) if led else {}
    latest = await hub.offsets(led, OffsetSpec.latest()) if led else {}
    return gateway_pb2.DescribeTopicResponse(
        topic=topic,
        topic_id=str(described.topic_id),
        partitions=[
            gateway_pb2.Partition(
                partition=one.id,
                leader=-1 if one.leader is None else one.leader.id,
                earliest_offset=earliest.get((topic, one.id), -1),
                latest_offset=latest.get((topic, one.id), -1),
            )
            for one in sorted(described.partitions, key=lambda one: one.id)
        ],
    )
