"""The address of a cluster's log, small enough to send to executors, which open the store themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from bmq.hdfs.config import HdfsSettings
from bmq.log.store import SegmentStore, StorageUnavailable
from bmq.protocol.errors import BmqError
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.source.cluster import ClusterAway, ClusterClient
from bmq.spark.source.options import read_options
from bmq.spark.source.storage import open_store

PATIENCE_S: Final = 20.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """`url`: hdfs://NAMENODE:PORT/DIR as on the servers, or file:/DIR, which every executor must be able to read.

    `hdfs` None: the client's defaults.
    """

    url: str
    hdfs_user: str = ""
    hdfs: HdfsSettings | None = None

    def run(self, work: Callable[[SegmentStore], Awaitable[T]]) -> T:
        """Run `work` on the opened store, in its own event loop. Raises JobFailed, BrokenOff."""

        async def opened() -> T:
            async with self._opened() as store:
                return await work(store)

        try:
            return asyncio.run(opened())
        except JobFailed:
            raise
        except StorageUnavailable as error:
            raise BrokenOff(f"the store {self.url}: {error}") from error
        except BmqError as error:  # also a metadata log that is damaged, or of a later release
            raise JobFailed(f"the store {self.url}: {error}") from error

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[SegmentStore]:
        store = open_store(self.url, Random(), hdfs_user=self.hdfs_user, hdfs=self.hdfs)
        try:
            yield store
        finally:
            await store.close()


def store_of(bootstrap: str, *, hdfs_user: str = "") -> StoreAddress:
    """The log's address according to the servers. Raises BrokenOff: nobody answers; JobFailed: it is no bmq cluster."""

    async def ask() -> str:
        options = read_options({"kafka.bootstrap.servers": bootstrap, "subscribe": "any"}, is_stream=False)
        client = ClusterClient(
            options.bootstrap, "bmq-jobs", Random(), timeout_s=options.request_timeout_s, patience_s=PATIENCE_S
        )
        try:
            return await client.root()
        finally:
            await client.close()

    try:
        root = asyncio.run(ask())
    except ClusterAway as error:
        raise BrokenOff(str(error)) from error
    except BmqError as error:
        raise JobFailed(str(error)) from error
    if not root:
        raise JobFailed(f"the servers at {bootstrap} do not say where the log is; name it with --store")
    return StoreAddress(root, hdfs_user)
