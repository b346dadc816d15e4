"""One Fetch request from its scope to its answer: read from memory, wait, read again, read from the store, reply.

A round is one synchronous pass over the partitions. It ends in an answer if there are enough bytes, an error, or no time left.
Otherwise a partition that is not ready is started and awaited, an offset that is not in memory is read by a task, and an offset
out of range is confirmed with the owner first (rule 14).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.error_codes import OTHER_LEADER, ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.hot_fetch import FetchResult, encode_fetch_response
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.parts import Part
from bmq.proxy.catch_up import CatchUpResult, bytes_behind, next_offset_of
from bmq.proxy.fetch_reader import NOBODY, Reader, asking
from bmq.proxy.fetch_refusal import failed_fetch, throttled_fetch
from bmq.proxy.fetch_results import endpoints, error_result, known_aborted, response_topics, without_records
from bmq.proxy.fetch_session import FetchScope, Interest
from bmq.proxy.fetch_wake_ups import gather_time_s
from bmq.proxy.pending_read import PendingRead
from bmq.proxy.preferred_read_replica import NOWHERE, PreferredReadReplica

if TYPE_CHECKING:
    from bmq.metadata.image import MetadataImage
    from bmq.proxy.fetch_resources import FetchResources
    from bmq.proxy.reply import Reply
    from bmq.proxy.services import Services

_READ_COMMITTED: Final = 1
_TOPIC_IDS_FROM: Final = 13
_ROUNDS_MAX: Final = 3  # most rounds of a task without a wait in between

_Aborted = Sequence[tuple[int, int]] | None
"""Aborted transactions of a result: (producer id, first offset) each. None: the owner has to be asked, or the reader reads
uncommitted records too."""

_log = structlog.get_logger("bmq.proxy")


class FetchJob:
    """Answers one Fetch: calls `reply` exactly once. `run`, `wake` and `expire` may be called in any order."""

    __slots__ = (
        "_begun_s",
        "_deadline_s",
        "_has_error",
        "_header",
        "_is_done",
        "_is_first",
        "_is_paced",
        "_is_replica",
        "_is_scheduled",
        "_is_waiting",
        "_lane_filter",
        "_left_bytes",
        "_logs",
        "_max_bytes",
        "_min_bytes",
        "_near",
        "_pace",
        "_pending",
        "_proved",
        "_read_committed",
        "_reply",
        "_results",
        "_rights",
        "_rounds",
        "_scope",
        "_services",
        "_shared",
        "_slice_bytes",
        "_starting",
        "_starts",
        "_tail_bytes",
        "_throttle",
        "_total_bytes",
        "_turn_bytes",
        "_turn_s",
    )

    def __init__(
        self,
        shared: FetchResources,
        services: Services,
        header: RequestHeader,
        request: FetchRequest,
        scope: FetchScope,
        reply: Reply,
        reader: Reader = NOBODY,
    ) -> None:
        config = shared.config
        self._near, self._pace, self._rights, self._throttle, self._lane_filter, self._is_replica = reader
        self._shared = shared
        self._services = services
        self._header = header
        self._scope = scope
        self._reply = reply
        self._begun_s = shared.loop.time()
        self._deadline_s = self._begun_s + min(max(request.max_wait_ms, 0), config.fetch_wait_ms_max) / 1000
        self._max_bytes = min(request.max_bytes, config.fetch_max_bytes)
        if self._throttle is not None:
            self._max_bytes = min(self._max_bytes, self._throttle.fetch_bytes_max)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._read_committed = request.isolation_level == _READ_COMMITTED
        self._is_done = self._is_scheduled = self._is_waiting = self._has_error = self._is_paced = False
        self._turn_s: float | None = None  # when this fetch may read far behind the end; requested once
        self._turn_bytes = 0  # bytes that it has read in that turn
        self._rounds = 0
        # Bytes that the present round may still read, and has read; `_read_partitions` sets them.
        self._left_bytes = self._tail_bytes = self._total_bytes = 0
        self._slice_bytes: int | None = None
        self._is_first = True  # no partition of the answer has records yet
        self._results: list[FetchResult] = []
        self._logs: list[PartitionLog] = []
        self._pending: list[PendingRead] = []
        self._proved: list[PartitionLog] = []  # owners with a proof, whose epochs clients may see
        self._starting = 0
        self._starts: dict[TopicPartition, ErrorCode] = {}

    # --- events

    def run(self) -> None:
        """Read what is in memory, and then answer or wait."""
        if self._throttle is None:
            self._run()
        else:
            self._throttle.call(self._run)

    def _run(self) -> None:
        try:
            self._read_partitions()
            self._decide()
        except Exception:  # noqa: BLE001 any bug is answered or logged
            self._fail()

    def wake(self) -> None:
        """A partition that this fetch waits for has news: read again after a short delay, in which others may have news too.

        The delay grows with the number of partitions: a round over hundreds, with its answer and the next request, costs
        milliseconds.
        """
        if not self._is_scheduled and not self._is_done:
            self._is_scheduled = True
            gather_s = gather_time_s(len(self._logs))
            if gather_s:
                self._shared.loop.call_later(gather_s, self._run_again)
            else:
                self._shared.loop.call_soon(self._run_again)

    def expire(self) -> None:
        """Answer, because the longest wait is over."""
        if self._is_waiting and not self._is_done:
            self._stop_waiting()
            self.run()

    def started(self, topic_partition: TopicPartition, code: ErrorCode) -> None:
        """Go on: a partition is ready (NONE), or could not be started."""
        if not self._is_done:
            self._starts[topic_partition] = code
            self.wake()

    # --- reading

    def _read_partitions(self) -> None:
        self._results, self._logs, self._pending = [], [], []
        self._starting = self._total_bytes = self._turn_bytes = self._tail_bytes = 0
        self._has_error = self._is_paced = False
        self._slice_bytes = self._shared.throttle.slice_bytes_max
        self._left_bytes = min(self._max_bytes, self._shared.budget.room_bytes)
        self._is_first = True
        results, image = self._results, self._services.controller.image
        is_committed, none_aborted = self._read_committed, self._none_aborted()
        for interest in self._scope.interests:
            log = self._log_of(interest, image)
            if log is None:
                continue
            high_watermark = log.high_watermark
            stable_offset = log.last_stable_offset
            start_offset = log.log_start_offset
            bound_offset = stable_offset if is_committed else high_watermark
            offset = interest.fetch_offset
            if self._near is not None and self._send_to_rack(self._near, interest, log):
                continue
            self._logs.append(log)
            views: Sequence[Part] = ()
            aborted = none_aborted
            if not start_offset <= offset < bound_offset:
                if not start_offset <= offset <= log.log_end_offset:
                    self._pending.append(PendingRead(len(results), interest, log, None, 0, bound_offset))
            elif self._left_bytes > 0 or self._is_first:
                if interest.view is None:
                    views, aborted = self._read(interest, log, bound_offset)
                else:
                    views, aborted = self._read_view(interest, log, bound_offset)
            results.append(
                FetchResult(interest.partition, 0, high_watermark, stable_offset, start_offset, views, aborted)
            )
        counts = self._shared.counts
        counts.tail_bytes += self._tail_bytes
        counts.catch_up_bytes += self._total_bytes - self._tail_bytes

    def _read(self, interest: Interest, log: PartitionLog, bound_offset: int) -> tuple[Sequence[Part], _Aborted]:
        """(a partition's batches below `bound_offset` that are in memory, the aborted transactions among them).

        Without batches: they do not fit, or it is not this fetch's turn, or they have to be read from the store. In the last case
        the partition is put into `_pending`.
        """
        offset = interest.fetch_offset
        limit = room_bytes = max(0, min(interest.max_bytes, self._left_bytes))
        tail = log.tail_read(offset, limit, bound_offset)
        is_tail = tail is not None
        slice_bytes = self._slice_bytes
        if slice_bytes is not None and (
            tail is None or bytes_behind(tail, bound_offset) > self._shared.config.catch_up_behind_bytes
        ):
            if not self._may_catch_up(slice_bytes):
                self._logs.pop()  # its records exist already, so do not wait for new ones
                return (), self._none_aborted()
            if tail is not None and slice_bytes < limit:
                tail = log.tail_read(offset, slice_bytes, bound_offset)
            limit = min(limit, slice_bytes)
            self._slice_bytes = slice_bytes - limit
            if tail is not None:
                self._turn_bytes += sum(map(len, tail))
        if tail is not None:
            found = CatchUpResult(tail, next_offset_of(tail) if self._read_committed and tail else -1)
        else:
            caught_up = self._caught_up(log, offset, limit, bound_offset)
            if caught_up is None:
                self._read_later(interest, log, limit, room_bytes, bound_offset)
                return (), self._none_aborted()
            found = caught_up
        views = found.views
        size = sum(map(len, views))
        if not size or (size > room_bytes and not self._is_first):
            # Only the first partition with records may go past the limits (KIP-74).
            return (), self._none_aborted()
        self._is_first = False
        self._left_bytes -= size
        aborted = self._none_aborted()
        if self._read_committed:
            aborted = known_aborted(log, offset, found.next_offset)
            if aborted is None:
                pending = PendingRead(len(self._results), interest, log, limit, room_bytes, bound_offset, found=found)
                self._pending.append(pending)
                return (), ()
        self._total_bytes += size
        if is_tail:
            self._tail_bytes += size
        return views, aborted

    def _read_view(self, interest: Interest, log: PartitionLog, bound: int) -> tuple[Sequence[Part], _Aborted]:
        """Do as `_read` does, for records that pass a view's filter. Batches without records do not end the fetch's wait."""
        room_bytes, is_committed = max(0, min(interest.max_bytes, self._left_bytes)), self._read_committed
        reads, place = self._shared.view_reads, len(self._results)
        found = reads.read_at_once(interest, log, room_bytes, bound, place, is_read_committed=is_committed)
        if found is None:
            self._read_later(interest, log, room_bytes, room_bytes, bound)
            return (), self._none_aborted()
        size = sum(map(len, found[0]))
        if size > room_bytes and not self._is_first:
            return (), self._none_aborted()
        if interest.passed is None:
            self._is_first = False
            self._left_bytes -= size
            self._total_bytes += size
            self._tail_bytes += size
        return found

    def _read_later(self, interest: Interest, log: PartitionLog, limit: int, room_bytes: int, bound: int) -> None:
        self._pending.append(PendingRead(len(self._results), interest, log, limit, room_bytes, bound))
        self._left_bytes -= limit
        self._is_first = False

    def _caught_up(self, log: PartitionLog, offset: int, limit: int, bound_offset: int) -> CatchUpResult | None:
        """Batches behind the tail, if they can be read without a task; else None."""
        found = self._shared.catch_up.read_at_once(
            log, offset, limit, bound_offset, to_memory=self._lane_filter is not None
        )
        if found is not None:
            self._turn_bytes += sum(map(len, found.views))
        return found

    def _may_catch_up(self, slice_bytes: int) -> bool:
        """Whether this fetch may read far behind the end now: it is its turn, and its slice is not used up."""
        now_s = self._shared.loop.time()
        if self._turn_s is None:
            self._turn_s = self._shared.throttle.turn(now_s)
        if now_s < self._turn_s:
            self._is_paced = True
            return False
        return slice_bytes > 0

    def _log_of(self, interest: Interest, image: MetadataImage) -> PartitionLog | None:
        """The partition's log; None if it is in error or not ready, and its result is in `_results`."""
        code = ErrorCode.NONE
        if interest.seen_image is not image:
            code = interest.find_partition(image, is_by_id=self._header.api_version >= _TOPIC_IDS_FROM)
        rights = self._rights
        if rights is not None and interest.topic_name not in rights.names:
            rights = self._rights = asking(rights)
            if not rights.allow(interest.topic_name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # whether there is such a partition is not told
        if code:
            return self._refuse(interest, code)
        if self._is_replica:
            # Kafka's answer to a follower that is not a replica of the partition; bmq has no followers.
            return self._refuse(interest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic_partition = interest.topic_partition
        assert topic_partition is not None
        log = self._services.partitions.ready(topic_partition)
        if log is None:
            return self._start(interest, topic_partition)
        epoch = interest.current_leader_epoch
        if epoch >= 0 and epoch != log.leader_epoch:
            is_old = epoch < log.leader_epoch
            return self._refuse(interest, ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if interest.last_fetched_epoch >= 0:
            return self._check_divergence(interest, log)
        return log

    def _send_to_rack(self, near: PreferredReadReplica, interest: Interest, log: PartitionLog) -> bool:
        """Send the consumer to a proxy in its rack for this partition, if one is preferred (KIP-392). Returns whether it did."""
        assert interest.topic_partition is not None
        replica = near.replica(interest.topic_partition)
        if replica == NOWHERE:
            return False
        self._add_without_records(interest, log, preferred_read_replica=replica)
        return True

    def _add_without_records(self, interest: Interest, log: PartitionLog, **fields: Any) -> None:
        """Add a result without records, after which the fetch does not wait, as after an error."""
        self._results.append(self._without_records(interest, log, **fields))
        self._has_error = True

    def _without_records(self, interest: Interest, log: PartitionLog, **fields: Any) -> FetchResult:
        return without_records(interest, log, self._none_aborted(), **fields)

    def _start(self, interest: Interest, topic_partition: TopicPartition) -> PartitionLog | None:
        code = self._starts.get(topic_partition)
        if code is None:
            self._shared.starts.start(self._services.partitions, topic_partition, self.started)
            self._starting += 1
            # This stays the result if the partition is not ready in time.
            self._results.append(self._error_result(interest, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return None
        return self._refuse(interest, code or ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _check_divergence(self, interest: Interest, log: PartitionLog) -> PartitionLog | None:
        """If the reader names its last epoch, answer where its log diverges from ours, once that is proved (KIP-595)."""
        epoch, end_offset = log.epoch_end_offset(interest.last_fetched_epoch)
        if epoch == interest.last_fetched_epoch and end_offset >= interest.fetch_offset:
            return log
        if not any(one is log for one in self._proved):
            # First prove ownership: our copy may be behind, and a stalled owner may not know that it was replaced.
            self._pending.append(PendingRead(len(self._results), interest, log, None, 0, 0, is_divergent=True))
            self._results.append(self._without_records(interest, log))
            return None
        if epoch < 0 or end_offset < 0:
            return self._refuse(interest, ErrorCode.OFFSET_OUT_OF_RANGE)
        self._add_without_records(interest, log, diverging_epoch=(epoch, end_offset))
        return None

    def _refuse(self, interest: Interest, code: ErrorCode) -> PartitionLog | None:
        """Make this error the partition's result. Returns None."""
        self._has_error = True
        self._results.append(self._error_result(interest, code))
        return None

    def _bound_of(self, log: PartitionLog) -> int:
        return log.last_stable_offset if self._read_committed else log.high_watermark

    def _none_aborted(self) -> _Aborted:
        return () if self._read_committed else None

    def _error_result(self, interest: Interest, code: ErrorCode) -> FetchResult:
        return error_result(self._services.controller.image, interest, code, self._header.api_version)

    # --- deciding

    def _decide(self) -> None:
        shared = self._shared
        now_s = shared.loop.time()
        is_due = (
            self._has_error
            or self._total_bytes >= self._min_bytes
            or (self._turn_s is not None and self._turn_bytes > 0)  # one slice per answer
            or not self._scope.interests
            or shared.is_stopping
            or len(shared.deadlines) >= shared.config.fetch_waiting_max
        )
        is_enough = is_due or now_s >= self._deadline_s
        if self._is_paced:
            assert self._turn_s is not None
            # Without records the fetch waits for its turn even past max_wait. After an empty answer the client would ask
            # again at once, and a slice before its turn would give each reader one per max_wait, regardless of the limit.
            is_held = not (is_enough if self._total_bytes else is_due)
            if is_held and not (self._pending or self._starting):
                self._wait(min(self._turn_s, self._deadline_s) if self._total_bytes else self._turn_s)
                return
            # The answer leaves now, so include a slice: a reader that always finds tail records needs its older ones too.
            self._turn_s = now_s
            self._read_partitions()
        if self._starting:
            due_s = self._begun_s + shared.config.fetch_start_wait_ms / 1000
            if not is_enough and not self._pending:
                due_s = max(due_s, self._deadline_s)
            if now_s < due_s and not shared.is_stopping:
                self._wait(due_s)
                return
            is_enough = True
        if self._pending:
            shared.spawn(self._settle(self._pending, is_enough))
        elif is_enough:
            self._finish()
        else:
            self._wait(self._deadline_s)

    def _wait(self, due_s: float) -> None:
        self._is_waiting = True
        shared = self._shared
        for log in self._logs:
            shared.waits.add(log, self.wake, is_committed=self._read_committed)
        shared.deadlines.add(self.expire, due_s)

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            shared = self._shared
            for log in self._logs:
                shared.waits.discard(log, self.wake)
            shared.deadlines.discard(self.expire)

    def _run_again(self) -> None:
        self._is_scheduled = False
        if self._is_waiting and not self._is_done:
            self._stop_waiting()
            self.run()

    # --- reads by a task

    async def _settle(self, pending: list[PendingRead], is_enough: bool) -> None:
        budget = self._shared.budget
        reserved_bytes = sum(max(one.length_bytes_max or 0, 0) for one in pending)
        budget.reserve(reserved_bytes)
        try:
            if len(pending) == 1:
                settled = [await self._settle_one(pending[0])]
            else:
                settled = await asyncio.gather(*(self._settle_one(one) for one in pending))
        except asyncio.CancelledError:
            # The server is stopping: its connections are closed, or will be.
            self._is_done = True
            self._reply(None)
            raise
        except Exception:  # noqa: BLE001 any bug is answered or logged
            self._fail()
            return
        finally:
            budget.release(reserved_bytes)
        self._rounds += 1
        if all(settled) or self._rounds >= _ROUNDS_MAX:
            has_news = self._has_error or any(
                self._results[one.place].records and one.interest.passed is None for one in pending
            )
            if is_enough or has_news:
                self._guarded_finish()
            elif any(one.interest.view is not None and self._bound_of(one.log) > one.bound_offset for one in pending):
                self.run()  # records were appended while a view was read
            else:
                self._wait(self._deadline_s)
                if self._shared.loop.time() >= self._deadline_s:
                    self.expire()
        else:
            self.run()

    async def _settle_one(self, pending: PendingRead) -> bool:
        """Set the partition's result. Returns False if the log has changed, so that another round is needed."""
        place, interest, log, limit, _, _, is_divergent, _ = pending
        try:
            if limit is None:
                await log.prove_ownership()
                if is_divergent:
                    self._proved.append(log)
                    return False
                if log.log_start_offset <= interest.fetch_offset <= log.log_end_offset:
                    return False
                self._put_error(place, interest, ErrorCode.OFFSET_OUT_OF_RANGE)
                return True
            reads = self._shared.stored_reads if interest.view is None else self._shared.view_reads
            read = await reads.read(pending, is_read_committed=self._read_committed)
            if read is None:
                return False
        except BmqError as error:
            return await self._settle_error(pending, error)
        self._put_records(pending, *read)
        return True

    async def _settle_error(self, pending: PendingRead, error: BmqError) -> bool:
        interest, log, limit = pending.interest, pending.log, pending.length_bytes_max
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and limit is not None:
            # Retention may have passed the offset since it was read: read again, and decide by the owner's confirmation.
            if self._rounds + 1 < _ROUNDS_MAX:
                return False
            try:
                await log.prove_ownership()
            except BmqError as lost:
                error = lost
        if error.code not in OTHER_LEADER and error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            topic_id, partition = log.topic_partition
            about = {"topic_id": str(topic_id), "partition": partition, "offset": interest.fetch_offset}
            _log.warning("fetch_read_failed", **about, error=str(error))
        self._put_error(pending.place, interest, error.code)
        return True

    def _put_error(self, place: int, interest: Interest, code: ErrorCode) -> None:
        self._has_error = True
        self._results[place] = self._error_result(interest, code)

    def _put_records(self, pending: PendingRead, caught_up: CatchUpResult, aborted: _Aborted) -> None:
        views = caught_up.views
        size = sum(map(len, views))
        if size > pending.room_bytes and self._total_bytes:
            # The batch exceeds the rest of the limit, and is not the answer's first one (KIP-74).
            return
        self._total_bytes += size
        if pending.found is None:
            self._turn_bytes += size
        self._shared.counts.catch_up_bytes += size
        placed = self._results[pending.place]
        self._results[pending.place] = placed._replace(records=views, aborted_transactions=aborted)

    # --- answering

    def _guarded_finish(self) -> None:
        try:
            self._finish()
        except Exception:  # noqa: BLE001 any bug is answered or logged
            self._fail()

    def _finish(self) -> None:
        shared = self._shared
        scope = self._scope
        if self._lane_filter is not None:
            lane_filter, self._lane_filter = self._lane_filter, None
            shared.spawn(lane_filter.filter_results(scope.interests, self._results, self._guarded_finish))
            return
        throttle, throttle_time_ms = self._throttle, 0
        if throttle is not None:
            if self._total_bytes and (throttle_time_ms := throttle.fetch_wait_ms()):
                if self._turn_s is not None or self._turn_bytes:
                    shared.throttle.settle(shared.loop.time(), 0)
                self._is_done = True
                self._reply(throttled_fetch(self._header, shared.sessions.throttled(scope), throttle_time_ms))
                return
            throttle_time_ms = throttle.fetched(self._total_bytes)
        error_code, session_id, included = shared.sessions.answer(
            scope, zip(scope.interests, self._results, strict=True), int(shared.loop.time() * 1000)
        )
        if error_code:
            self._services.stats.note_error(ApiKey.FETCH, error_code)
        topics, hinted = response_topics(included, self._services.stats)
        buffers = encode_fetch_response(
            self._header.api_version,
            self._header.correlation_id,
            topics,
            throttle_time_ms=throttle_time_ms,
            error_code=error_code,
            session_id=session_id,
            node_endpoints=endpoints(self._services.controller.image, hinted) if hinted else (),
        )
        if self._turn_s is not None or self._turn_bytes:
            shared.throttle.settle(shared.loop.time(), self._turn_bytes)
        if self._total_bytes:
            shared.budget.hold(buffers, self._total_bytes)
            if self._pace is not None:
                self._pace.answered(self._begun_s, shared.loop.time(), self._total_bytes)
        shared.counts.fetches += 1
        self._is_done = True
        self._reply(buffers)

    def _fail(self) -> None:
        """Log a bug of ours, and answer the request all the same."""
        _log.exception("fetch_failed")
        if self._is_done:
            return
        self._is_done = True
        self._stop_waiting()
        self._reply(failed_fetch(self._header))
