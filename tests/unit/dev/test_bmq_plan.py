"""Who runs where in a whole development cluster."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from bmq.dev.bmq_plan import ServerPlan, WholePlan, plan_servers
from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.dev.zookeeper import ZooKeeperPlan

pytestmark = pytest.mark.unit


def planned(brokers: int, proxies: int = 0, controllers: int = 0) -> tuple[ServerPlan, ...]:
    return plan_servers(
        brokers=brokers,
        proxies=proxies,
        controllers=controllers,
        kafka_port=9092,
        rest_port=8080,
        internal_ports=range(20_000, 20_400),
    )


def test_without_nodes_of_their_own_the_brokers_have_all_roles() -> None:
    servers = planned(2)
    assert [server.node_id for server in servers] == [1, 2]
    assert {server.roles for server in servers} == {("proxy", "broker", "coordinator", "controller")}
    assert [str(server.kafka) for server in servers] == ["127.0.0.1:9092", "127.0.0.1:9093"]
    assert [str(server.rest) for server in servers] == ["127.0.0.1:8080", "127.0.0.1:8081"]


def test_each_kind_has_ids_of_its_own() -> None:
    servers = planned(2, proxies=2, controllers=1)
    assert [(server.node_id, server.roles) for server in servers] == [
        (1, ("broker", "coordinator")),
        (2, ("broker", "coordinator")),
        (101, ("proxy",)),
        (102, ("proxy",)),
        (201, ("controller",)),
    ]
    assert [server.kafka and server.kafka.port for server in servers] == [None, None, 9092, 9093, None]
    assert servers[2].addresses[0].port == 9092, "the address that clients use comes first"


@given(brokers=integers(1, 99), proxies=integers(0, 99), controllers=integers(0, 99))
def test_every_role_is_somewhere_and_nothing_is_there_twice(brokers: int, proxies: int, controllers: int) -> None:
    servers = planned(brokers, proxies, controllers)
    assert len(servers) == brokers + proxies + controllers
    assert {role for server in servers for role in server.roles} == {"proxy", "broker", "coordinator", "controller"}
    assert len({server.node_id for server in servers}) == len({server.name for server in servers}) == len(servers)
    for kind in ("kafka", "internal", "rest"):
        there = [address for server in servers if (address := getattr(server, kind))]
        assert len(set(there)) == len(there)


@pytest.mark.parametrize(("brokers", "proxies"), [(0, 1), (100, 0), (1, 100)])
def test_impossible_counts_are_refused(brokers: int, proxies: int) -> None:
    with pytest.raises(ValueError, match=r"at least one broker|more than the"):
        planned(brokers, proxies)


def test_a_plan_survives_its_file() -> None:
    plan = WholePlan(
        ClusterPlan.of_ports(tuple(range(15_000, 15_008)), namenodes=1, datanodes=2),
        ZooKeeperPlan.of_port(2181),
        planned(2, proxies=1),
    )
    assert WholePlan.of_json(json.loads(json.dumps(asdict(plan)))) == plan
    assert [node.name for node in plan.nodes] == ["bmq1", "bmq2", "bmq101", "zk0", "nn0", "dn0", "dn1"]
