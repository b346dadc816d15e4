"""A member of a share group (KIP-932): it lives by heartbeats, and what it fetches it accepts, releases, rejects or renews.

One connection to one proxy carries everything. When the connection ends it forgets what it had, as stock clients do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import metadata_request
from bmq.protocol.messages import share_acknowledge_request as acknowledging
from bmq.protocol.messages import share_fetch_request as fetching
from bmq.protocol.messages import share_group_heartbeat_request as heartbeat
from bmq.protocol.record_batch import batches, verify_crc
from bmq.protocol.share_state_messages import BATCH_OPTIMIZED, RECORD_LIMIT, AckType
from tests.simulation.clients import Address, Client, Unhappy, expect
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.share_history import Hold, ShareHistory
from tests.simulation.transaction_history import Place

GROUP = "sharers"
SESSION_S = 6.0
HEARTBEAT_INTERVAL_S = 0.4
DRAINING_PACE_S = 0.02
"""Thousands of records may be left to the one that drains, and a low limit of deliveries lets each of them come alone."""
_LEAVING = -1
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_SESSION_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
# What an acknowledgement may be answered with; it may have been carried out all the same, and tried again by a proxy.
_REFUSALS = (
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST,
)
_FETCH_ERRORS = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

Ack = tuple[Hold, AckType, int]
"""What is settled how, and the newest delivery of the record that was known before."""
SawRecord = Callable[[Place, int, bytes, int], None]
"""(place, offset, value, leader epoch of its batch)"""


@dataclass(slots=True)
class ShareHabits:
    """Chances per round of a member's loop, seconds on average, and how often records are settled in which way."""

    hang_rate: float
    hang_s: float
    life_s: float
    pace_s: float
    renew_rate: float
    kinds: Mapping[AckType, float]

    @classmethod
    def of(cls, dice: random.Random, lock_s: float) -> ShareHabits:
        kinds = dice.choice(
            (
                {AckType.ACCEPT: 1.0},
                {AckType.ACCEPT: 0.8, AckType.RELEASE: 0.18, AckType.REJECT: 0.02},
                {AckType.ACCEPT: 0.5, AckType.RELEASE: 0.5},
            )
        )
        return cls(
            hang_rate=dice.choice((0.0, 0.05, 0.2)),
            hang_s=dice.choice((0.5, 1.0, 1.5)) * lock_s,
            life_s=dice.choice((2.0, 6.0, 20.0)),
            pace_s=dice.choice((0.05, 0.2)),
            renew_rate=dice.choice((0.0, 0.1)),
            kinds=kinds,
        )


