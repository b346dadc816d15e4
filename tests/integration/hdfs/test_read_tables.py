"""The recipes of docs/TABLES_READ.md on a real HDFS: pyiceberg and DuckDB read by bmq's client, without Spark."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.index.hdfs_files import close_clients
from tests.support.table_files import check_recipes, orders_on

pytestmark = pytest.mark.contract

HOLDER = "test-read-tables"


async def upload(config: HdfsConfig, files: dict[str, bytes]) -> None:
    store = await HdfsStore.open(config, Random(1))
    try:
        await store.make_root()
        for path, content in files.items():
            await store.make_directories(path.rpartition("/")[0])
            await store.write_file(path, content, holder=HOLDER)
    finally:
        await store.close()


def test_the_recipes_of_the_page(hdfs_config: HdfsConfig) -> None:
    namenodes = ",".join(f"{host}:{port}" for host, port in hdfs_config.namenodes)
    warehouse = f"hdfs://{namenodes}{hdfs_config.root}"
    asyncio.run(upload(hdfs_config, orders_on(warehouse)))
    try:
        check_recipes(warehouse)
    finally:
        close_clients()
