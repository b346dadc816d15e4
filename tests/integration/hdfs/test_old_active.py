"""A NameNode that stood still while another one became active, on real HDFS with a quorum journal (rule 15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bmq.dev.daemon import Daemon
from bmq.dev.hadoop_configuration import LOGGING, configuration_xml
from bmq.dev.hdfs import HEAP_MB, HdfsCluster
from bmq.dev.java import QUICK_START_JVM_OPTIONS, java_command
from bmq.dev.namenode_admin import become_active
from bmq.dev.ports import HOST, pick_ports
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability
from testing.hdfs import HADOOP_JARS, config_of, fresh_root, new_cluster, until

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(240), pytest.mark.safety]

JOURNAL = "org.apache.hadoop.hdfs.qjournal.server.JournalNode"


def journal_node(directory: Path, rpc: Address, http: Address) -> Daemon:
    """One is a quorum: what matters here is that it refuses a writer that was replaced, as each of three would."""
    configuration = directory / "conf"
    (configuration / "webapps" / "journal").mkdir(parents=True)
    properties = configuration_xml(
        {
            "dfs.journalnode.rpc-address": str(rpc),
            "dfs.journalnode.http-address": str(http),
            "dfs.journalnode.edits.dir": str(directory / "edits"),
            "hadoop.tmp.dir": str(directory / "tmp"),
            "hadoop.http.filter.initializers": "org.apache.hadoop.http.lib.StaticUserWebFilter",
        }
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (configuration / name).write_text(properties)
    (configuration / "log4j.properties").write_text(LOGGING)
    command = java_command(
        JOURNAL, (), jars=HADOOP_JARS, configuration=configuration, heap_mb=HEAP_MB, options=QUICK_START_JVM_OPTIONS
    )

    async def probe() -> str | None:
        try:
            _, writer = await asyncio.open_connection(*rpc)
        except OSError as error:
            return str(error)
        writer.transport.abort()
        return None

    return Daemon("journal", command, directory / "journal.log", probe)


@asynccontextmanager
async def journalled_cluster(directory: Path) -> AsyncIterator[HdfsCluster]:
    rpc, http = (Address(HOST, port) for port in pick_ports(HOST, 2, Random()))
    journal = journal_node(directory / "journal", rpc, http)
    cluster = new_cluster(
        directory / "hdfs",
        datanodes=1,
        is_ha=True,
        dfs__namenode__shared__edits__dir=f"qjournal://{rpc}/bmq-dev",
    )
    journal.spawn()
    try:
        await journal.wait_ready()
        async with cluster:
            yield cluster
    finally:
        await journal.kill()


@asynccontextmanager
async def store_of(config: HdfsConfig) -> AsyncIterator[HdfsStore]:
    store = await HdfsStore.open(config, Random(1), retry_max_s=60)
    try:
        yield store
    finally:
        await store.close()


async def test_a_look_does_not_pass_at_a_namenode_that_does_not_know_that_it_was_replaced(tmp_path: Path) -> None:
    async with journalled_cluster(tmp_path) as cluster:
        first, second = cluster.namenode(0), cluster.plan.namenodes[1]
        config = replace(config_of(cluster, fresh_root("old-active")), replication=1, retry_max_s=60.0)
        async with store_of(config) as old:
            await old.make_directory("5.open")
            claimed = await old.prove("5.open")
            assert claimed is not None
            assert claimed == await old.status("5.open")

            await first.pause()
            await become_active(second.rpc, 60)
            async with store_of(replace(config, namenodes=(second.rpc,))) as new:
                await new.rename("5.open", "5")
                await new.write_file("5/manifest", b"of the new owner", holder="new")
            await first.resume()

            # The old owner has kept its connection to the old NameNode, and there is nothing that it could notice.
            assert await old.status("5.open") == claimed
            assert await old.prove("5.open") is None
            # The entry that its journal refused has ended the old NameNode.
            assert await first.wait_ended(30) != 0
            assert await old.status("5.open") is None
            sealed = await old.prove("5")
            assert sealed is not None
            assert sealed.file_id == claimed.file_id


async def test_a_process_that_turns_to_an_old_namenode_does_not_believe_what_it_reads(tmp_path: Path) -> None:
    """The active one did not answer for a moment, and the old one is back from its pause."""
    async with journalled_cluster(tmp_path) as cluster:
        first, second = cluster.namenode(0), cluster.namenode(1)
        config = replace(
            config_of(cluster, fresh_root("old-active")), replication=1, rpc_timeout_s=1.0, retry_max_s=60.0
        )
        async with store_of(config) as store:
            await store.make_directory("a")
            await first.pause()
            await become_active(cluster.plan.namenodes[1].rpc, 60)
            await until(lambda: is_there(store, "a"), 60, "the second NameNode serves")
            await store.make_directory("b")
            writer = await store.create_segment("b/f", holder="h", durability=Durability.HFLUSH, segment_bytes=1 << 20)
            await writer.append([b"x" * 1000])
            assert await writer.close() == 1000
            await second.pause()
            await first.resume()
            looking = asyncio.ensure_future(store.status("b"))
            assert await first.wait_ended(30) != 0
            await second.resume()
            found = await looking
            assert found is not None
            assert found.is_directory


async def is_there(store: HdfsStore, path: str) -> bool:
    return await store.status(path) is not None