class ShareMember(Client):
    """One life. `topics`: the names that it subscribes to; `saw`: hears of each record. `may_be_lost(address, since_s)`:
    whether nodes may have taken its proxy for dead since then."""

    def __init__(
        self, name: str, address: Address, rng: random.Random, history: ShareHistory, topics: Sequence[str],
        habits: ShareHabits, saw: SawRecord, may_be_lost: Callable[[tuple[str, int] | None, float], bool],
    ) -> None:  # fmt: skip
        super().__init__(name, address, rng)
        self.member_id = name
        self.is_draining = False
        self.is_leaving = False  # its life ends after the present round
        self.assigned: dict[tuple[UUID, int], Place] = {}
        self._history = history
        self._topics = topics
        self._names: dict[UUID, str] = {}
        self._habits = habits
        self._saw = saw
        self._may_be_lost = may_be_lost
        self._epoch = 0
        self._session_epoch = 0
        self._in_session: set[tuple[UUID, int]] = set()
        self._heartbeat_s = -1.0  # when the last one was sent that was answered
        self.holds: list[Hold] = []
        self._places: dict[Place, tuple[UUID, int]] = {}
        self._mode = rng.choice((BATCH_OPTIMIZED, RECORD_LIMIT))
        self._max_records = rng.choice((1, 3, 500))

    def disconnect(self) -> None:
        super().disconnect()
        self._forget_session()

    def _forget_session(self) -> None:
        for hold in self.holds:
            self._history.let_go(hold)
        self._history.session_ended(self.member_id)
        self.holds.clear()
        self._session_epoch = 0
        self._in_session.clear()

    def use_names(self, names: Mapping[UUID, str]) -> None:
        self._names = dict(names)

    # --- its life

    async def live(self) -> None:
        """Until it is cancelled, or leaves. Raises Violation."""
        habits = self._habits
        while not self.is_leaving:
            try:
                await self.beat_if_due()
                if self.assigned:
                    await self.round()
            except Unhappy:
                await asyncio.sleep(0.1)
            except Disconnected:
                self.disconnect()
                await asyncio.sleep(0.1 * self.rng.random())
            if not self.is_draining and self.rng.random() < habits.hang_rate:
                await asyncio.sleep(self.rng.expovariate(1 / habits.hang_s))
            await asyncio.sleep(self.rng.expovariate(1 / (DRAINING_PACE_S if self.is_draining else habits.pace_s)))

    async def round(self) -> None:
        """Settle some of what it has, and fetch more. Raises Disconnected, Unhappy, Violation."""
        kinds = {AckType.ACCEPT: 1.0} if self.is_draining else self._habits.kinds
        share = 1.0 if self.is_draining else self.rng.choice((0.5, 1.0))
        chosen = [hold for hold in self.holds if self.rng.random() < share]
        if not self.is_draining and chosen and self.rng.random() < self._habits.renew_rate:
            await self._acknowledge([(hold, AckType.RENEW) for hold in chosen])
            return
        names, weights = list(kinds), list(kinds.values())
        acks = [(hold, AckType.GAP if hold.is_missing else self.rng.choices(names, weights)[0]) for hold in chosen]
        if acks and self.rng.random() < 0.4:
            await self._acknowledge(acks)
            acks = []
        await self._fetch(acks if self._session_epoch else [])

    # --- the group

    async def beat_if_due(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._heartbeat_s >= 0 and self._epoch > 0 and now_s - self._heartbeat_s < HEARTBEAT_INTERVAL_S:
            return
        is_full = self._epoch == 0 or self.rng.random() < 0.1
        request = heartbeat.ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=list(self._topics) if is_full else None,
        )
        answer = await self.request(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        if answer.error_code in _LOST:
            self._history.lost_count += 1
            self._epoch = 0
            self.assigned = {}
            self._heartbeat_s = -1.0
            for hold in self.holds:
                hold.suspicion, hold.may_be_lost = "", lambda since_s: True
            self._history.session_ended(self.member_id)
            raise Unhappy("join again")
        expect(answer.error_code)
        if answer.member_epoch < self._epoch:
            raise Violation(f"{self.name} was at epoch {self._epoch}, and is told {answer.member_epoch}")
        if answer.assignment is not None:
            await self._learn_names({topic.topic_id for topic in answer.assignment.topic_partitions})
        self._heartbeat_s = now_s
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (topic.topic_id, number): (self._names[topic.topic_id], number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            }

    async def _learn_names(self, topic_ids: Collection[UUID]) -> None:
        """Raises Unhappy when its proxy does not know a topic yet: a later heartbeat names them again."""
        if not self._names.keys() >= set(topic_ids):
            answer = await self.request(ApiKey.METADATA, 12, metadata_request.MetadataRequest(topics=None))
            self._names.update((topic.topic_id, topic.name) for topic in answer.topics)
        if not self._names.keys() >= set(topic_ids):
            raise Unhappy("a topic without a name")

    async def leave(self) -> None:
        """Give back what it has, close the session, leave the group; as far as it can."""
        try:
            if self._session_epoch:
                self._session_epoch = _LEAVING
                await self._acknowledge([(hold, AckType.RELEASE) for hold in self.holds])
            request = heartbeat.ShareGroupHeartbeatRequest(
                group_id=GROUP, member_id=self.member_id, member_epoch=_LEAVING
            )
            answer = await self.request(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
            expect(answer.error_code, *_LOST)
        except (Disconnected, Unhappy):
            pass
        finally:
            self.disconnect()

    # --- records

    async def _fetch(self, acks: Sequence[tuple[Hold, AckType]]) -> None:
        history, asked_s = self._history, asyncio.get_running_loop().time()
        sent = self._settling(acks)
        by_partition: dict[tuple[UUID, int], list[Ack]] = {}
        for ack in sent:
            by_partition.setdefault(self._places[ack[0].spot[0]], []).append(ack)
        wanted, is_new = set(self.assigned), self._session_epoch == 0
        named = dict.fromkeys([*sorted(wanted - self._in_session), *by_partition])
        topics: dict[UUID, list[fetching.FetchPartition]] = {}
        for topic_id, number in named:
            partition = fetching.FetchPartition(
                partition_index=number,
                acknowledgement_batches=[
                    fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in _batches_of(by_partition.get((topic_id, number), ()), self.rng)
                ],
            )
            topics.setdefault(topic_id, []).append(partition)
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, number in () if is_new else sorted(self._in_session - wanted - named.keys()):
            forgotten.setdefault(topic_id, []).append(number)
        request = fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=self.rng.choice((0, 100, 300)),
            min_bytes=1,
            max_bytes=300_000,
            max_records=self._max_records,
            batch_size=self._max_records,
            share_acquire_mode=self._mode,
            topics=[fetching.FetchTopic(topic_id=one, partitions=parts) for one, parts in topics.items()],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=one, partitions=numbers) for one, numbers in forgotten.items()
            ],
        )
        try:
            answer = await self.request(ApiKey.SHARE_FETCH, 2, request)
        except (Disconnected, asyncio.CancelledError):
            history.lost_fetch_count += 1
            raise
        if not self._goes_on(answer.error_code):
            raise Unhappy("a new session")
        history.lasted(self.holds, asked_s)
        self._in_session |= named.keys()
        self._in_session -= {(one, number) for one, numbers in forgotten.items() for number in numbers}
        for topic in answer.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                if data.error_code and data.error_code not in _FETCH_ERRORS:
                    raise Violation(f"a share fetch was answered with {ErrorCode(data.error_code).name}")
                if data.error_code:
                    history.failed_fetches[self._names[key[0]], key[1]] += 1
                self._answered(by_partition.pop(key, ()), data.acknowledge_error_code, asked_s)
                self._take(key, data, asked_s, answer.acquisition_lock_timeout_ms / 1000)
        if by_partition:
            raise Violation(f"nothing was said of the acknowledgements of {sorted(by_partition)}")

    def _goes_on(self, code: int) -> bool:
        """Whether the session does. Raises Unhappy, Violation."""
        if code in _SESSION_LOST:
            self._forget_session()
            return False
        expect(code)
        self._session_epoch += self._session_epoch != _LEAVING
        return True

    def _take(self, key: tuple[UUID, int], data: Any, asked_s: float, lock_s: float) -> None:
        if not data.acquired_records:
            return
        place = self._names[key[0]], key[1]
        self._places[place] = key
        found: set[int] = set()
        acquired = [range(one.first_offset, one.last_offset + 1) for one in data.acquired_records]
        for position, header in batches(data.records or b""):
            verify_crc(data.records, position, header)
            if header.is_control:
                continue
            for record in decode_records(data.records, position):
                if any(record.offset in one for one in acquired):
                    found.add(record.offset)
                    self._saw(place, record.offset, record.value or b"", header.leader_epoch)
        address, connection = self._connected_to, self._connection
        for one in data.acquired_records:
            for offset in range(one.first_offset, one.last_offset + 1):

                def may_be_lost(since_s: float) -> bool:
                    is_other = self._connection is not connection
                    is_late = asyncio.get_running_loop().time() - self._heartbeat_s > SESSION_S / 2
                    return is_other or is_late or self._may_be_lost(address, since_s)

                spot, count = (place, offset), one.delivery_count
                is_missing = offset not in found
                hold = Hold(spot, self.member_id, count, asked_s, asked_s + lock_s, may_be_lost, is_missing)
                self._history.deliver(hold)
                self.holds.append(hold)

    # --- acknowledgements

    def _settling(self, acks: Sequence[tuple[Hold, AckType]]) -> list[Ack]:
        sent = []
        for hold, kind in sorted(acks, key=lambda ack: ack[0].spot):
            self._history.settling(hold, kind)
            sent.append((hold, kind, self._history.newest(hold.spot)))
            if kind is not AckType.RENEW:
                self.holds.remove(hold)
        return sent

    async def _acknowledge(self, acks: Sequence[tuple[Hold, AckType]]) -> None:
        asked_s = asyncio.get_running_loop().time()
        sent = self._settling(acks)
        by_partition: dict[tuple[UUID, int], list[Ack]] = {}
        for ack in sent:
            by_partition.setdefault(self._places[ack[0].spot[0]], []).append(ack)
        topics: dict[UUID, list[acknowledging.AcknowledgePartition]] = {}
        for (topic_id, number), some in by_partition.items():
            partition = acknowledging.AcknowledgePartition(
                partition_index=number,
                acknowledgement_batches=[
                    acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in _batches_of(some, self.rng)
                ],
            )
            topics.setdefault(topic_id, []).append(partition)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self._session_epoch,
            is_renew_ack=any(kind is AckType.RENEW for _, kind in acks),
            topics=[acknowledging.AcknowledgeTopic(topic_id=one, partitions=parts) for one, parts in topics.items()],
        )
        answer = await self.request(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
        if not self._goes_on(answer.error_code):
            raise Unhappy("a new session")
        self._history.lasted(self.holds, asked_s)
        for topic in answer.responses:
            for data in topic.partitions:
                some = by_partition.pop((topic.topic_id, data.partition_index), ())  # type: ignore[arg-type]
                renewed_until_s = asked_s + answer.acquisition_lock_timeout_ms / 1000
                self._answered(some, data.error_code, asked_s, renewed_until_s)
        if by_partition:
            raise Violation(f"nothing was said of the acknowledgements of {sorted(by_partition)}")

    def _answered(self, acks: Sequence[Ack], code: int, sent_s: float, renewed_until_s: float = 0.0) -> None:
        if code and code not in _REFUSALS:
            raise Violation(f"an acknowledgement was answered with {ErrorCode(code).name}")
        for hold, kind, newest_before in acks:
            if code:
                self._history.refused(hold, kind)
                if kind is AckType.RENEW and hold in self.holds:
                    self.holds.remove(hold)
                    self._history.let_go(hold)
                continue
            self._history.settled(hold, kind, newest_before, sent_s)
            if kind is AckType.RENEW:
                hold.until_s = max(hold.until_s, renewed_until_s)


def _batches_of(acks: Sequence[Ack], dice: random.Random) -> list[tuple[int, int, list[int]]]:
    """Sometimes one for each record, sometimes one with a type for each offset of a run."""
    found: list[tuple[int, int, list[int]]] = []
    is_joining = dice.random() < 0.5
    for hold, kind, _ in acks:
        offset = hold.spot[1]
        if is_joining and found and found[-1][1] == offset - 1:
            first, _, types = found.pop()
            found.append((first, offset, [*types, int(kind)]))
        else:
            found.append((offset, offset, [int(kind)]))
    return found
