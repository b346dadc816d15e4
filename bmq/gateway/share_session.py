"""One share session (KIP-932) with one server: acquires as many records as are wanted, and acknowledges them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import structlog

from bmq.dataclass import dataclass
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.kafka_links import CALL_S, KafkaLinks
from bmq.gateway.share_member import RETRY_S, ShareMember, SharePlace, note_end
from bmq.gateway.share_records import GAP, RELEASE, acquired_records, as_ranges
from bmq.gateway.status import kafka_failure, status_of
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages import share_acknowledge_request, share_fetch_request

RECORD_LIMIT: Final = 1
"""ShareAcquireMode (KIP-1206): never more records than asked for, though they lie in larger batches."""
RECORD_LIMIT_VERSION: Final = 2
FETCH_WAIT_MS: Final = 300
CLOSING: Final = -1
EPOCH_MAX: Final = 2**31 - 1
ACKS_MAX: Final = 10_000
"""Of one request."""
_LOST_SESSION: Final = frozenset(
    {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
)


_log = structlog.get_logger("bmq.gateway")


class Demand(Protocol):
    """What the group's streams want, and who gets what comes."""

    def reserve(self) -> int:
        """How many records to ask for now; they count as wanted no more until `arrived`."""

    def arrived(self, reserved: int, records: Sequence[HeldRecord], lock_ms: int, *, is_whole: bool) -> None:
        """The records that a request for `reserved` ones brought. `is_whole`: every partition answered as it should."""


@dataclass(slots=True)
class Ack:
    """One record's acknowledgement. `done` is None for what nobody waits for; else it gets None or why it failed."""

    place: SharePlace
    offset: int
    kind: int
    done: asyncio.Future[GatewayFailed | None] | None = None


