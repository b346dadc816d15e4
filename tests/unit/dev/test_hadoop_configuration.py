"""What Hadoop's daemons and clients are told."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.dev.hadoop_configuration import (  # type: ignore[attr-defined]
    HOST,
    ClusterPlan,
    client_properties,
    configuration_xml,
    daemon_properties,
)
from tests.unit.dev.plans import plan_of

pytestmark = pytest.mark.unit

DIRECTORY = Path("/somewhere/cluster")
# What XML 1.0 can hold; a carriage return would be read back as a line feed.
TEXTS = st.text(st.characters(min_codepoint=0x20, exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"))


def parsed(xml: str) -> dict[str, str]:
    root = ElementTree.fromstring(xml)
    return {each.findtext("name", ""): each.findtext("value", "") for each in root.iter("property")}


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_the_xml_reads_back_whatever_the_values_hold(properties: dict[str, str]) -> None:
    assert parsed(configuration_xml(properties)) == properties


@pytest.mark.parametrize(("namenodes", "datanodes"), [(1, 1), (1, 3), (2, 3), (2, 5)])
def test_no_two_daemons_share_a_port_and_all_listen_on_the_loopback(namenodes: int, datanodes: int) -> None:
    plan = plan_of(namenodes=namenodes, datanodes=datanodes)
    assert len(set(plan.addresses)) == len(plan.addresses) == 2 * namenodes + 3 * datanodes
    assert {address.host for address in plan.addresses} == {HOST}
    assert [node.name for node in plan.namenodes] == [f"nn{i}" for i in range(namenodes)]
    assert [node.name for node in plan.datanodes] == [f"dn{i}" for i in range(datanodes)]
    assert plan.is_ha == (namenodes == 2)


def test_a_wrong_number_of_ports_is_refused() -> None:
    with pytest.raises(ValueError, match="4 ports for 1 NameNodes and 1 DataNodes"):
        ClusterPlan.of_ports((1, 2, 3, 4), namenodes=1, datanodes=1)


@pytest.mark.parametrize(("namenodes", "datanodes"), [(0, 1), (3, 1), (1, 0)])
def test_what_makes_no_cluster_is_refused(namenodes: int, datanodes: int) -> None:
    with pytest.raises(ValueError, match="make no cluster"):
        plan_of(namenodes=namenodes, datanodes=datanodes)


def test_daemons_keep_their_files_apart() -> None:
    plan = plan_of(namenodes=2)
    directories = []
    for node in plan.nodes:
        found = daemon_properties(plan, node, DIRECTORY, {})  # type: ignore[arg-type]
        directories += [found.get("dfs.namenode.name.dir"), found.get("dfs.datanode.data.dir"), found["hadoop.tmp.dir"]]
    given = [directory for directory in directories if directory is not None]
    assert len(set(given)) == len(given) == 2 * len(plan.nodes)


def test_a_datanode_listens_only_where_the_plan_says() -> None:
    plan = plan_of()
    node = plan.datanodes[1]
    found = daemon_properties(plan, node, DIRECTORY, {})
    listening = {name: value for name, value in found.items() if name.startswith("dfs.datanode.") and ":" in value}
    listening.pop("dfs.datanode.data.dir")
    assert listening == {
        "dfs.datanode.address": str(node.transfer),
        "dfs.datanode.ipc.address": str(node.ipc),
        "dfs.datanode.http.address": str(node.http),
    }


def test_each_namenode_of_an_ha_pair_knows_which_it_is_and_all_know_the_shared_edits() -> None:
    plan = plan_of(namenodes=2)
    ids = [daemon_properties(plan, node, DIRECTORY, {}).get("dfs.ha.namenode.id") for node in plan.nodes]  # type: ignore[arg-type]
    assert ids == ["nn0", "nn1", None, None, None]
    edits = {daemon_properties(plan, node, DIRECTORY, {})["dfs.namenode.shared.edits.dir"] for node in plan.nodes}  # type: ignore[arg-type]
    assert edits == {"file:///somewhere/cluster/shared-edits"}


def test_clients_find_both_namenodes() -> None:
    plan = plan_of(namenodes=2)
    found = client_properties(plan)
    service = found["dfs.nameservices"]
    assert found["fs.defaultFS"] == f"hdfs://{service}"
    for node in plan.namenodes:
        assert found[f"dfs.namenode.rpc-address.{service}.{node.name}"] == str(node.rpc)
    assert client_properties(plan_of())["fs.defaultFS"] == "hdfs://127.0.0.1:20000"


@pytest.mark.parametrize(("datanodes", "replication"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_replication_fits_the_number_of_datanodes(datanodes: int, replication: str) -> None:
    plan = plan_of(datanodes=datanodes)
    assert daemon_properties(plan, plan.namenodes[0], DIRECTORY, {})["dfs.replication"] == replication


def test_what_the_caller_gives_wins() -> None:
    plan = plan_of()
    given = {"dfs.replication": "2", "dfs.heartbeat.interval": "1"}
    for node in plan.nodes:
        found = daemon_properties(plan, node, DIRECTORY, given)  # type: ignore[arg-type]
        assert {name: found[name] for name in given} == given
