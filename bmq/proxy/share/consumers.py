"""Share groups at a proxy: the sessions and calls to shards that all ShareFetch and ShareAcknowledge requests share.

A session ends with its connection. Then the records that its member holds are released, also those still being acquired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import structlog

from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.protocol.errors import BmqError
from bmq.protocol.group_terms_cache import NO_CONFIGS, GroupTermsCache
from bmq.protocol.share_state_messages import (
    NamedPartition,
    ShareAcquireRequest,
    ShareAcquireResponse,
    ShareReleaseRequest,
)
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.share.former_leaders import FormerLeaders
from bmq.proxy.share.group_terms import KAFKAS_DEFAULTS, GroupTerms, ShareDefaults
from bmq.proxy.share.key_reads import KeyReads
from bmq.proxy.share.positions import Positions, ShareWaits
from bmq.proxy.share.sessions import SESSIONS_MAX, ShareSession, ShareSessionCache
from bmq.proxy.share.share_counts import ShareCounts
from bmq.proxy.share.states import ShareStates

if TYPE_CHECKING:
    from bmq.protocol.request_context import Peer
    from bmq.proxy.fetch_resources import FetchResources
    from bmq.proxy.services import Services

RELEASE_ATTEMPTS_MAX: Final = 5
RELEASE_AGAIN_S: Final = 0.2
"""Pause before a release is tried again; doubled each time. After the last try the locks end at their deadlines."""

_log = structlog.get_logger("bmq.proxy")


@dataclass(frozen=True, slots=True)
class _Loss:
    """The callback for the end of a connection. Two for the same connection are equal."""

    consumers: ShareConsumers
    connection: Any

    def __call__(self) -> None:
        self.consumers.lost(self.connection)


class ShareConsumers:
    """One object for all listeners of a process. It uses the resources of the process's Fetcher.

    `opener`: opens batches for groups that keep the order of each key. `defaults()`: returns the default settings of groups; the
    same object while they are the same.
    """

    def __init__(
        self,
        shared: FetchResources,
        states: ShareStates,
        defaults: Callable[[], ShareDefaults] = lambda: KAFKAS_DEFAULTS,
        *,
        sessions_max: int = SESSIONS_MAX,
        opener: BatchOpener | None = None,
        leaders: FormerLeaders | None = None,
    ) -> None:
        self.shared = shared
        self.states = states
        self._terms = GroupTermsCache(defaults, ShareDefaults.terms)
        self.sessions = ShareSessionCache(sessions_max=sessions_max)
        self.leaders = FormerLeaders() if leaders is None else leaders
        self.positions = Positions()
        self.waits = ShareWaits(states, self.positions, shared.spawn, shared.loop.call_later)
        self.key_reads = KeyReads(opener or BatchOpener())
        self.counts = ShareCounts()
        self._acquiring: dict[asyncio.Task[ShareAcquireResponse], None] = {}

    def terms(self, services: Services, group_id: str) -> GroupTerms:
        return self._terms(group_id, services.controller.image.group_configs.get(group_id, NO_CONFIGS))

    def watch(self, peer: Peer | None) -> None:
        """Have `lost` called when the connection ends."""
        if peer is not None:
            peer.on_lost(_Loss(self, peer))

    def lost(self, connection: Any) -> None:
        """End the sessions of a connection that ended, and release the records that their members hold."""
        for session in self.sessions.lost(connection):
            self._release_soon(session)
        self._forget_leaders()

    def end(self, session: ShareSession) -> None:
        """End a session that its client has closed, and release the records that its member holds."""
        self.sessions.end(session)
        self._release_soon(session)
        self._forget_leaders()

    async def acquire(self, session: ShareSession, request: ShareAcquireRequest) -> ShareAcquireResponse:
        """Acquire records from the shards. If the session ends meanwhile, they are released. Raises KafkaError."""
        session.incarnation = request.node_id, request.node_epoch
        for one in request.partitions:
            if one.batches:
                session.touched[one.topic_id, one.partition] = None
        began_s = self.shared.loop.time()
        local = self.states.here(request)
        if local is not None:
            try:
                return await local.acquire(request)
            finally:
                self._acquired(session, began_s)
        task = self.shared.loop.create_task(self.states.acquire(request))
        self._acquiring[task] = None

        def acquired(done: asyncio.Task[ShareAcquireResponse]) -> None:
            self._acquiring.pop(done, None)
            if not done.cancelled() and done.exception() is not None and not isinstance(done.exception(), BmqError):
                _log.error("share_acquire_failed", error=repr(done.exception()))
            self._acquired(session, began_s)

        task.add_done_callback(acquired)
        # A request is cancelled with its connection, but other nodes may carry out the acquisition all the same.
        return await asyncio.shield(task)

    def _acquired(self, session: ShareSession, began_s: float) -> None:
        self.counts.acquires += 1
        self.counts.acquire_s += self.shared.loop.time() - began_s
        if session.is_over:
            self._release_soon(session)

    def released(self, group_id: str, topic_partition: TopicPartition) -> None:
        """Note that this proxy has released records of the partition, so that its fetches ask the shard where to read."""
        key = group_id, topic_partition
        self.positions.forget(key)
        self.waits.wake(key)

    async def close(self) -> None:
        """Cancel all calls. The shards release the locks of a proxy that has ended."""
        tasks = tuple(self._acquiring)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget_leaders(self) -> None:
        if not len(self.sessions):
            self.leaders.forget()

    def _release_soon(self, session: ShareSession) -> None:
        if session.touched and not self.shared.is_stopping:
            self.shared.spawn(self._release(session))

    async def _release(self, session: ShareSession) -> None:
        group_id, member_id = session.key
        node_id, node_epoch = session.incarnation
        left: Iterable[tuple[Any, int]] = tuple(session.touched)
        again_s = RELEASE_AGAIN_S
        for attempt in range(RELEASE_ATTEMPTS_MAX):
            if attempt:
                await asyncio.sleep(again_s)
                again_s *= 2
            request = ShareReleaseRequest(
                group_id=group_id,
                member_id=member_id,
                node_id=node_id,
                node_epoch=node_epoch,
                session=session.number,
                partitions=[NamedPartition(topic_id=topic_id, partition=number) for topic_id, number in left],
            )
            try:
                response = await self.states.release(request)
            except BmqError as error:
                _log.info("share_release_failed", group=group_id, member=member_id, error=str(error))
                continue
            for one in response.partitions:
                if not one.error_code:
                    self.released(group_id, TopicPartition(one.topic_id, one.partition))
            left = tuple((one.topic_id, one.partition) for one in response.partitions if one.error_code)
            if not left:
                return
