"""What the console asks a cluster for: any node answers for all of it, with separate roles too, and while a node is dead."""

from __future__ import annotations

from typing import Any, Final

import pytest

from testing.cluster import BmqCluster, ClusterNode
from testing.processes import eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240)]

PARTITIONS: Final = 6
WAIT_S: Final = 60.0


def ask(node: ClusterNode, method: str, path: str, status: int = 200, body: Any = None) -> Any:
    answered, found = node.call(method, path, body)
    assert answered == status, found
    return found


def write(node: ClusterNode, topic: str, what: str) -> None:
    records = [{"value": {"text": f"{what}-{number}"}, "partition": number} for number in range(PARTITIONS)]
    assert len(ask(node, "POST", f"/v1/topics/{topic}/records", 201, {"records": records})["written"]) == PARTITIONS


def values(node: ClusterNode, topic: str) -> set[str]:
    page = ask(node, "GET", f"/v1/topics/{topic}/records?from=earliest&limit=1000")
    assert page["is_end"] and page["problems"] == {}
    return {record["value"]["text"] for record in page["records"]}


def written_by(names: list[str]) -> set[str]:
    return {f"{name}-{number}" for name in names for number in range(PARTITIONS)}


def test_every_node_answers_for_the_cluster(cluster: BmqCluster) -> None:
    topic, nodes = unique_name("topic"), cluster.healthy
    ask(nodes[-1], "POST", "/v1/topics", 201, {"name": topic, "partitions": PARTITIONS})
    cluster.wait_settled()
    for node in nodes:
        write(node, topic, f"by{node.node_id}")
    for node in nodes:
        assert values(node, topic) == written_by([f"by{one.node_id}" for one in nodes])
        offsets = ask(node, "GET", f"/v1/topics/{topic}/offsets")["partitions"]
        assert [one["end_offset"] for one in offsets] == [len(nodes)] * PARTITIONS
        value = str(3_600_000 + node.node_id)
        ask(node, "PATCH", f"/v1/topics/{topic}/configs", body={"set": {"retention.ms": value}})
        configs = ask(node, "GET", f"/v1/topics/{topic}/configs")["configs"]
        assert [one["value"] for one in configs if one["name"] == "retention.ms"] == [value]
        for other in nodes:
            assert ask(node, "GET", f"/v1/nodes/{other.node_id}/configs")["configs"]
        assert node.call("GET", "/")[0] == 200
    ask(nodes[0], "DELETE", f"/v1/topics/{topic}")
    for node in nodes:
        eventually(lambda: node.get(f"/v1/topics/{topic}")[0] == 404, WAIT_S, f"{node} knows no such topic")  # noqa: B023


def test_records_are_read_and_written_while_a_node_is_dead(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(cluster, PARTITIONS)
    write(cluster.healthy[0], topic, "before")
    dead = cluster.owner_of(topic, 0)
    dead.kill()
    cluster.wait_settled()
    left = cluster.healthy
    assert len(left) == 2
    for node in left:
        write(node, topic, f"by{node.node_id}")
    for node in left:
        assert values(node, topic) == written_by(["before", *(f"by{one.node_id}" for one in left)])


def test_nodes_of_one_role_answer_too(separated: BmqCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(separated, PARTITIONS)
    for node in separated.healthy:
        write(node, topic, f"by{node.node_id}")
    for node in separated.healthy:
        assert values(node, topic) == written_by([f"by{one.node_id}" for one in separated.healthy])
        assert ask(node, "GET", "/v1/users") == {"users": [], "count": 0}
