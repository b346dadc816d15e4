"""The owner's side of the tail streams: one session for each connection over which partitions are followed.

A session answers at once when its feed has news, else when a followed partition moves, or when the poll's time is over.
A newer poll of the same connection ends the one before, so that a proxy can change what it follows without waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from bmq.internode_server.tail_feed import OwnedLog, SentPart, TailFeed
from bmq.log.partition_log import TopicPartition
from bmq.protocol.internal_messages import TailFetchRequest
from bmq.protocol.request_context import Peer

WAIT_MS_MAX: Final = 60_000
BYTES_MAX: Final = 16 * 1024 * 1024

Answer = Callable[[Sequence[SentPart]], None]


class WatchedLog(OwnedLog, Protocol):
    """A log that reports when it moves."""

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]: ...


class OwnedPartitions(Protocol):
    """The partitions owned in this process (bmq.broker.manager.PartitionManager)."""

    def ready(self, topic_partition: TopicPartition) -> WatchedLog | None: ...


class TailSessions:
    """Sessions by connection; a session ends with its connection."""

    def __init__(self) -> None:
        self._sessions: dict[Peer, TailSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, peer: Peer, partitions: OwnedPartitions) -> TailSession:
        """The connection's session, made when it is first asked for."""
        session = self._sessions.get(peer)
        if session is None:
            session = self._sessions[peer] = TailSession(partitions)
            peer.on_lost(partial(self._end, peer))
        return session

    def _end(self, peer: Peer) -> None:
        self._sessions.pop(peer).close()


class TailSession:
    """All calls come from one event loop, which runs when it is made."""

    def __init__(self, partitions: OwnedPartitions) -> None:
        self._partitions = partitions
        self._loop = asyncio.get_running_loop()
        self._feed = TailFeed()
        self._watches: dict[TopicPartition, Callable[[], None]] = {}  # functions that cancel each watch
        self._moved: dict[TopicPartition, None] = {}  # not watched now: their news has not been sent yet
        self._answer: Answer | None = None  # of the waiting poll
        self._bytes_max = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_answer_due = False

    def fetch(self, request: TailFetchRequest, answer: Answer) -> None:
        """Call `answer` once, now or later, with the news; with nothing when the poll ends without any."""
        self._end_poll()
        for gone in request.forgotten:
            self._unwatch(TopicPartition(gone.topic_id, gone.partition))
        self._feed.change(request.added, request.forgotten)
        for wanted in request.added:
            self._moved[TopicPartition(wanted.topic_id, wanted.partition)] = None
        self._answer = answer
        self._bytes_max = min(max(request.bytes_max, 1), BYTES_MAX)
        self._answer_if_moved()
        if self._answer is not None:
            wait_ms = min(max(request.max_wait_ms, 0), WAIT_MS_MAX)
            self._timer = self._loop.call_later(wait_ms / 1000, self._end_poll)

    def close(self) -> None:
        """The connection is gone: stop answering."""
        self._answer = None
        self._stop_timer()
        for take_back in self._watches.values():
            take_back()
        self._watches.clear()

    # --- answering

    def _answer_if_moved(self) -> None:
        """Answer the poll if there is news."""
        self._is_answer_due = False
        if self._answer is None:
            return
        moved, self._moved = self._moved, {}
        for key in moved:
            self._watch(key)
        parts = self._feed.collect(self._bytes_max, self._partitions.ready)
        if parts:
            for one in parts:
                if one.part.error_code:
                    self._unwatch(TopicPartition(one.part.topic_id, one.part.partition))
            self._reply(parts)

    def _advanced(self, key: TopicPartition) -> None:
        self._watches.pop(key, None)
        self._moved[key] = None
        self._feed.moved(key)
        if self._answer is not None and not self._is_answer_due:
            # Look at the end of the turn, since other partitions may move in the same turn of the loop.
            self._is_answer_due = True
            self._loop.call_soon(self._answer_if_moved)

    def _watch(self, key: TopicPartition) -> None:
        log = self._partitions.ready(key)
        if log is not None and key not in self._watches and self._feed.follows(key):
            self._watches[key] = log.on_advance(partial(self._advanced, key))

    def _unwatch(self, key: TopicPartition) -> None:
        self._moved.pop(key, None)
        take_back = self._watches.pop(key, None)
        if take_back is not None:
            take_back()

    # --- answering

    def _reply(self, parts: Sequence[SentPart]) -> None:
        answer, self._answer = self._answer, None
        self._stop_timer()
        if answer is not None:
            answer(parts)

    def _end_poll(self) -> None:
        self._reply(())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
