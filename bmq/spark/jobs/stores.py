"""The address of a cluster's log, small enough to send to executors, which open the store themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeVar

from bmq.hdfs.config import HdfsSettings
from bmq.hdfs.delegation_token import DelegationToken
from bmq.log.store import SegmentStore, StorageUnavailable
from bmq.protocol.errors import BmqError
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.source.cluster import ClusterAway, ClusterClient
from bmq.spark.source.options import read_options
from bmq.spark.source.storage import open_store, token_for_executors

PATIENCE_S: Final = 20.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """`url`: hdfs://NAMENODE:PORT/DIR as on the servers, or file:/DIR, which every executor must be able to read.

    `hdfs` None: the client's defaults. `hdfs_token`: how executors log in to a kerberized HDFS.
    """

    url: str
    hdfs_user: str = ""
    hdfs: HdfsSettings | None = None
    hdfs_token: DelegationToken | None = None

    def for_executors(self) -> StoreAddress:
        """The address with a token for a kerberized HDFS, which is renewed while this driver lives. Raises JobFailed,
        BrokenOff.
        """
        with store_errors(self.url):
            token = asyncio.run(token_for_executors(self.url, Random(), hdfs_user=self.hdfs_user, hdfs=self.hdfs))
        return replace(self, hdfs_token=token)

    def run(self, work: Callable[[SegmentStore], Awaitable[T]]) -> T:
        """Run `work` on the opened store, in its own event loop. Raises JobFailed, BrokenOff."""

        async def opened() -> T:
            async with self._opened() as store:
                return await work(store)

        with store_errors(self.url):
            return asyncio.run(opened())

    def stream(self, work: Callable[[SegmentStore], AsyncIterator[T]]) -> Iterator[T]:
        """The items that `work` yields, from an event loop of its own. Raises as `run`."""
        with asyncio.Runner() as runner, store_errors(self.url):
            opened = self._opened()
            store = runner.run(opened.__aenter__())
            try:
                items = work(store)
                while (item := runner.run(_next(items))) is not None:
                    yield item
            finally:
                runner.run(opened.__aexit__(None, None, None))

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[SegmentStore]:
        store = open_store(self.url, Random(), hdfs_user=self.hdfs_user, hdfs=self.hdfs, token=self.hdfs_token)
        try:
            yield store
        finally:
            await store.close()


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Converts the store's errors to JobFailed or BrokenOff."""
    try:
        yield
    except JobFailed:
        raise
    except StorageUnavailable as error:
        raise BrokenOff(f"the store {url}: {error}") from error
    except BmqError as error:  # also a metadata log that is damaged, or of a later release
        raise JobFailed(f"the store {url}: {error}") from error


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)


def store_of(bootstrap: str, *, hdfs_user: str = "") -> StoreAddress:
    """The log's address according to the servers. Raises BrokenOff: no server answers; JobFailed: it is no bmq cluster."""

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
