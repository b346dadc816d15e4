"""Who reads a store on HDFS, and which stores there are none of."""

from __future__ import annotations

import asyncio
import getpass
from pathlib import Path
from random import Random

import pytest

from bmq.hdfs.store import HdfsStore
from bmq.spark.source.storage import StoreUnreadable, open_store

pytestmark = pytest.mark.unit


def reader(option: str = "") -> str:
    """The user of a store opened now; nothing is connected."""

    async def opened() -> str:
        store = open_store("hdfs://namenode:8020/bmq", Random(), hdfs_user=option)
        assert isinstance(store, HdfsStore)
        try:
            return store.config.user
        finally:
            await store.close()

    return asyncio.run(opened())


def test_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.delenv("SPARK_USER", raising=False)
    assert reader() == getpass.getuser()
    monkeypatch.setenv("SPARK_USER", "submitter")
    assert reader() == "submitter"
    monkeypatch.setenv("HADOOP_USER_NAME", "named")
    assert reader() == "named"
    assert reader("by-option") == "by-option"


@pytest.mark.parametrize("root", ["relative/directory", "s3://bucket/bmq", "hdfs://namenode:8020"])
def test_what_names_no_store_is_refused(root: str) -> None:
    with pytest.raises(StoreUnreadable, match=r"bmq\.root"):
        open_store(root, Random())


def test_a_directory_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match="is not on this machine"):
        open_store(f"file:{tmp_path}/elsewhere", Random())
