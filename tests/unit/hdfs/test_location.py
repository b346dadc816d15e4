from __future__ import annotations

import pytest

from bmq.hdfs.config import Address, HdfsSettings
from bmq.hdfs.location import BadLocation, located

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("url", "namenodes", "root"),
    [
        ("hdfs://nn/bmq", [("nn", 8020)], "/bmq"),
        ("hdfs://10.0.0.1:9820/a/b/", [("10.0.0.1", 9820)], "/a/b"),
        ("hdfs://one:1,two:2/x//y", [("one", 1), ("two", 2)], "/x/y"),
        ("hdfs://[::1]:9820/bmq", [("::1", 9820)], "/bmq"),
        ("hdfs://[::1]/bmq", [("::1", 8020)], "/bmq"),
    ],
)
def test_a_url_names_the_namenodes_and_the_directory(url: str, namenodes: list[tuple[str, int]], root: str) -> None:
    config = located(url, HdfsSettings(replication=2), system_user="ann")
    assert config.namenodes == tuple(Address(*namenode) for namenode in namenodes)
    assert (config.root, config.user, config.replication) == (root, "ann", 2)


def test_a_user_that_was_set_is_kept() -> None:
    assert located("hdfs://nn/bmq", HdfsSettings(user="bmq"), system_user="ann").user == "bmq"


@pytest.mark.parametrize(
    "url",
    [
        "hdfs:",
        "hdfs://",
        "hdfs:///bmq",
        "hdfs://nn",
        "hdfs://nn/",
        "hdfs://nn//",
        "hdfs://nn:/bmq",
        "hdfs://nn:http/bmq",
        "hdfs://nn:0/bmq",
        "hdfs://nn:65536/bmq",
        "hdfs://nn,/bmq",
        "hdfs://nn,nn:8020/bmq",
        "hdfs://[::1/bmq",
        "hdfs://[::1]9/bmq",
        "hdfs://nn/../bmq",
        "hdfs://nn/a/./b",
        "hdfs://nn/a?b",
        "hdfs:/nn/bmq",
    ],
)
def test_anything_else_is_refused_with_a_sentence_that_names_it(url: str) -> None:
    with pytest.raises(BadLocation, match="store 'hdfs:"):
        located(url, HdfsSettings(), system_user="ann")
