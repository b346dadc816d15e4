"""The node that carries out a forwarded request looks at the client's rights itself, and never at those of other nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import create_topics_request, find_coordinator_request, offset_commit_request
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.fault_rates import KINDS, FaultRates
from tests.simulation.test_group_retention import GROUP, CalmCluster, commit, earliest, produce

pytestmark = pytest.mark.simulation

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
ADMIN = {**AUTHORIZER, "super.users": "User:ANONYMOUS"}
PROXIES = (1, 2)


class GuardedCluster(CalmCluster):
    """`proxies`, `others`: broker configs of the nodes that clients connect to, and of brokers, coordinators, controllers."""

    def __init__(self, proxies: dict[str, str], others: dict[str, str]) -> None:
        super().__init__(1, FaultRates(dict.fromkeys(KINDS, 0.0)))
        self._guards = proxies, others
        self._common = self._settings

    async def _serve(self, node: NodeProcess, host: str, number: int) -> None:
        own = self._guards[node.node_id not in PROXIES]
        self._settings = {**self._common, "kafka": {**self._common.get("kafka", {}), **own}}  # read before it waits
        await super()._serve(node, host, number)


async def create(client: Client) -> ErrorCode:
    topic = create_topics_request.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    request = create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    answer = await client.until_done(lambda: client.request(ApiKey.CREATE_TOPICS, 7, request))
    return ErrorCode(answer.topics[0].error_code)


async def committed(client: Client) -> ErrorCode:
    part = offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    request = offset_commit_request.OffsetCommitRequest(group_id=GROUP, topics=[topic])

    async def attempt() -> Any:
        await client.request(ApiKey.FIND_COORDINATOR, 3, find_coordinator_request.FindCoordinatorRequest(key=GROUP))
        answer = await client.request(ApiKey.OFFSET_COMMIT, 7, request)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code is ErrorCode.NOT_COORDINATOR:
            raise Unhappy("the offsets topic is being made")
        return code

    return ErrorCode(await client.until_done(attempt))


def test_a_proxy_without_an_authorizer_gets_nothing_from_controllers_and_coordinators_that_have_one() -> None:
    cluster = GuardedCluster({}, AUTHORIZER)

    async def story(stranger: Client) -> None:
        stranger.patience_s = 60
        assert await create(stranger) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await committed(stranger) is ErrorCode.GROUP_AUTHORIZATION_FAILED

    cluster.scenario(story)


def test_nodes_need_no_right_for_what_they_ask_each_other() -> None:
    """Internal topics are made and owners ask coordinators, though nobody but the administrator has a right."""
    cluster = GuardedCluster(ADMIN, ADMIN)

    async def story(admin: Client) -> None:
        configs = {"segment.bytes": "1048576", "retention.bytes": "1", "bmq.retention.groups": GROUP}
        await create_topic(admin, 1, configs)
        for _ in range(4):
            assert await produce(admin) is ErrorCode.NONE
        await commit(admin, 2)
        await asyncio.sleep(3)
        assert await earliest(admin) == 2

    cluster.scenario(story)
