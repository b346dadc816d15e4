"""Opens the store that the settings name, with retries, since HDFS may not be up yet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from bmq.hdfs.location import is_hdfs, located, system_user
from bmq.log.store import SegmentStore
from bmq.protocol.errors import BmqError
from bmq.server.start_retry import TRY_AGAIN_S, StartRetry, is_store_silent

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from bmq.hdfs.config import HdfsSettings


class StoreSettings(Protocol):
    """The settings of a store: bmq.server.settings.Settings, or a part of it."""

    @property
    def store(self) -> str: ...

    @property
    def data(self) -> Path: ...

    @property
    def hdfs(self) -> HdfsSettings: ...

    @property
    def start_wait_ms(self) -> int: ...


@runtime_checkable
class Counting(Protocol):
    """A store with counters of its own."""

    @property
    def collector(self) -> Collector: ...


@runtime_checkable
class OnDataNodes(Protocol):
    """A store whose files are on DataNodes, of which some may be left out of new blocks."""

    @property
    def bad_nodes(self) -> CurrentNodes: ...


class CurrentNodes(Protocol):
    """DataNodes that failed lately."""

    def current(self) -> Sized: ...


@runtime_checkable
class MayFail(Protocol):
    """A store that may find out that its process has to end."""

    async def failure(self) -> BmqError: ...


class UnknownStore(BmqError):
    """A store URL with an unknown scheme."""


async def open_store(settings: StoreSettings, random: Random) -> SegmentStore:
    """Open the store. Raises UnknownStore, BadLocation, BadSecurity, StoreNotReady, RootError or another StoreError, each
    with one sentence.
    """
    if is_hdfs(settings.store):
        # Import only the store in use: the other one would slow down the start.
        from bmq.hdfs.hadoop_site import hadoop_properties
        from bmq.hdfs.store import HdfsStore

        config = located(settings.store, settings.hdfs, system_user=system_user(), hadoop=hadoop_properties(os.environ))
        retry = StartRetry(settings.start_wait_ms)
        store = HdfsStore(config, random)
        try:
            await retry.until_done(lambda: store.make_root(retry_max_s=TRY_AGAIN_S), may_pass=is_store_silent)
        except BaseException:
            await store.close()
            raise
        return store
    if settings.store and not settings.store.startswith("file:"):
        scheme = settings.store.partition(":")[0]
        raise UnknownStore(
            f"store {settings.store!r}: there is no store for {scheme!r} URLs; file:DIR and hdfs://… are served"
        )
    return _local_store(_local_path(settings), is_root_locked=True)


async def open_store_beside(settings: StoreSettings, random: Random) -> SegmentStore:
    """As `open_store`, for a reader that may run beside a server: takes no lock and creates nothing."""
    if is_hdfs(settings.store) or (settings.store and not settings.store.startswith("file:")):
        return await open_store(settings, random)
    path = _local_path(settings)
    if not path.is_dir():
        raise UnknownStore(
            f"the embedded store {path} does not exist; name one with --data, or an hdfs:// one with --store"
        )
    return _local_store(path, is_root_locked=False)


@asynccontextmanager
async def opened_beside(settings: StoreSettings) -> AsyncIterator[SegmentStore]:
    """As `open_store_beside`; closes the store at the end."""
    store = await open_store_beside(settings, Random())
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def failing_with(store: SegmentStore, failed: asyncio.Future[None]) -> AsyncIterator[None]:
    """Meanwhile look whether the process has to end because of its store: then `failed` gets the reason."""
    if not isinstance(store, MayFail):
        yield
        return

    async def watch(store: MayFail) -> None:
        error = await store.failure()
        if not failed.done():
            failed.set_exception(error)
            failed.exception()  # waiting callers still get it; without any, asyncio would log a warning

    watching = asyncio.get_running_loop().create_task(watch(store))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()


def register_metrics(store: SegmentStore, registry: CollectorRegistry) -> None:
    """Export the store's counters on /metrics."""
    if isinstance(store, Counting):
        registry.register(store.collector)


def _local_store(path: Path, *, is_root_locked: bool) -> SegmentStore:
    from bmq.local_store.store import LocalStore

    return LocalStore(path, is_root_locked=is_root_locked)


def _local_path(settings: StoreSettings) -> Path:
    return Path(settings.store.removeprefix("file:").removeprefix("//")) if settings.store else settings.data
