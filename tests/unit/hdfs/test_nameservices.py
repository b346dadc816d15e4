"""What Hadoop's configuration says about NameNodes, and stores that are named by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.hdfs.config import Address, HdfsSettings
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.location import BadLocation, located
from bmq.hdfs.nameservices import (
    BadNameservice,
    default_authority,
    namenodes_of,
    nameservices_with,
    replication_of,
)

pytestmark = pytest.mark.unit

HA = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": " lake , archive ",
    "dfs.ha.namenodes.lake": "nn1, nn2,nn3",
    "dfs.namenode.rpc-address.lake.nn1": "one:8020",
    "dfs.namenode.rpc-address.lake.nn2": "two:9820",
    "dfs.namenode.rpc-address.lake.nn3": "three",
    "dfs.namenode.rpc-address.archive": "[::1]:8021",
    "dfs.replication": "2",
    "some.key.nobody.knows": "x",
}
LAKE = (Address("one", 8020), Address("two", 9820), Address("three", 8020))


@pytest.mark.parametrize(
    ("url", "namenodes"),
    [
        ("hdfs://lake/bmq", LAKE),
        ("hdfs:///bmq", LAKE),
        ("hdfs://archive/bmq", (Address("::1", 8021),)),
        ("hdfs://elsewhere/bmq", (Address("elsewhere", 8020),)),
        ("hdfs://lake:8020/bmq", (Address("lake", 8020),)),
    ],
    ids=["ha", "the default file system", "without ha", "a host", "a host with a port"],
)
def test_a_store_is_found_by_the_name_of_a_nameservice(url: str, namenodes: tuple[Address, ...]) -> None:
    config = located(url, HdfsSettings(), system_user="ann", hadoop=HA)
    assert (config.namenodes, config.root, config.replication) == (namenodes, "/bmq", 2)


def test_the_own_setting_of_replicas_counts_more_than_hadoops() -> None:
    assert located("hdfs://lake/bmq", HdfsSettings(replication=5), system_user="ann", hadoop=HA).replication == 5
    assert located("hdfs://nn/bmq", HdfsSettings(), system_user="ann").replication == 3


@pytest.mark.parametrize(
    ("changed", "url", "message"),
    [
        (
            {"dfs.namenode.rpc-address.lake.nn2": None},
            "hdfs://lake/b",
            r"does not set dfs\.namenode\.rpc-address\.lake\.nn2",
        ),
        ({"dfs.namenode.rpc-address.lake.nn2": "two:x"}, "hdfs://lake/b", "'two:x': HOST:PORT is needed"),
        ({"dfs.namenode.rpc-address.lake.nn2": "u@two:1"}, "hdfs://lake/b", "HOST:PORT is needed"),
        ({"dfs.namenode.rpc-address.lake.nn2": "two:0"}, "hdfs://lake/b", "HOST:PORT is needed"),
        ({"dfs.namenode.rpc-address.lake.nn2": "one:8020"}, "hdfs://lake/b", "the same NameNode twice"),
        (
            {"dfs.ha.namenodes.lake": None},
            "hdfs://lake/b",
            r"does not set dfs\.namenode\.rpc-address\.lake$|does not set",
        ),
        ({"fs.defaultFS": "viewfs://x/"}, "hdfs:///b", "fs.defaultFS is 'viewfs://x/'"),
        ({"fs.defaultFS": "hdfs://[x"}, "hdfs:///b", r"fs.defaultFS is 'hdfs://\[x'"),
        ({"fs.defaultFS": None}, "hdfs:///b", "names no NameNode, and fs.defaultFS is not set"),
        ({"dfs.replication": "many"}, "hdfs://lake/b", "dfs.replication of hdfs-site.xml is 'many'"),
        ({"dfs.replication": "0"}, "hdfs://lake/b", "1 to 512 is needed"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_sentence(
    changed: dict[str, str | None], url: str, message: str
) -> None:
    properties = {name: value for name, value in (HA | changed).items() if value is not None}
    with pytest.raises(BadLocation, match=message):
        located(url, HdfsSettings(), system_user="ann", hadoop=properties)


def test_the_former_name_of_the_default_file_system_counts_too() -> None:
    assert default_authority({"fs.default.name": "hdfs://old:8020/"}) == "old:8020"
    with pytest.raises(BadNameservice):
        default_authority({})


def test_a_name_that_is_no_nameservice_is_left_to_the_caller() -> None:
    assert namenodes_of("one", HA) is None
    assert replication_of({}) == 3


def test_tokens_are_looked_for_under_the_nameservices_of_the_namenodes() -> None:
    assert nameservices_with(LAKE, HA) == ("lake",)
    assert nameservices_with((*LAKE, Address("::1", 8021)), HA) == ("lake", "archive")
    assert nameservices_with(LAKE[:1], HA) == ()
    assert nameservices_with(LAKE, HA | {"dfs.namenode.rpc-address.lake.nn2": ""}) == ()


def test_a_directory_of_hadoop_is_enough_to_find_a_store(tmp_path: Path) -> None:
    lines = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in HA.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{lines}</configuration>")
    found = hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path)})
    assert located("hdfs://lake/bmq", HdfsSettings(), system_user="ann", hadoop=found).namenodes == LAKE
