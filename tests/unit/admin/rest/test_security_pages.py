"""ACLs, users and quotas are shown as Kafka tells them."""

from __future__ import annotations

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from tests.fakes.kafka_requests import FakeKafkaRequests
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit


async def test_what_is_there_is_shown() -> None:
    async with RestCluster() as cluster:
        cluster.kafka = FakeKafkaRequests()
        acl = {"principal": "User:alice", "host": "*", "operation": "read", "permission": "allow"}
        resource = {"resource_type": "topic", "resource_name": "orders", "pattern": "literal"}
        assert await cluster.get("/v1/acls") == {"acls": [acl | resource], "count": 1}
        users = await cluster.get("/v1/users")
        assert [one["user"] for one in users["users"]] == ["alice", "bob"]
        assert users["users"][0]["mechanisms"] == [{"mechanism": "SCRAM-SHA-256", "iterations": 4096}]
        quota = {"entity": {"user": None}, "values": {"producer_byte_rate": 1024.0}}
        assert await cluster.get("/v1/quotas") == {"quotas": [quota], "count": 1}


@pytest.mark.parametrize(
    ("path", "api_key"),
    [
        ("/v1/acls", ApiKey.DESCRIBE_ACLS),
        ("/v1/users", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
        ("/v1/quotas", ApiKey.DESCRIBE_CLIENT_QUOTAS),
    ],
)
async def test_a_refusal_is_told(path: str, api_key: ApiKey) -> None:
    async with RestCluster() as cluster:
        await cluster.get(path, 503)
        cluster.kafka = FakeKafkaRequests()
        cluster.kafka.refused[api_key] = ErrorCode.SECURITY_DISABLED
        await cluster.get(path, 409)
        cluster.kafka.refused[api_key] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await cluster.get(path, 403)
