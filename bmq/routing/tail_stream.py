"""The proxy's side of the tail streams: a long poll to each owner, for partitions whose end somebody reads here.

A partition is followed from when somebody waits at its end until `tail_idle_ms` after the last such read: a proxy that
only forwards produces gets none of them back. New partitions go out at once in a second poll, which ends the first one.
A lost stream is reopened, and everything is followed again from where its copy stands; until then the copies stay valid
but old.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.internode_client.link import Link, LinkLost
from bmq.internode_client.links import Links
from bmq.log.partition_log import TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode
from bmq.protocol.error_codes import NOT_LEADER_AT_EPOCH
from bmq.protocol.errors import BmqError, MalformedMessage
from bmq.protocol.hot_tail import TAIL_FETCH_VERSION, parse_tail_response
from bmq.protocol.internal_messages import (
    ForgottenTail,
    TailFetchRequest,
    TailFetchResponse,
    TailInterest,
    TailPart,
)
from bmq.routing.remote_log import RemoteLog, error_code_of
from bmq.routing.settings import RouterSettings

TAIL_PURPOSE: Final = "tail"
CHANGES_MAX: Final = 5_000  # in one poll: an owner handles so many in a few milliseconds

_POLLS_MAX: Final = 2
_IDLE_ROUNDS: Final = 2
_RETRY_MIN_MS: Final = 20
_RETRY_MAX_MS: Final = 500

_log = structlog.get_logger("bmq.routing")


class TailStreams:
    """All tail streams of a process. One timer checks for overdue polls and for partitions without readers."""

    def __init__(self, links: Links, config: RouterSettings, random: Random) -> None:
        self._links = links
        self._config = config
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, TailStream] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._round_due_s = 0.0
        self._is_closed = False

    @property
    def followed_count(self) -> int:
        return sum(len(stream) for stream in self._streams.values())

    def follow(self, log: RemoteLog) -> None:
        """Keep the log's remote state current until nobody reads its end any more."""
        if self._is_closed:
            return
        stream = self._streams.get(log.owner)
        if stream is None:
            backoff = Backoff(self._random, first_s=_RETRY_MIN_MS / 1000, max_s=_RETRY_MAX_MS / 1000)
            stream = self._streams[log.owner] = TailStream(log.owner, self._links, self._config, backoff)
        stream.follow(log)
        if self._timer is None:
            self._round_due_s = self._loop.time() + self._config.tail_idle_ms / 1000 / _IDLE_ROUNDS
            self._set_timer()

    def forget(self, log: RemoteLog) -> None:
        """Stop following a closed log."""
        stream = self._streams.get(log.owner)
        if stream is not None:
            stream.forget(log)

    async def close(self) -> None:
        """Stop following everything."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stream in self._streams.values():
            await stream.close()

    def _set_timer(self) -> None:
        pause_s = min(self._config.tail_grace_ms, self._config.tail_idle_ms / _IDLE_ROUNDS) / 1000
        self._timer = self._loop.call_later(pause_s, self._check)

    def _check(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        is_round = now_s >= self._round_due_s
        if is_round:
            self._round_due_s = now_s + self._config.tail_idle_ms / 1000 / _IDLE_ROUNDS
        for stream in self._streams.values():
            stream.give_up_overdue(now_s)
            if is_round:
                stream.forget_idle()
        if any(len(stream) for stream in self._streams.values()):
            self._set_timer()


class _Followed:
    """`poll`: number of the poll that requested it; 0: none. `idle_rounds`: rounds since somebody read its end."""

    __slots__ = ("idle_rounds", "log", "poll")

    def __init__(self, log: RemoteLog) -> None:
        self.log = log
        self.poll = 0
        self.idle_rounds = 0


class TailStream:
    """The tail stream to one owner. Its `len` is the number of partitions it follows."""

    def __init__(self, owner: int, links: Links, config: RouterSettings, backoff: Backoff) -> None:
        self._owner = owner
        self._links = links
        self._config = config
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        self._followed: dict[TopicPartition, _Followed] = {}
        self._added: dict[TopicPartition, None] = {}  # to be sent to the owner with the next poll
        self._forgotten: dict[TopicPartition, None] = {}
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._polls = 0  # under way
        self._poll_number = 0
        self._heard_s = 0.0
        self._is_poll_due = False

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, log: RemoteLog) -> None:
        """Follow the log from where its remote state stands."""
        key = log.topic_partition
        followed = self._followed.get(key)
        if followed is not None and followed.log is log:
            return
        if followed is not None:
            followed.log.is_followed = False
        self._followed[key] = _Followed(log)
        log.is_followed = True
        self._added[key] = None
        self._forgotten.pop(key, None)
        self._poll_soon()

    def forget(self, log: RemoteLog) -> None:
        key = log.topic_partition
        followed = self._followed.get(key)
        if followed is None or followed.log is not log:
            return
        del self._followed[key]
        log.is_followed = False
        self._added.pop(key, None)
        if followed.poll:
            self._forgotten[key] = None

    def forget_idle(self) -> None:
        """One round of looking for partitions that nobody reads any more."""
        for followed in tuple(self._followed.values()):
            if followed.log.is_wanted:
                followed.log.is_wanted = False
                followed.idle_rounds = 0
                continue
            followed.idle_rounds += 1
            if followed.idle_rounds >= _IDLE_ROUNDS:
                self.forget(followed.log)

    def give_up_overdue(self, now_s: float) -> None:
        """Close the link if a poll is overdue: the owner's host may have vanished silently, or the owner hangs."""
        limit_s = (self._config.tail_wait_ms + self._config.tail_grace_ms) / 1000
        if self._link is not None and self._polls and now_s - self._heard_s > limit_s:
            _log.warning("tail_stream_overdue", owner=self._owner, followed=len(self._followed))
            self._link.close()

    async def close(self) -> None:
        for followed in tuple(self._followed.values()):
            self.forget(followed.log)
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        self._link = None

    # --- the link

    async def _connect(self) -> None:
        """Retry until there is a link, or nothing to follow any more."""
        try:
            while self._followed and self._link is None:
                try:
                    link = await self._links.link(self._owner, TAIL_PURPOSE)
                    if link.version(ApiKey.TAIL_FETCH) != TAIL_FETCH_VERSION:
                        raise LinkLost(f"node {self._owner} does not speak TailFetch {TAIL_FETCH_VERSION}")
                except BmqError:
                    await self._backoff.pause()  # the links have logged it
                else:
                    self._begin(link)
        finally:
            self._connecting = None

    def _begin(self, link: Link) -> None:
        """Use a new connection, where everything has to be followed again."""
        self._link = link
        self._polls = 0
        self._forgotten.clear()
        self._added = dict.fromkeys(self._followed)
        for followed in self._followed.values():
            followed.poll = 0
        link.on_lost(partial(self._lost, link))
        self._poll_soon()

    def _lost(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            self._polls = 0
            self._poll_soon()

    # --- polls

    def _poll_soon(self) -> None:
        """Poll in the next turn of the loop, together with other partitions added in this one."""
        if not self._is_poll_due:
            self._is_poll_due = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._is_poll_due = False
        if not self._followed and not self._forgotten:
            return
        link = self._link
        if link is None:
            if self._connecting is None and self._followed:
                self._connecting = self._loop.create_task(self._connect())
            return
        is_news = bool(self._added or self._forgotten)
        if self._polls >= (_POLLS_MAX if is_news else 1):
            return
        self._poll_number += 1
        request = TailFetchRequest(
            max_wait_ms=self._config.tail_wait_ms if self._followed else 0,
            bytes_max=self._config.tail_response_bytes_max,
            added=self._take_added(),
            forgotten=self._take_forgotten(),
        )
        if not self._polls:
            self._heard_s = self._loop.time()
        self._polls += 1
        body = encode("request", ApiKey.TAIL_FETCH, TAIL_FETCH_VERSION, request)
        link.send_frame(ApiKey.TAIL_FETCH, (body,), partial(self._answered, link, self._poll_number))

    def _take_added(self) -> list[TailInterest]:
        added = []
        for key in tuple(self._added)[:CHANGES_MAX]:
            del self._added[key]
            followed = self._followed[key]
            followed.poll = self._poll_number
            added.append(
                TailInterest(
                    topic_id=key.topic_id,
                    partition=key.partition,
                    leader_epoch=followed.log.leader_epoch,
                    offset=followed.log.high_watermark,
                )
            )
        return added

    def _take_forgotten(self) -> list[ForgottenTail]:
        gone = tuple(self._forgotten)[:CHANGES_MAX]
        for key in gone:
            del self._forgotten[key]
        return [ForgottenTail(topic_id=key.topic_id, partition=key.partition) for key in gone]

    def _answered(self, link: Link, poll_number: int, frame: bytearray | None) -> None:
        """Raises MalformedMessage for a malformed answer, which loses the link."""
        if self._link is not link or frame is None:
            return
        self._polls -= 1
        self._heard_s = self._loop.time()
        response: TailFetchResponse = parse_tail_response(frame)
        if response.error_code:
            raise MalformedMessage(f"the poll was refused: {error_code_of(response.error_code).name}")
        self._backoff.reset()
        for part in response.partitions:
            followed = self._followed.get(TopicPartition(part.topic_id, part.partition))
            # Parts of an earlier poll belong to an earlier interest in the partition.
            if followed is not None and followed.poll and followed.poll <= poll_number:
                self._take(followed, part)
        self._poll()

    def _take(self, followed: _Followed, part: TailPart) -> None:
        log = followed.log
        if not part.error_code:
            try:
                log.take(part)
            except BmqError as error:
                raise MalformedMessage(f"the tail of a partition is no run of batches: {error}") from error
            return
        followed.poll = 0  # the owner has dropped it already
        self.forget(log)
        if error_code_of(part.error_code) in NOT_LEADER_AT_EPOCH:
            log.detach()