class ShareSession:
    """`failed`: ends the group's streams."""

    def __init__(
        self,
        node: int,
        member: ShareMember,
        links: KafkaLinks,
        demand: Demand,
        bytes_max: int,
        failed: Callable[[GatewayFailed], None],
    ) -> None:
        self._node = node
        self._member = member
        self._links = links
        self._demand = demand
        self._bytes_max = bytes_max
        self._failed = failed
        self._places: frozenset[SharePlace] = frozenset()
        self._in_session: frozenset[SharePlace] = frozenset()
        self._epoch = 0
        self._acks: list[Ack] = []
        self._work = asyncio.Event()
        self._is_closing = False
        self._is_whole = False
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda task: note_end(task, failed))

    def assign(self, places: frozenset[SharePlace]) -> None:
        """The partitions to acquire from. Those that go away may still be acknowledged."""
        self._places = places
        self._work.set()

    def acknowledge(self, ack: Ack) -> None:
        self._acks.append(ack)
        self._work.set()

    def wake(self) -> None:
        """Something may be wanted."""
        self._work.set()

    async def _run(self) -> None:
        while not (self._is_closing and not self._acks):
            self._work.clear()
            wanted = self._demand.reserve() if self._places and not self._is_closing else 0
            if not wanted and not self._acks:
                if self._is_closing:
                    break
                await self._work.wait()
                continue
            if not await self._turn(wanted) and not self._is_closing:
                await asyncio.sleep(RETRY_S)
        await self._leave()

    async def _turn(self, wanted: int) -> bool:
        """One request. Whether it was answered as it should."""
        acks: list[Ack] = []
        records: list[HeldRecord] = []
        lock_ms = 0
        self._is_whole = False
        try:
            if self._epoch == 0 and (self._acks and not wanted):
                raise GatewayFailed(
                    "ABORTED", "the session with the partition's owner has ended; the record is delivered again"
                )
            if self._epoch > 0:  # a new session has nothing to acknowledge
                acks, self._acks = self._acks[:ACKS_MAX], self._acks[ACKS_MAX:]
            if wanted:
                records, lock_ms = await self._fetch(wanted, acks)
            else:
                await self._acknowledge(acks)
        except GatewayFailed as failed:
            self._epoch, self._in_session = 0, frozenset()
            lost, self._acks = [*acks, *self._acks], []
            _settle(lost, failed)
            self._member.refresh_soon()
            _log.debug("gateway_share_session_failed", group=self._member.group, node=self._node, reason=str(failed))
            if failed.status not in ("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED"):
                self._failed(failed)
            return False
        finally:
            if wanted:
                self._demand.arrived(wanted, records, lock_ms, is_whole=self._is_whole)
        return True

    async def _fetch(self, wanted: int, acks: Sequence[Ack]) -> tuple[list[HeldRecord], int]:
        added = self._places if self._epoch == 0 else self._places - self._in_session
        forgotten = frozenset() if self._epoch == 0 else self._in_session - self._places
        ranges = _by_place(acks)
        topics: dict[UUID, list[Any]] = {}
        for place in sorted(added | ranges.keys(), key=str):
            topics.setdefault(place[0], []).append(
                share_fetch_request.FetchPartition(
                    partition_index=place[1],
                    acknowledgement_batches=_batches(share_fetch_request.AcknowledgementBatch, ranges.get(place, ())),
                )
            )
        gone: dict[UUID, list[int]] = {}
        for topic_id, partition in forgotten:
            gone.setdefault(topic_id, []).append(partition)
        places = self._places
        request = share_fetch_request.ShareFetchRequest(
            group_id=self._member.group,
            member_id=self._member.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._bytes_max,
            max_records=wanted,
            batch_size=wanted,
            share_acquire_mode=RECORD_LIMIT,
            topics=[share_fetch_request.FetchTopic(topic_id=one, partitions=some) for one, some in topics.items()],
            forgotten_topics_data=[
                share_fetch_request.ForgottenTopic(topic_id=one, partitions=some) for one, some in gone.items()
            ],
        )
        link = await self._member.link_to(self._node)
        if self._links.version(link, ApiKey.SHARE_FETCH) < RECORD_LIMIT_VERSION:
            raise GatewayFailed(
                "UNIMPLEMENTED", "the cluster's share groups cannot limit records (Kafka 4.2); use GROUP_KIND_CONSUMER"
            )
        answer = await self._links.call(link, ApiKey.SHARE_FETCH, request, timeout_s=CALL_S + FETCH_WAIT_MS / 1000)
        self._require_success(answer)
        self._in_session = places
        errors = {
            (topic.topic_id, one.partition_index): one.acknowledge_error_code
            for topic in answer.responses
            for one in topic.partitions
        }
        _settle_each(acks, errors)
        return self._records_of(answer), answer.acquisition_lock_timeout_ms

    def _records_of(self, answer: Any) -> list[HeldRecord]:
        records: list[HeldRecord] = []
        self._is_whole = not any(one.error_code for topic in answer.responses for one in topic.partitions)
        for topic in answer.responses:
            for one in topic.partitions:
                place = (topic.topic_id, one.partition_index)
                code = ErrorCode(one.error_code)
                if code is not ErrorCode.NONE:
                    self._note_partition_error(topic.topic_id, code, one.error_message)
                if not one.acquired_records:
                    continue
                ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in one.acquired_records]
                try:
                    acquired = acquired_records(
                        self._member.names[topic.topic_id],
                        one.partition_index,
                        bytes(one.records or b""),
                        ranges,
                        max(self._bytes_max, 64 * 1024 * 1024),
                    )
                except BmqError as error:
                    raise GatewayFailed(
                        "DATA_LOSS", f"a batch of partition {place[1]} cannot be read: {error}"
                    ) from None
                records.extend(acquired.records)
                self._acks.extend(Ack(place, offset, GAP) for offset in acquired.gaps)
        return records

    def _note_partition_error(self, topic_id: UUID, code: ErrorCode, message: str | None) -> None:
        self._member.refresh_soon()
        _log.debug("gateway_share_partition_failed", group=self._member.group, code=code.name, reason=message)
        if status_of(code.name) in ("PERMISSION_DENIED", "NOT_FOUND"):
            name = self._member.names.get(topic_id, str(topic_id))
            self._failed(kafka_failure(f"topic {name!r}", code, message))

    async def _acknowledge(self, acks: Sequence[Ack], epoch: int | None = None) -> None:
        topics: dict[UUID, list[Any]] = {}
        for place, ranges in _by_place(acks).items():
            topics.setdefault(place[0], []).append(
                share_acknowledge_request.AcknowledgePartition(
                    partition_index=place[1],
                    acknowledgement_batches=_batches(share_acknowledge_request.AcknowledgementBatch, ranges),
                )
            )
        request = share_acknowledge_request.ShareAcknowledgeRequest(
            group_id=self._member.group,
            member_id=self._member.member_id,
            share_session_epoch=self._epoch if epoch is None else epoch,
            topics=[
                share_acknowledge_request.AcknowledgeTopic(topic_id=one, partitions=some)
                for one, some in topics.items()
            ],
        )
        link = await self._member.link_to(self._node)
        answer = await self._links.call(link, ApiKey.SHARE_ACKNOWLEDGE, request)
        self._require_success(answer)
        errors = {
            (topic.topic_id, one.partition_index): one.error_code
            for topic in answer.responses
            for one in topic.partitions
        }
        _settle_each(acks, errors)

    def _require_success(self, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code in _LOST_SESSION:
            raise GatewayFailed(
                "ABORTED", "the session with the partition's owner has ended; the record is delivered again"
            )
        if code is not ErrorCode.NONE:
            raise kafka_failure(f"group {self._member.group!r}", code, answer.error_message)
        self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1

    async def _leave(self) -> None:
        """End the session: the server releases what is still acquired."""
        if self._epoch > 0:
            try:
                await self._acknowledge((), CLOSING)
            except GatewayFailed:
                return  # the server releases the records when their locks end

    async def close(self) -> None:
        """Send what is to be acknowledged, and end the session."""
        self._is_closing = True
        self._work.set()
        await asyncio.wait({self._task})


def _by_place(acks: Sequence[Ack]) -> Mapping[SharePlace, Sequence[Any]]:
    kinds: dict[SharePlace, dict[int, int]] = {}
    for ack in acks:
        kinds.setdefault(ack.place, {})[ack.offset] = ack.kind
    return {place: as_ranges(some.items()) for place, some in kinds.items()}


def _batches(of: Any, ranges: Sequence[Any]) -> list[Any]:
    return [of(first_offset=one.first, last_offset=one.last, acknowledge_types=[one.kind]) for one in ranges]


def _settle(acks: Sequence[Ack], failure: GatewayFailed | None) -> None:
    for ack in acks:
        if ack.done is not None and not ack.done.done():
            ack.done.set_result(None if ack.kind == RELEASE and failure is not None else failure)


def _settle_each(acks: Sequence[Ack], errors: Mapping[SharePlace, int]) -> None:
    for ack in acks:
        code = ErrorCode(errors.get(ack.place, 0))
        if code is ErrorCode.NONE:
            _settle([ack], None)
        else:
            _settle([ack], kafka_failure("the record is not settled", code))
