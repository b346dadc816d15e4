"""What may stand behind --zookeeper, and what is said about anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.election.zookeeper_address import BadZooKeeperAddress, ZooKeeperAddress

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "servers", "root"),
    [
        ("zk1:2181", ("zk1:2181",), ""),
        ("zk1", ("zk1:2181",), ""),
        ("zk1:2181/", ("zk1:2181",), ""),
        (" zk1:2181, zk2:2182 ,zk3/bmq ", ("zk1:2181", "zk2:2182", "zk3:2181"), "/bmq"),
        ("zk1:2181/teams/orders/", ("zk1:2181",), "/teams/orders"),
        ("[::1]:2181,[fe80::2]/bmq", ("[::1]:2181", "[fe80::2]:2181"), "/bmq"),
        ("zk1:2181/zookeeper-of-bmq", ("zk1:2181",), "/zookeeper-of-bmq"),
    ],
)
def test_what_is_understood(text: str, servers: tuple[str, ...], root: str) -> None:
    found = ZooKeeperAddress.parse(text)
    assert (found.servers, found.root) == (servers, root)
    assert str(found) == f"{','.join(servers)}{root}"
    assert ZooKeeperAddress.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is not HOST:PORT"),
        ("/bmq", "'' is not HOST:PORT"),
        ("zk1:2181,,zk2", "'' is not HOST:PORT"),
        ("zk1:", "'zk1:' is not HOST:PORT"),
        (":2181", "':2181' is not HOST:PORT"),
        ("zk1:port", "'zk1:port' is not HOST:PORT"),
        ("zk1:21:81", "'zk1:21:81' is not HOST:PORT"),
        ("zk1:٣", "is not HOST:PORT"),
        ("::1:2181", "is not HOST:PORT"),
        ("[::1", "is not HOST:PORT"),
        ("[::1]x", "is not HOST:PORT"),
        ("zk 1", "is not HOST:PORT"),
        ("a..b:2181", "'a..b:2181' is not HOST:PORT"),
        (f"{'a' * 64}:2181", "is not HOST:PORT"),
        ("zk1:0", "0 is no port"),
        ("zk1:65536", "65536 is no port"),
        ("zk1:" + "9" * 5000, "is no port"),
        ("zk1,zk1:2181", "names the same server twice"),
        ("zk1/a//b", "is no plain path"),
        ("zk1/a/../b", "is no plain path"),
        ("zk1/./b", "is no plain path"),
        ("zk1/a b", "is no plain path"),
        ("zk1/a\x00b", "is no plain path"),
        ("zk1/zookeeper", "/zookeeper is ZooKeeper's own"),
        ("zk1/zookeeper/config", "/zookeeper is ZooKeeper's own"),
    ],
)
def test_what_is_not_is_said_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(BadZooKeeperAddress) as refused:
        ZooKeeperAddress.parse(text)
    assert reason in str(refused.value)
    assert str(refused.value).startswith("ZooKeeper '")
    assert len(str(refused.value)) < 400


@given(st.text(max_size=40) | st.text(alphabet="a1:/,.[] ", max_size=20))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        found = ZooKeeperAddress.parse(text)
    except BadZooKeeperAddress:
        return
    assert ZooKeeperAddress.parse(str(found)) == found
