"""A partition that another node owns, at one leader epoch: a PartitionLog for the proxy, over links to the owner.

Appends are forwarded unchanged, one Produce request each. Reads are served from a copy that the owner's tail stream
keeps current, or from the store, at a place that the owner names. The log is attached to a link while appends can be
sent. It is detached when the link is lost or the owner refuses, and may be attached again (`open`); it is closed for
good when the partition has another owner or epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final
from uuid import UUID

from bmq.broker.append_budget import AppendBudget
from bmq.broker.tail_cache import TailCache
from bmq.broker.waiters import Waiters
from bmq.dataclass import dataclass
from bmq.internode_client.link import Link, LinkLost
from bmq.internode_client.links import Links
from bmq.log.partition_log import (
    AbortedTransaction,
    AppendResult,
    Location,
    PartitionStarting,
    ProducedBatch,
    TopicPartition,
)
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.transactions import ActiveProducer, produce_version_of
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import NOT_LEADER_AT_EPOCH, ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage, UnsupportedVersion
from bmq.protocol.hot_produce import (
    FORWARDED_PRODUCE_VERSION,
    ProduceResult,
    encode_produce_request,
    parse_produce_response,
)
from bmq.protocol.internal_messages import (
    DeleteBeforeRequest,
    FindAbortedRequest,
    FindTimestampRequest,
    ListDelayedRequest,
    LocateOffsetRequest,
    ProveOwnershipRequest,
    TailPart,
)
from bmq.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from bmq.protocol.record_batch import put_leader_epoch
from bmq.routing.remote_state import RemoteState
from bmq.routing.settings import RouterSettings
from bmq.routing.traced_forwards import Answered, traced_forward
from bmq.tracing.traces import NO_APPENDS, Appends

PRODUCE_PURPOSE: Final = "produce"
GREATEST_TIMESTAMP: Final = -3

_ACKS_ALL: Final = -1
_ACKS_ONE: Final = 1
_MOVED: Final = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="the partition has another owner")
_LOST: Final = AppendResult(ErrorCode.NETWORK_EXCEPTION, message="the connection to the partition's owner was lost")
_NO_ROOM: Final = AppendResult(
    ErrorCode.REQUEST_TIMED_OUT, message="too many bytes are on their way to the partitions' owners"
)


@dataclass(slots=True)
class RemoteLogContext:
    """What all remote logs of a process share. `follow`: called when somebody waits at the end of a log that is not
    followed. `detached`: called when an attached log can no longer take appends. Both may be called repeatedly.
    `topic_name`: name of a topic id, as far as this node knows; None: the topic was deleted. `traced_appends`: of requests that are
    traced.
    """

    links: Links
    config: RouterSettings
    follow: Callable[[RemoteLog], None]
    detached: Callable[[RemoteLog], None]
    topic_name: Callable[[UUID], str | None]
    traced_appends: Appends = field(default_factory=lambda: NO_APPENDS)
    tail_cache: TailCache = field(init=False)
    budget: AppendBudget = field(init=False)

    def __post_init__(self) -> None:
        self.tail_cache = TailCache(self.config.tail_cache_bytes_max)
        self.budget = AppendBudget(self.config.forward_bytes_max)


class RemoteLog:
    """Implements bmq.log.partition_log.PartitionLog. `ended` is done when the log is closed.

    `is_followed`: set by the tail stream. `is_wanted`: somebody has read its end since this was last set to False.
    """

    def __init__(
        self, topic_partition: TopicPartition, owner: int, leader_epoch: int, context: RemoteLogContext
    ) -> None:
        self.topic_partition = topic_partition
        self.owner = owner
        self.leader_epoch = leader_epoch
        self.is_followed = False
        self.is_wanted = False
        self._context = context
        self._config = context.config
        self._remote_state = RemoteState(context.tail_cache.partition())
        self._waiters = Waiters()
        self._link: Link | None = None
        self._appends: dict[ProducedBatch, None] = {}  # forwarded and not answered, in order
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- what it knows

    @property
    def link(self) -> Link | None:
        """The link for appends; None while the log is detached."""
        return self._link

    @property
    def is_closed(self) -> bool:
        return self.ended.done()

    @property
    def append_count(self) -> int:
        """Appends forwarded and not answered."""
        return len(self._appends)

    @property
    def log_start_offset(self) -> int:
        return self._remote_state.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self._remote_state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._remote_state.last_stable_offset

    @property
    def log_end_offset(self) -> int:
        """Readers at the end, or past the known part of the log, ask for this: so follow the log."""
        self._want()
        return self._remote_state.log_end_offset

    @property
    def compacted_offset(self) -> int:
        return self._remote_state.compacted_offset

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """Like PartitionLog.epoch_end_offset, from our copy: call prove_ownership first for a current answer."""
        return self._remote_state.epoch_end_offset(leader_epoch)

    # --- its life

    async def open(self) -> None:
        """Attach the log: connect to the owner, have it prove its ownership, and get its offsets.

        Raises LinkLost, UnsupportedVersion, and KafkaError with the owner's code: NOT_LEADER_OR_FOLLOWER,
        PartitionStarting, KAFKA_STORAGE_ERROR.
        """
        link = await self._context.links.link(self.owner, PRODUCE_PURPOSE)
        if link.version(ApiKey.PRODUCE) != FORWARDED_PRODUCE_VERSION:
            raise UnsupportedVersion(f"node {self.owner} does not speak Produce {FORWARDED_PRODUCE_VERSION}")
        await self.prove_ownership()
        if not link.is_open:
            raise LinkLost(f"the connection to node {self.owner} was lost")
        self._link = link

    def detach(self) -> None:
        """Take no appends for now. Forwarded ones are still answered, or lost with their link."""
        if self._link is not None:
            self._context.detached(self)  # while `link` still has its link
            self._link = None
            self._waiters.wake_all()

    def retire(self) -> None:
        """The partition has another owner: close the log, but the old owner may still answer forwarded appends."""
        self._link = None
        if not self.ended.done():
            self.ended.set_result(None)
        self._remote_state.clear()
        self._waiters.wake_all()

    def close(self) -> None:
        """Close: unanswered appends fail with NOT_LEADER_OR_FOLLOWER, and late answers are ignored."""
        self.retire()
        appends, self._appends = self._appends, {}
        for append in appends:
            self._settle(append, _MOVED)

    # --- appending

    def append(self, batch: ProducedBatch) -> None:
        """Like PartitionLog.append, for no internal ones. NETWORK_EXCEPTION: link lost, outcome unknown."""
        link, request, records = self._link, batch.request, batch.records
        if link is None or request.is_internal:
            batch.complete(_MOVED if self.ended.done() or request.is_internal else _LOST)
            return
        if not self._context.budget.take(len(records)):
            batch.complete(_NO_ROOM)
            return
        # The owner accepts it only at this epoch, so no batch gets in between those that an older owner refused.
        put_leader_epoch(records, self.leader_epoch)
        self._appends[batch] = None
        topic_id, partition = self.topic_partition
        acks, timeout_ms = _ACKS_ALL if batch.is_acks_all else _ACKS_ONE, self._config.forward_timeout_ms
        claim = request.claim
        if claim is None:
            body = encode_produce_request(topic_id, partition, records, acks=acks, timeout_ms=timeout_ms)
        else:
            body = encode_produce_request(
                topic_id,
                partition,
                records,
                acks=acks,
                timeout_ms=timeout_ms,
                transactional_id=claim.transactional_id,
                client_version=produce_version_of(claim),
            )
        answered: Answered = partial(self._answered, batch)
        if (traced := self._context.traced_appends) and (span := traced.get(request)) is not None:
            link.send_frame(ApiKey.PRODUCE, *traced_forward(span, self.owner, body, answered))
        else:
            link.send_frame(ApiKey.PRODUCE, body, answered)

    def _answered(self, batch: ProducedBatch, frame: bytearray | None) -> None:
        """The owner's answer to an append; None: the link is lost. Raises MalformedMessage, which loses the append."""
        if batch not in self._appends:
            return  # late: it has failed already, because the partition moved
        del self._appends[batch]
        if frame is None:
            self.detach()
            self._settle(batch, _LOST)
            return
        try:
            result = _result_of(frame)
        except MalformedMessage:
            self.detach()
            self._settle(batch, _LOST)
            raise
        if result.error_code in NOT_LEADER_AT_EPOCH:
            self.detach()
        self._settle(batch, result)

    def _settle(self, batch: ProducedBatch, result: AppendResult) -> None:
        self._context.budget.give_back(len(batch.records))
        batch.complete(result)

    # --- reading

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        """Like PartitionLog.tail_read."""
        views = self._remote_state.tail_read(offset, length_bytes_max, bound_offset)
        if views is not None:
            # A reader far behind the end does not need the tail; once there, it asks for `log_end_offset`.
            self._want()
        return views

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Like PartitionLog.on_advance. If the log is closed, `wake` is called soon, in case the caller saw it open."""
        self._want()
        forget = self._waiters.add(wake)
        if self.ended.done():
            asyncio.get_running_loop().call_soon(self._waiters.wake_all)
        return forget

    async def locate(self, offset: int) -> Location:
        """Like PartitionLog.locate, answered by the owner. Also raises KafkaError NOT_LEADER_OR_FOLLOWER."""
        answer = await self._ask(ApiKey.LOCATE_OFFSET, LocateOffsetRequest(**self._named(), offset=offset))
        self._remote_state.learn_compacted(answer.compacted_offset)
        return Location(
            path=answer.path,
            file_id=answer.file_id,
            position=answer.position,
            valid_bytes=answer.valid_bytes,
            base_offset=answer.base_offset,
            end_offset=answer.end_offset,
            is_closed=answer.is_closed,
        )

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> None:
        """Like PartitionLog.span; always None, because the owner has the index."""

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        """Like PartitionLog.offset_for_timestamp, answered by the owner."""
        request = FindTimestampRequest(**self._named(), timestamp_ms=timestamp_ms, bound_offset=bound_offset)
        answer = await self._ask(ApiKey.FIND_TIMESTAMP, request)
        return None if answer.offset < 0 else (answer.offset, answer.timestamp_ms)

    async def max_timestamp(self) -> tuple[int, int] | None:
        """Like PartitionLog.max_timestamp, answered by the owner."""
        request = FindTimestampRequest(**self._named(), timestamp_ms=GREATEST_TIMESTAMP)
        answer = await self._ask(ApiKey.FIND_TIMESTAMP, request)
        return None if answer.offset < 0 else (answer.offset, answer.timestamp_ms)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction] | None:
        """Like PartitionLog.aborted_transactions."""
        return self._remote_state.aborted_transactions(from_offset, to_offset)

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        """Like PartitionLog.find_aborted_transactions, answered by the owner."""
        request = FindAbortedRequest(**self._named(), from_offset=from_offset, to_offset=to_offset)
        answer = await self._ask(ApiKey.FIND_ABORTED, request)
        return [AbortedTransaction(one.producer_id, one.first_offset) for one in answer.aborted]

    async def active_producers(self) -> Sequence[ActiveProducer]:
        """Like PartitionLog.active_producers, answered by the owner."""
        topic = TopicRequest(name=self._topic_name(), partition_indexes=(self.topic_partition.partition,))
        answer = await self._call(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=(topic,)))
        results = [result for topic in answer.topics for result in topic.partitions]
        if len(results) != 1:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer about one partition has not one result")
        (result,) = results
        if result.error_code:
            self._refused(error_code_of(result.error_code), result.error_message or "")
        return [
            ActiveProducer(
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in result.active_producers
        ]

    async def delete_records(self, before_offset: int) -> int:
        """Like PartitionLog.delete_records, performed by the owner."""
        request = DeleteBeforeRequest(**self._named(), before_offset=before_offset)
        answer = await self._ask(ApiKey.DELETE_BEFORE, request)
        start_offset: int = answer.log_start_offset
        self._learn(start_offset, self.high_watermark, self.last_stable_offset, self._remote_state.log_end_offset)
        return start_offset

    async def delayed_records(self, after: Position, limit: int) -> DelayedPage:
        """Like PartitionLog.delayed_records, answered by the owner."""
        asked = ListDelayedRequest(**self._named(), after_due_ms=after.due_ms, after_offset=after.offset, limit=limit)
        answer = await self._ask(ApiKey.LIST_DELAYED, asked)
        records = tuple(Position(one.due_ms, one.offset) for one in answer.records)
        return DelayedPage(answer.count, None if answer.next_due_ms < 0 else answer.next_due_ms, records)

    async def prove_ownership(self) -> None:
        """Like PartitionLog.prove_ownership; our copy's offsets are then as new as the proof. Raises KafkaError."""
        request = ProveOwnershipRequest(**self._named(), known_offset=self.high_watermark)
        answer = await self._ask(ApiKey.PROVE_OWNERSHIP, request)
        if self.ended.done():
            raise _moved()  # closed in the turn of the loop in which the answer came: learn nothing more
        self._remote_state.learn_aborted(answer.aborted, answer.aborted_from_offset)
        self._remote_state.learn_epochs(answer.epochs)
        self._learn(answer.log_start_offset, answer.high_watermark, answer.last_stable_offset, answer.log_end_offset)

    # --- following

    def take(self, part: TailPart) -> None:
        """Apply news from the tail stream. Raises CorruptRecords, CorruptParts."""
        if self.ended.done():
            return
        if self._remote_state.take(part):
            self._waiters.wake_all()

    def _want(self) -> None:
        self.is_wanted = True
        if not self.is_followed and not self.ended.done():
            self._context.follow(self)

    # --- asking

    def _named(self) -> dict[str, Any]:
        topic_id, partition = self.topic_partition
        return {"topic_id": topic_id, "partition": partition, "leader_epoch": self.leader_epoch}

    def _topic_name(self) -> str:
        name = self._context.topic_name(self.topic_partition.topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
        return name

    def _learn(self, start_offset: int, high_watermark: int, stable_offset: int, end_offset: int) -> None:
        if not self.ended.done() and self._remote_state.learn(
            log_start_offset=start_offset,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_end_offset=end_offset,
        ):
            self._waiters.wake_all()

    async def _ask(self, api_key: ApiKey, request: Any) -> Any:
        """The owner's answer to a request about this log. Raises KafkaError."""
        answer = await self._call(api_key, request)
        if answer.error_code:
            self._refused(error_code_of(answer.error_code), answer.error_message or "")
        return answer

    async def _call(self, api_key: ApiKey, request: Any) -> Any:
        """The owner's answer. Raises KafkaError; NOT_LEADER_OR_FOLLOWER for a lost link, since clients retry it."""
        if self.ended.done():
            raise _moved()
        context = self._context
        timeout_s = self._config.call_timeout_ms / 1000
        asking = asyncio.ensure_future(context.links.call(self.owner, api_key, request, timeout_s=timeout_s))
        try:
            await asyncio.wait({asking, self.ended}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise _moved()
        finally:
            asking.cancel()
        try:
            return asking.result()
        except (LinkLost, UnsupportedVersion) as error:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)) from error

    def _refused(self, code: ErrorCode, message: str) -> None:
        if code is ErrorCode.LEADER_NOT_AVAILABLE:
            raise PartitionStarting(message)
        if code in NOT_LEADER_AT_EPOCH:
            self.detach()
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise KafkaError(code, message)


def error_code_of(number: int) -> ErrorCode:
    """UNKNOWN_SERVER_ERROR for codes that only a newer node knows."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _result_of(frame: bytearray) -> AppendResult:
    """Raises MalformedMessage."""
    topics = parse_produce_response(frame)
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise MalformedMessage("the answer to a produce of one partition has not one result")
    one: ProduceResult = topics[0].partitions[0]
    if not one.error_code:
        return AppendResult(ErrorCode.NONE, one.base_offset, one.log_append_time_ms, one.log_start_offset)
    code = error_code_of(one.error_code)
    if code is ErrorCode.UNKNOWN_TOPIC_ID:
        # The client may have named the topic: before version 13 there are no topic ids.
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return AppendResult(
        code, one.base_offset, one.log_append_time_ms, one.log_start_offset, one.error_message, one.record_errors
    )


def _moved() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has another owner")
