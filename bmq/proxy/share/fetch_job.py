"""The records of one ShareFetch: read, acquire, and wait for more, until there are some or the time is over.

A round reads each partition of the session at its expected position, and asks the shards to acquire records that were read. Their
answer has the next position, so one round is usual. Errors of partitions shorten no wait, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.share_state_messages import (
    AcquiredPartition,
    AcquiredRange,
    AcquirePartition,
    ShareAcquireRequest,
)
from bmq.protocol.turns import NO_TURNS, Pace, Turns
from bmq.proxy.share.partition_reads import NOTHING, Offer, acquire_of, question_of, read_offer, reset_offset
from bmq.proxy.share.positions import FULL
from bmq.proxy.share.read_batches import records_around

if TYPE_CHECKING:
    from bmq.proxy.services import Services
    from bmq.proxy.share.consumers import ShareConsumers
    from bmq.proxy.share.group_terms import GroupTerms
    from bmq.proxy.share.sessions import ShareSession

ROUNDS_MAX: Final = 16
"""Most rounds in a row. If they bring no records, the answer is empty and the client asks again."""
AGAIN_S: Final = 0.1
"""Pause before a shard or an owner that could not be reached is asked again."""
BARRED_S: Final = 1.0
"""Pause before a shard is asked again that gives the partition's records to another member only."""
IDLE_PARTITIONS_MAX: Final = 64
"""Most partitions of which a fetch checks at once whether all are idle; more are checked in a round, which yields."""
LOOK_S: Final = 1.0
"""Pause before a shard that keeps the order of keys is asked again: a member that does not ask gets no more keys."""
_TOLD: Final = frozenset(
    (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
)
"""Errors of reads that are sent to clients; others are retried."""

_log = structlog.get_logger("bmq.proxy")


class Wanted(NamedTuple):
    """The limits of a request. `max_bytes`: those of all partitions together."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: int


class Found(NamedTuple):
    """A partition's records: whole batches, and the ranges of their records that were acquired."""

    views: Sequence[memoryview]
    acquired: Sequence[AcquiredRange]


class _PartitionState:
    """One partition of the fetch.

    `reset`: the partition's start offset, to be sent to its shard. `bound_offset`, `seen`: the log's end and the position as the
    round saw them. `barred_until_s`: until then the shard is not asked, because another member has the partition. `place_key`:
    key of the position; in a group that keeps the order of keys a member has its own. `is_asked`: whether its shard was asked
    since this job began to read or to wait.
    """

    __slots__ = (
        "barred_until_s",
        "bound_offset",
        "error_code",
        "is_asked",
        "log",
        "place_key",
        "position_key",
        "reset",
        "seen",
        "topic_partition",
    )

    def __init__(self, group_id: str, topic_partition: TopicPartition, own: str = "") -> None:
        self.topic_partition = topic_partition
        self.position_key = (group_id, topic_partition)
        self.place_key = (f"{group_id}{own}", topic_partition)
        self.is_asked = False
        self.log: PartitionLog | None = None
        self.bound_offset = -1
        self.seen: tuple[int, int] | None = None
        self.reset = -1
        self.error_code = ErrorCode.NONE
        self.barred_until_s = 0.0


class _Asked(NamedTuple):
    state: _PartitionState
    log: PartitionLog | None  # None: it is not started yet
    offset: int  # where it was read; -1: a question without a read
    offer: Offer
    part: AcquirePartition


class ShareFetchJob:
    """Fetches for one ShareFetch. Call `run` once; then `found`, `errors`, `lock_timeout_ms`, `size_bytes` have the outcome."""

    def __init__(
        self,
        consumers: ShareConsumers,
        services: Services,
        session: ShareSession,
        partitions: Sequence[TopicPartition],
        wanted: Wanted,
        terms: GroupTerms,
        turns: Turns = NO_TURNS,
    ) -> None:
        self._consumers = consumers
        self._shared = consumers.shared
        self._services = services
        self._session = session
        self._wanted = wanted
        self._terms = terms
        self._turns = turns
        own = f"\0{session.key[1]}" if terms.is_keyed else ""
        self._states = [_PartitionState(session.key[0], one, own) for one in partitions]
        loop, config = self._shared.loop, self._shared.config
        self._deadline_s = loop.time() + min(max(wanted.max_wait_ms, 0), config.fetch_wait_ms_max) / 1000
        self._is_retried = False  # whether a shard or an owner could not be reached in this round
        self._is_current = False  # whether the shards were asked, or waited for, since the job began
        self._asks_all = False
        self._woken: asyncio.Future[None] | None = None
        self.found: dict[TopicPartition, Found] = {}
        self.lock_timeout_ms = terms.lock_timeout_ms
        self.size_bytes = 0

    @property
    def errors(self) -> dict[TopicPartition, ErrorCode]:
        return {state.topic_partition: state.error_code for state in self._states if state.error_code}

    async def run(self) -> None:
        """Fetch until there are records, the time is over, or no records can come."""
        if not self._states or self._wanted.max_records <= 0 or self._wanted.max_bytes <= 0:
            return
        rounds = 0
        while True:
            is_due = self._is_due()
            if (self._is_current or not is_due) and self._is_idle():
                if is_due:
                    return
                self._is_retried = False
                await self._wait()
                rounds = 0
                continue
            rounds += 1
            self._is_retried = False
            asked = await self._read(is_due)
            has_moved = bool(asked) and await self._acquire(asked)
            if self.found or rounds >= ROUNDS_MAX:
                return
            if not has_moved:
                if is_due and (self._is_current or self._is_retried):
                    return
                if is_due:
                    self._asks_all = True  # the positions may be old: other members may have released records
                    continue
                if not any(self._has_changed(state) for state in self._states):
                    await self._wait()
                rounds = 0

    # --- reading

    def _is_idle(self) -> bool:
        """Whether a round would neither read nor ask a shard, because each partition is read to its end, or full."""
        if self._terms.is_keyed or self._asks_all or len(self._states) > IDLE_PARTITIONS_MAX:
            return False
        positions, ready = self._consumers.positions, self._services.partitions.ready
        for state in self._states:
            log, position = ready(state.topic_partition), positions.get(state.place_key)
            if log is None or position is None or state.reset >= 0 or state.error_code or state.barred_until_s:
                return False
            bound_offset, offset = self._bound_offset(log), position.next_offset
            if offset != FULL and offset < bound_offset and log.log_start_offset < bound_offset:
                return False
            state.log, state.bound_offset, state.seen = log, bound_offset, (offset, position.version)
        return True

    async def _read(self, is_due: bool) -> list[_Asked]:
        """Read the partitions. Returns questions to the shards, and offers if they have enough bytes or the time is over."""
        wanted, consumers = self._wanted, self._consumers
        left_records = wanted.max_records
        each_bytes = max(1, min(wanted.max_bytes, self._shared.config.fetch_max_bytes) // len(self._states))
        questions: list[_Asked] = []
        offers: list[_Asked] = []
        pace = Pace()
        for state in self._states:
            if pace.is_over():
                await self._turns.next()
            log = self._log_of(state)
            position = consumers.positions.get(state.place_key)
            if log is None:
                if position is None and not self._terms.is_keyed:
                    # After the end of a node the log and the state may both have to be started: at the same time.
                    questions.append(self._question(state, None))
                continue
            state.bound_offset = self._bound_offset(log)
            state.seen = None if position is None else (position.next_offset, position.version)
            if state.barred_until_s > self._shared.loop.time():
                continue
            state.barred_until_s = 0.0
            if position is None or state.reset >= 0 or self._asks_all:
                questions.append(self._question(state, log))
                continue
            offset = position.next_offset
            offer = NOTHING
            if offset != FULL and left_records > 0:
                offer = await self._offer(state, log, offset, each_bytes, left_records)
            if offer is not NOTHING:
                part = acquire_of(log, offer, left_records, wanted.batch_size)
                if self._terms.is_keyed:
                    reads = consumers.key_reads
                    part.hash_offset, part.key_hashes = await reads.hashes(
                        log, offer.batches, offer.views, offer.unseen, offset
                    )
                    state.is_asked = True
                offers.append(_Asked(state, log, offset, offer, part))
                left_records -= offer.record_count
            elif self._terms.is_keyed and not state.is_asked:
                questions.append(self._question(state, log))
        self._asks_all = False
        # A fetch that gets all the records that it may have does not wait for more bytes.
        if not is_due and left_records > 0 and sum(one.offer.size_bytes for one in offers) < wanted.min_bytes:
            return questions
        if not self._terms.is_keyed:  # there, other members may get records of the same read
            for one in offers:
                consumers.positions.pass_on(one.state.place_key, one.offer.taken_offset)
        return [*questions, *offers]

    def _question(self, state: _PartitionState, log: PartitionLog | None) -> _Asked:
        """A request that asks the shard for the member's position, and offers no records."""
        self._is_current = state.is_asked = True
        part = question_of(state.topic_partition, log, self._wanted.batch_size)
        part.reset_offset = state.reset
        return _Asked(state, log, -1, NOTHING, part)

    async def _offer(
        self, state: _PartitionState, log: PartitionLog, offset: int, size_bytes: int, records_max: int
    ) -> Offer:
        try:
            offer = await read_offer(
                self._shared,
                log,
                offset,
                size_bytes,
                is_read_committed=self._terms.is_read_committed,
                records_max=records_max,
                mode=self._wanted.mode,
            )
        except BmqError as error:
            self._failed(state, error)
            return NOTHING
        state.error_code = ErrorCode.NONE
        return offer

    def _log_of(self, state: _PartitionState) -> PartitionLog | None:
        log = self._services.partitions.ready(state.topic_partition)
        if log is None:
            self._shared.starts.start(self._services.partitions, state.topic_partition, self._started)
        state.log = log
        return log

    def _started(self, _: TopicPartition, code: ErrorCode) -> None:
        if code:
            self._shared.loop.call_later(AGAIN_S, self._wake)
        else:
            self._wake()

    def _bound_offset(self, log: PartitionLog) -> int:
        return log.last_stable_offset if self._terms.is_read_committed else log.high_watermark

    def _failed(self, state: _PartitionState, error: BmqError) -> None:
        self._is_retried = True
        if error.code in _TOLD:
            state.error_code = error.code
            _log.warning(
                "share_fetch_failed",
                group=self._session.key[0],
                topic_id=str(state.topic_partition.topic_id),
                partition=state.topic_partition.partition,
                error=str(error),
            )

    # --- acquiring

    async def _acquire(self, asked: Sequence[_Asked]) -> bool:
        """Send questions and offers to the shards. Returns whether another round may find more at once."""
        group_id, member_id = self._session.key
        node = self._services.node
        known = self._services.controller.image.nodes.get(node.node_id, node)
        request = ShareAcquireRequest(
            group_id=group_id,
            member_id=member_id,
            node_id=known.node_id,
            node_epoch=known.epoch,
            session=self._session.number,
            mode=self._wanted.mode,
            partitions=[one.part for one in asked],
        )
        try:
            response = await self._consumers.acquire(self._session, request)
        except BmqError as error:
            for one in asked:
                self._refused(one, error.code)
            return False
        has_moved = False
        pace = Pace()
        for one, answer in zip(asked, response.partitions, strict=True):
            if pace.is_over():
                await self._turns.next()
            if answer.error_code:
                self._refused(one, ErrorCode(answer.error_code))
            elif answer.start_offset < 0:
                has_moved = await self._reset(one) or has_moved
            else:
                has_moved = self._acquired(one, answer) or has_moved
        return has_moved

    def _refused(self, one: _Asked, code: ErrorCode) -> None:
        if code == ErrorCode.FENCED_MEMBER_EPOCH:
            # The member's next heartbeat will tell it that it has lost the partition, or that it gets it.
            one.state.barred_until_s = self._shared.loop.time() + BARRED_S
        else:
            self._is_retried = True
        self._consumers.positions.forget(one.state.place_key)
        if code in _TOLD:
            one.state.error_code = code

    async def _reset(self, one: _Asked) -> bool:
        """Find the start offset of the share partition. The next round sends it to the shard, which writes it."""
        if one.log is None:
            return False
        terms, now_ms = self._terms, self._services.clock.now_ms()
        try:
            one.state.reset = await reset_offset(
                one.log, terms.reset, now_ms, is_read_committed=terms.is_read_committed
            )
        except BmqError as error:
            self._failed(one.state, error)
            return False
        return True

    def _acquired(self, one: _Asked, answer: AcquiredPartition) -> bool:
        consumers, state = self._consumers, one.state
        state.reset = -1
        if answer.lock_timeout_ms:
            self.lock_timeout_ms = answer.lock_timeout_ms
        taken_offset = one.offer.taken_offset if answer.ranges and not self._terms.is_keyed else -1
        has_more = consumers.positions.put(state.place_key, answer.next_offset, answer.version, taken_offset)
        if has_more and not self._terms.is_keyed:
            consumers.waits.wake(state.position_key)
        if not answer.ranges:
            return answer.next_offset not in (FULL, one.offset)
        views = records_around(one.offer.batches, one.offer.views, answer.ranges)
        self.found[state.topic_partition] = Found(views, answer.ranges)
        size_bytes = sum(map(len, views))
        self.size_bytes += size_bytes
        counts = consumers.counts
        counts.sent_bytes += size_bytes
        counts.acquired_ranges += len(answer.ranges)
        for acquired in answer.ranges:
            records = acquired.last - acquired.first + 1
            counts.acquired_records += records
            if acquired.delivery_count > 1:
                counts.redelivered += records
        return True

    # --- waiting

    def _is_due(self) -> bool:
        shared = self._shared
        return (
            shared.loop.time() >= self._deadline_s
            or shared.is_stopping
            or self._session.is_ended
            or len(shared.deadlines) >= shared.config.fetch_waiting_max
        )

    async def _wait(self) -> None:
        """Wait until a log has new records, a shard has news, a partition is started, or the time is over.

        Nothing may have changed since the round: callers check that, and do not yield to the event loop in between.
        """
        shared, consumers = self._shared, self._consumers
        self._is_current = True
        woken = self._woken = shared.loop.create_future()
        logs = [state.log for state in self._states if state.log is not None]
        keys = []
        for log in logs:
            shared.waits.add(log, self._wake, is_committed=self._terms.is_read_committed)
        for state in self._states:
            position = consumers.positions.get(state.place_key)
            if state.log is not None and position is not None:
                consumers.waits.add(state.position_key, position.version, self._has_news)
                keys.append(state.position_key)
        due_s = self._deadline_s
        if self._is_retried:
            due_s = min(due_s, shared.loop.time() + AGAIN_S)
        if self._terms.is_keyed:
            due_s = min(due_s, shared.loop.time() + LOOK_S)
        for state in self._states:
            if state.barred_until_s:
                due_s = min(due_s, state.barred_until_s)
        shared.deadlines.add(self._wake, due_s)
        try:
            await woken
        finally:
            self._woken = None
            shared.deadlines.discard(self._wake)
            for log in logs:
                shared.waits.discard(log, self._wake)
            for key in keys:
                consumers.waits.discard(key, self._has_news)
            if shared.loop.time() >= due_s:
                self._ask_again()

    def _has_changed(self, state: _PartitionState) -> bool:
        """Whether the partition has more records than the round saw."""
        if state.log is None:
            return self._services.partitions.ready(state.topic_partition) is not None
        if self._bound_offset(state.log) != state.bound_offset:
            return True
        position = self._consumers.positions.get(state.place_key)
        if self._terms.is_keyed and position is not None:
            if self._consumers.waits.version_of(state.position_key) <= position.version:
                return False
            state.is_asked = False
            return True
        return position is not None and (position.next_offset, position.version) != state.seen

    def _has_news(self) -> None:
        self._ask_again()
        self._wake()

    def _ask_again(self) -> None:
        for state in self._states:
            state.is_asked = False

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
