"""A NameNode that was put back to an older checkpoint, under processes that have seen more (rule 55)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.errors import NamespaceWentBack
from bmq.hdfs.namespace_witness import WITNESS_DIRECTORY
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability, StoreError
from testing.hdfs import PATIENT, config_of, fresh_root, new_cluster, replicas_of, running, until
from tests.support.older_checkpoint import copy_checkpoint, put_back
from tests.support.page_commands import hadoop_tools, run_commands

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(240), pytest.mark.safety]

MIB = 1024 * 1024
HOLDER = "bmq-test"


@pytest.fixture
def old_hdfs(tmp_path: Path) -> Iterator[HdfsCluster]:
    with running(new_cluster(tmp_path / "hdfs", datanodes=1)) as cluster:
        yield cluster


async def test_who_has_seen_more_acknowledges_and_reads_nothing_more(old_hdfs: HdfsCluster, tmp_path: Path) -> None:
    """DataNodes would go on taking bytes for a block that HDFS does not have, and a read would not ask the NameNode."""
    tools = hadoop_tools(tmp_path / "bin", old_hdfs.directory / "conf")
    store = await HdfsStore.open(config_of(old_hdfs, fresh_root("seen"), replication=1, **PATIENT), Random())  # type: ignore[arg-type]
    try:
        failing = asyncio.ensure_future(store.failure())
        copy_checkpoint(old_hdfs, tools, tmp_path / "copy")

        async def has_witness() -> bool:
            await store.make_directories(WITNESS_DIRECTORY)
            return bool(await store.list_directory(WITNESS_DIRECTORY))

        await until(has_witness, 20.0, "there is a witness")
        await store.make_directories("d")
        writer = await store.create_segment("d/open", holder=HOLDER, durability=Durability.HFLUSH, segment_bytes=MIB)
        await store.write_file("d/whole", b"whole", holder=HOLDER)
        whole = await store.status("d/whole")
        assert whole is not None
        assert bytes(await store.read("d/whole", file_id=whole.file_id, position=0, length_bytes=5)) == b"whole"
        assert await writer.append([b"before"]) == 6

        await put_back(old_hdfs, tmp_path / "copy")
        error = await asyncio.wait_for(failing, 60)
        assert isinstance(error, NamespaceWentBack)
        with pytest.raises(StoreError):
            await writer.append([b"after"])
        with pytest.raises(NamespaceWentBack):
            await store.read("d/whole", file_id=whole.file_id, position=0, length_bytes=5)
        with pytest.raises(NamespaceWentBack):
            await store.status("d")
    finally:
        await store.close()


async def test_a_file_id_is_given_again(old_hdfs: HdfsCluster, tmp_path: Path) -> None:
    """What the rule is for: what a process knows of a file by its id is wrong by then."""
    tools = hadoop_tools(tmp_path / "bin", old_hdfs.directory / "conf")
    config = config_of(old_hdfs, fresh_root("again"), replication=1, **PATIENT)  # type: ignore[arg-type]
    old, new = await HdfsStore.open(config, Random()), await HdfsStore.open(config, Random())
    try:
        copy_checkpoint(old_hdfs, tools, tmp_path / "copy")
        await old.write_file("one", b"one", holder=HOLDER)
        first = await old.status("one")
        assert first is not None
        await old.read("one", file_id=first.file_id, position=0, length_bytes=3)
        await old.write_file("later", b"later", holder=HOLDER)

        await put_back(old_hdfs, tmp_path / "copy")
        report = f"hdfs dfsadmin -triggerBlockReport {old_hdfs.plan.datanodes[0].ipc}"
        run_commands(f"hdfs dfsadmin -safemode forceExit && {report}", tools)

        async def is_forgotten() -> bool:
            return not replicas_of(old_hdfs, b"one") and not replicas_of(old_hdfs, b"later")

        # Until then the DataNode takes no block whose id it has already, and each try takes an id.
        await until(is_forgotten, 30.0, "the DataNode has deleted what the NameNode does not know")
        await new.write_file("two", b"two", holder=HOLDER)
        second = await new.status("two")
        assert second is not None and second.file_id == first.file_id
        with pytest.raises(NamespaceWentBack):
            await old.write_file("three", b"three", holder=HOLDER)
        with pytest.raises(NamespaceWentBack):
            await old.read("two", file_id=second.file_id, position=0, length_bytes=3)
        assert bytes(await new.read("two", file_id=second.file_id, position=0, length_bytes=3)) == b"two"
    finally:
        await old.close()
        await new.close()
