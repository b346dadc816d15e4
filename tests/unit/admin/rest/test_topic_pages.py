"""Topics are created, altered and deleted at REST; their offsets, and configs with where they come from."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from tests.fakes.kafka_requests import FakeKafkaRequests
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit


class Altered(RestCluster):
    def __init__(self) -> None:
        super().__init__()
        self.fake = self.kafka = FakeKafkaRequests()


async def test_a_topic_is_created_and_first_tried() -> None:
    async with Altered() as cluster:
        form = {"name": "new", "partitions": 4, "configs": {"retention.ms": "1000"}}
        tried = await cluster.post("/v1/topics", 200, form, dry_run=True)
        assert tried == {"name": "new", "partitions": 4, "replication_factor": 1}
        assert cluster.fake.created == []
        assert await cluster.post("/v1/topics", 201, form) == tried
        assert cluster.fake.created == [("new", 4)]
        (topic,) = cluster.fake.requests[-1].topics
        assert [(one.name, one.value) for one in topic.configs] == [("retention.ms", "1000")]
        assert topic.replication_factor == -1, "the cluster's default"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, 409),
        (ErrorCode.INVALID_CONFIG, 422),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
        (ErrorCode.NOT_CONTROLLER, 503),
    ],
)
async def test_a_refused_topic(code: ErrorCode, status: int) -> None:
    async with Altered() as cluster:
        cluster.fake.refused[ApiKey.CREATE_TOPICS] = code
        assert (await cluster.post("/v1/topics", status, {"name": "new"}))["detail"] == code.name


@pytest.mark.parametrize("form", [{}, {"name": "a/b"}, {"name": "a", "partitions": 0}, {"name": "a", "more": 1}, []])
async def test_what_is_no_topic(form: Any) -> None:
    async with Altered() as cluster:
        await cluster.post("/v1/topics", 422, form)
        assert cluster.fake.asked == []


async def test_a_topic_is_deleted() -> None:
    async with Altered() as cluster:
        assert await cluster.delete("/v1/topics/orders") == {"summary": "Topic orders is deleted."}
        assert cluster.fake.deleted == ["orders"]
        await cluster.delete("/v1/topics/none", 404)
        cluster.fake.refused[ApiKey.DELETE_TOPICS] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await cluster.delete("/v1/topics/orders", 403)
        cluster.kafka = None
        await cluster.delete("/v1/topics/orders", 503)


async def test_partitions_are_added() -> None:
    async with Altered() as cluster:
        done = await cluster.post("/v1/topics/orders/partitions", 200, {"count": 6}, dry_run=True)
        assert done == {"summary": "Topic orders: 3 partitions become 6."}
        assert cluster.fake.requests[-1].validate_only is True
        cluster.fake.refused[ApiKey.CREATE_PARTITIONS] = ErrorCode.INVALID_PARTITIONS
        await cluster.post("/v1/topics/orders/partitions", 422, {"count": 2})


async def test_configs_tell_where_they_come_from_and_secrets_nothing() -> None:
    async with Altered() as cluster:
        await cluster.patch("/v1/topics/orders/configs", body={"set": {"retention.ms": "5"}})
        configs = {one["name"]: one for one in (await cluster.get("/v1/topics/orders/configs"))["configs"]}
        retention = configs["retention.ms"]
        assert (retention["value"], retention["source"]) == ("5", "topic")
        assert [(one["value"], one["source"]) for one in retention["synonyms"]] == [
            ("5", "topic"),
            ("604800000", "default"),
        ]
        assert configs["a.password"]["value"] is None and configs["a.password"]["is_secret"]
        assert "s3cret" not in str(configs)
        assert list(configs) == sorted(configs)
        await cluster.patch("/v1/topics/orders/configs", body={"reset": ["retention.ms"]})
        assert cluster.fake.configs["orders"] == {}
        await cluster.get("/v1/topics/none/configs", 404)
        assert (await cluster.get("/v1/nodes/2/configs"))["configs"]


async def test_a_change_of_configs_is_tried_and_refused() -> None:
    async with Altered() as cluster:
        done = await cluster.patch("/v1/topics/orders/configs", body={"set": {"retention.ms": "5"}}, dry_run=True)
        assert done == {"summary": "Topic orders: retention.ms = 5."}
        assert cluster.fake.configs == {}
        await cluster.patch("/v1/topics/orders/configs", 422, body={})
        cluster.fake.refused[ApiKey.INCREMENTAL_ALTER_CONFIGS] = ErrorCode.INVALID_CONFIG
        await cluster.patch("/v1/topics/orders/configs", 422, body={"reset": ["x"]})


async def test_offsets_and_sizes_of_partitions() -> None:
    async with Altered() as cluster:
        cluster.fake.starts["orders", 0] = 3
        cluster.fake.put("orders", 0, Record(None, b"a"), Record(None, b"b"))
        first, second, _ = (await cluster.get("/v1/topics/orders/offsets"))["partitions"]
        assert first == {"partition": 0, "start_offset": 3, "end_offset": 5, "size_bytes": 500, "problem": None}
        assert (second["end_offset"], second["size_bytes"]) == (0, None)
        cluster.fake.refused[ApiKey.LIST_OFFSETS] = ErrorCode.KAFKA_STORAGE_ERROR
        first, *_ = (await cluster.get("/v1/topics/orders/offsets"))["partitions"]
        assert (first["end_offset"], first["problem"]) == (None, "KAFKA_STORAGE_ERROR")
