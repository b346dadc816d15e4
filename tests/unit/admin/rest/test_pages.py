"""What the pages say about nodes, topics, partitions, files and history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bmq.admin.rest.sources import RestSources
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.metadata.history import StateChange
from bmq.metadata.image import MetadataImage
from tests.fakes.cluster_controller import image_of, topic_image
from tests.fakes.store import Faults
from tests.unit.admin.rest.cluster import NODES, RestCluster
from tests.unit.admin.rest.shared_application import application_over

pytestmark = pytest.mark.unit

ORDERS = UUID(int=101)


async def test_health_says_whether_produces_are_accepted() -> None:
    async with RestCluster() as cluster:
        assert await cluster.get("/v1/health") == {"ready": True}
        cluster.is_ready = False
        found = await cluster.get("/v1/health", 503)
        assert found["ready"] is False
        assert [(why["code"], why["severity"]) for why in found["why"]] == [("not_ready", "not_ready")]
        assert await cluster.get("/v1/health/live") == {"live": True}


async def test_health_names_problems_while_there_are_any() -> None:
    async with RestCluster() as cluster:
        cluster.problems = ("no log is compacted: it ended",)
        found = await cluster.get("/v1/health")
        assert (found["ready"], found["problems"]) == (True, ["no log is compacted: it ended"])
        (why,) = found["why"]
        assert why["code"] == "compaction_unavailable"
        assert why["what"] == "No log is compacted: it ended."


async def test_metrics_are_prometheus_text() -> None:
    async with RestCluster() as cluster:
        response = await cluster.client.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        assert "bmq_things_total 3.0" in response.text


async def test_the_cluster_at_a_glance() -> None:
    async with RestCluster(managed=()) as cluster:
        found = await cluster.get("/v1/cluster")
        nodes = found.pop("nodes")
        assert found == {
            "cluster_id": "cluster",
            "answered_by": 1,
            "controller_id": 1,
            "controller_rest": "http://10.0.0.1:8080",
            "metadata_offset": 42,
            "topics": 14,
            "partitions": 18,
            "partitions_without_leader": 1,
            "partition_states": {"leader": 4, "starting": 1},
        }
        assert nodes == await cluster.get("/v1/nodes")


async def test_nodes_tell_roles_addresses_and_load() -> None:
    async with RestCluster(managed=()) as cluster:
        first, second, third = await cluster.get("/v1/nodes")
        assert first == {
            "node_id": 1,
            "host": "10.0.0.1",
            "port": 9092,
            "rack": "r1",
            "roles": ["broker", "controller", "coordinator", "proxy"],
            "internal": "10.0.0.1:9093",
            "rest": "10.0.0.1:8080",
            "epoch": 11,
            "is_draining": False,
            "is_controller": True,
            "partitions_led": 6,
            "load": {"partitions": 3, "bytes_in_s": 1000.5, "bytes_out_s": 2000.0, "requests_s": 7.25},
        }
        assert not second["is_controller"]
        assert (third["host"], third["port"], third["rest"]) == (None, None, "[fe80::3]:8080"), "it has no proxy"
        assert await cluster.get("/v1/nodes/3") == third
        cluster.active = None
        assert (await cluster.get("/v1/nodes/3"))["load"] is None, "measured on the active controller only"
        await cluster.controller.set_draining(3, True, "")
        assert (await cluster.get("/v1/nodes/3"))["is_draining"]
        problem = await cluster.get("/v1/nodes/4", 404)
        assert problem == {
            "type": "about:blank",
            "title": "Not Found",
            "status": 404,
            "detail": "there is no live node 4; live are: 1, 2, 3",
        }


async def test_topics_come_in_pages() -> None:
    async with RestCluster() as cluster:
        everything = (await cluster.get("/v1/topics"))["topics"]
        assert everything[0] == {
            "name": "__consumer_offsets",
            "topic_id": str(UUID(int=100)),
            "is_internal": True,
            "partitions": 3,
            "replication_factor": 1,
        }
        names = [topic["name"] for topic in everything]
        assert names == sorted(cluster.image.topics)
        seen, after = [], ""
        while after is not None:
            page = await cluster.get("/v1/topics", after=after, limit=5)
            assert 0 < len(page["topics"]) <= 5
            seen += [topic["name"] for topic in page["topics"]]
            after = page["next_after"]
        assert seen == names
        page = await cluster.get("/v1/topics", prefix="t0", limit=10)
        assert [topic["name"] for topic in page["topics"]] == [f"t0{n}" for n in range(10)]
        assert page["next_after"] is None
        assert (await cluster.get("/v1/topics", prefix="zzz"))["topics"] == []


async def test_one_topic_and_its_partitions() -> None:
    async with RestCluster() as cluster:
        topic = await cluster.get("/v1/topics/orders")
        assert (topic["name"], topic["topic_id"], topic["configs"]) == ("orders", str(ORDERS), {"retention.ms": "1000"})
        assert topic["partitions"][0] == {
            "partition": 0, "leader": 1, "leader_epoch": 1, "replicas": [1, 2], "isr": [1, 2],
        }  # fmt: skip
        found = await cluster.get("/v1/topics/orders/partitions/0")
        history = found.pop("history")
        assert found == {
            "topic": "orders",
            "topic_id": str(ORDERS),
            "partition": 0,
            "owner": 1,
            "leader_epoch": 1,
            "partition_epoch": 0,
            "replicas": [1, 2],
            "isr": [1, 2],
            "high_watermark_floor": 0,
            "high_watermark": 5,
        }
        assert history == [
            {
                "at": "1970-01-01T00:00:02Z",
                "topic": "orders",
                "partition": 0,
                "leader": 1,
                "leader_epoch": 3,
                "reason": "node 1 is back and preferred",
            },
            {
                "at": "1970-01-01T00:00:01Z",
                "topic": "orders",
                "partition": 0,
                "leader": 2,
                "leader_epoch": 2,
                "reason": "node 1 is gone: its connection was lost",
            },
        ]
        other = await cluster.get("/v1/topics/orders/partitions/1")
        assert (other["high_watermark"], other["history"]) == (None, [])
        assert (await cluster.get("/v1/topics/none", 404))["detail"] == "there is no topic none"
        problem = await cluster.get("/v1/topics/orders/partitions/3", 404)
        assert problem["detail"] == "topic orders has no partition 3; it has 3"


async def test_history_is_filtered_and_newest_first() -> None:
    async with RestCluster() as cluster:

        async def ats(**query: Any) -> list[str]:
            return [change["at"][17:23] for change in (await cluster.get("/v1/history", **query))["changes"]]

        assert await ats() == ["02Z", "01.500", "01Z"]
        assert await ats(limit=2) == ["02Z", "01.500"]
        assert await ats(topic="orders", partition=2) == ["01.500"]
        assert await ats(topic="t01") == []
        assert await ats(partition=0) == ["02Z", "01Z"]
        await cluster.get("/v1/history", 404, topic="none")
        await cluster.get("/v1/history", 404, topic="orders", partition=9)


async def test_history_of_many_partitions_lets_others_work_in_between() -> None:
    async with RestCluster() as cluster:
        many = [topic_image(f"m{number}", 1_000 + number, [1] * 100) for number in range(30)]
        cluster.controller.image = image_of(NODES, many)
        for topic in many:
            for partition in topic.partitions:
                at_ms = topic.topic_id.int * 1_000 + partition.partition
                cluster.controller.history.add(topic.topic_id, partition.partition, StateChange(at_ms, 1, 2, "x"))
        changes = (await cluster.get("/v1/history", limit=150))["changes"]
        assert [(c["topic"], c["partition"]) for c in changes] == [
            *(("m29", partition) for partition in reversed(range(100))),
            *(("m28", partition) for partition in reversed(range(50, 100))),
        ]


async def test_a_node_tells_its_partitions_and_their_sizes() -> None:
    async with RestCluster() as cluster:
        page = await cluster.get("/v1/nodes/1/partitions", limit=2)
        own = [(one["topic"], one["partition"], one["size_bytes"]) for one in page["partitions"]]
        assert own == [("__consumer_offsets", 0, None), ("orders", 0, 77)]
        assert (page["node_id"], page["count"], page["stored_bytes"], page["next_skip"]) == (1, 6, 77, 2)
        rest = await cluster.get("/v1/nodes/1/partitions", skip=2)
        assert [one["topic"] for one in rest["partitions"]] == ["t00", "t03", "t06", "t09"]
        assert rest["next_skip"] is None
        other = await cluster.get("/v1/nodes/2/partitions")
        assert other["stored_bytes"] is None and {one["size_bytes"] for one in other["partitions"]} == {None}
        await cluster.get("/v1/nodes/9/partitions", 404)


async def test_segments_tell_files_and_datanodes() -> None:
    async with RestCluster() as cluster:
        page = await cluster.get("/v1/topics/orders/partitions/0/segments")
        closed, opened = page.pop("segments")
        assert page == {"topic": "orders", "partition": 0, "count": 2, "log_start_offset": 0, "next_skip": None}
        assert closed["path"] == f"{partition_directory(TopicPartition(ORDERS, 0))}/00000001.open/00000000.log"
        assert (closed["base_offset"], closed["end_offset"], closed["is_open"]) == (0, 3, False)
        assert (opened["base_offset"], opened["end_offset"], opened["is_open"]) == (3, None, True)
        assert closed["valid_bytes"] == closed["file_bytes"] > 0
        assert len(closed["nodes"]) == len(opened["nodes"]) == 3
        path = "/v1/topics/orders/partitions/0/segments"
        first = await cluster.get(path, limit=1)
        assert (first["segments"], first["next_skip"]) == ([closed], 1)
        second = await cluster.get(path, limit=1, skip=1)
        assert (second["segments"], second["next_skip"]) == ([opened], None)
        assert (await cluster.get(path, skip=99))["segments"] == []


async def test_segments_of_a_partition_that_was_never_written() -> None:
    async with RestCluster() as cluster:
        page = await cluster.get("/v1/topics/orders/partitions/1/segments")
        assert (page["count"], page["segments"], page["log_start_offset"]) == (0, [], None)
        await cluster.get("/v1/topics/orders/partitions/9/segments", 404)


async def test_a_store_that_is_slow_or_silent_is_said() -> None:
    async with RestCluster(store_wait_s=0.02) as cluster:
        path = "/v1/topics/orders/partitions/0/segments"
        cluster.store.faults = Faults(request_s=(5.0, 5.0))
        problem = await cluster.get(path, 504)
        assert problem["detail"] == "the store did not answer within 0.02 s"
    async with RestCluster() as cluster:
        cluster.store.faults = Faults(unavailable_rate=1.0)
        assert (await cluster.get(path, 503))["detail"] == "the store does not answer"


async def test_bad_parameters_are_one_sentence() -> None:
    async with RestCluster() as cluster:
        for path, sentence in (
            ("/v1/topics?limit=0", "query.limit: Input should be greater than or equal to 1"),
            (
                "/v1/topics?limit=x",
                "query.limit: Input should be a valid integer, unable to parse string as an integer",
            ),
            ("/v1/topics?prefix=a%20b", "query.prefix: String should match pattern '^[a-zA-Z0-9._-]{0,249}$'"),
            ("/v1/topics/a%20b", "path.name: String should match pattern '^[a-zA-Z0-9._-]{1,249}$'"),
            ("/v1/nodes/-1", "path.node_id: Input should be greater than or equal to 0"),
            ("/v1/tasks/zz", "path.task_id: String should match pattern '^[0-9a-f]{16}$'"),
        ):
            response = await cluster.client.get(path)
            assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
            assert response.json()["detail"] == sentence
        response = await cluster.client.get("/v1/none")
        assert (response.status_code, response.json()["detail"]) == (404, "Not Found")
        response = await cluster.client.delete("/v1/topics")
        assert (response.status_code, response.headers["allow"]) == (405, "GET")
        assert response.headers["content-type"] == "application/problem+json"


async def test_a_mistake_of_ours_is_a_sentence_too() -> None:
    async with RestCluster() as cluster:
        cluster.is_ready = object()  # type: ignore[assignment]
        with capture_logs() as logs:
            response = await cluster.client.get("/v1/health")
        assert [entry["event"] for entry in logs] == ["request_failed"]
        assert response.status_code == 500
        assert response.json()["detail"].startswith("an unexpected ")


async def test_a_process_that_is_the_whole_cluster() -> None:
    image = image_of([replace(NODES[0], internal=None, rest=None)], [topic_image("t", 1, [1])])
    sources = RestSources(lambda: True, lambda: image, lambda: {"leader": 1}, CollectorRegistry())
    transport = httpx.ASGITransport(app=application_over(sources))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:

        async def get(path: str) -> tuple[int, dict[str, object]]:
            response = await client.get(path)
            return response.status_code, response.json()

        assert (await get("/v1/health"))[0] == 200
        status, found = await get("/v1/cluster")
        assert (status, found["topics"], found["controller_rest"]) == (200, 1, None)
        assert (await get("/v1/topics/t"))[1]["name"] == "t"
        assert await get("/v1/history") == (200, {"changes": []})
        assert await get("/v1/tasks") == (200, {"tasks": []})
        assert (await get("/v1/tasks/0123456789abcdef"))[0] == 404
        assert (await get("/v1/topics/t/partitions/0/segments"))[0] == 503
        response = await client.post("/v1/rebalance")
        assert response.status_code == 409
        assert response.json()["detail"].startswith("this server is the whole cluster")


async def test_before_there_is_an_image() -> None:
    sources = RestSources(lambda: False, MetadataImage, dict, CollectorRegistry())
    transport = httpx.ASGITransport(app=application_over(sources))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        for path, status in (("/v1/health", 503), ("/v1/cluster", 200), ("/v1/nodes", 200), ("/v1/topics", 200)):
            assert (await client.get(path)).status_code == status
