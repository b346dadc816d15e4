"""Removes the files of deleted topics in the background, a limited number at a time, until the store confirms.

The metadata image lists what is left to do (`deleted_topics`), so a restart continues where this process stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from uuid import UUID

import structlog

from bmq.aio.backoff import Backoff
from bmq.aio.retries import until_done
from bmq.controller.background import keep_running
from bmq.controller.config import ControllerConfig
from bmq.log.names import topic_directory
from bmq.log.store import FileMissing, SegmentStore, StoreError
from bmq.protocol.errors import BmqError

_log = structlog.get_logger("bmq.controller")


class TopicDeletions:
    """One task for each deleted topic; `topic_deletions_parallel_max` of them delete, the others wait.

    `forget(topic_id)` records that the files are gone; it may fail with BmqError and is then called again.
    """

    def __init__(
        self, store: SegmentStore, config: ControllerConfig, forget: Callable[[UUID], Awaitable[None]]
    ) -> None:
        self._store = store
        self._config = config
        self._forget = forget
        self._slots = asyncio.Semaphore(config.topic_deletions_parallel_max)
        self._tasks: dict[UUID, asyncio.Task[None]] = {}

    def start(self, topic_ids: Iterable[UUID]) -> None:
        """Start removing the topics that are not being removed yet."""
        for topic_id in topic_ids:
            if topic_id not in self._tasks:
                removal = keep_running("remove_topic_files", partial(self._remove, topic_id))
                task = asyncio.get_running_loop().create_task(removal)
                self._tasks[topic_id] = task
                task.add_done_callback(lambda _, topic_id=topic_id: self._tasks.pop(topic_id, None))  # type: ignore[misc]

    async def close(self) -> None:
        """Stop; the next start continues."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _remove(self, topic_id: UUID) -> None:
        await asyncio.sleep(self._config.topic_deletion_delay_ms / 1000)
        await self._until_done(topic_id, self._delete_files)
        _log.info("topic_files_deleted", topic_id=str(topic_id))
        # A slow owner may still create files; those created after the second deletion are found by unknown_topics.
        await asyncio.sleep(self._config.topic_deletion_again_ms / 1000)
        await self._until_done(topic_id, self._delete_and_forget)

    async def _until_done(self, topic_id: UUID, work: Callable[[UUID], Awaitable[None]]) -> None:
        config = self._config
        pauses = Backoff(
            None, first_s=config.topic_deletion_retry_ms / 1000, max_s=config.topic_deletion_retry_max_ms / 1000
        )

        async def attempt() -> None:
            async with self._slots:
                await work(topic_id)

        def pause_s(error: BmqError, _took_s: float) -> float:
            seconds = pauses.next_s()
            retry_ms = round(seconds * 1000)
            _log.warning("topic_files_not_deleted", topic_id=str(topic_id), error=str(error), retry_ms=retry_ms)
            return seconds

        await until_done(attempt, BmqError, pause_s)

    async def _delete_and_forget(self, topic_id: UUID) -> None:
        await self._delete_files(topic_id)
        await self._forget(topic_id)

    async def _delete_files(self, topic_id: UUID) -> None:
        """Partition by partition: one request for a topic of ten thousand would hold up a NameNode."""
        directory = topic_directory(topic_id)
        try:
            entries = await self._store.list_directory(directory)
        except FileMissing:
            return
        for entry in entries:
            await self._store.delete(f"{directory}/{entry.name}", recursive=True)
        if not await self._store.delete(directory, recursive=True) and await self._store.status(directory) is not None:
            raise StoreError(f"{directory} is still there")
