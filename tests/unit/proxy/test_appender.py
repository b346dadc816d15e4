"""The retrying appender: whatever a partition goes through, its batches arrive in order and each is answered exactly once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from math import inf
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.partition_log import (
    AppendDone,
    AppendResult,
    PartitionLog,
    PartitionStarting,
    ProducedBatch,
    TopicPartition,
)
from bmq.log.refused_sequences import FORGOTTEN_S, STEP_S_MAX
from bmq.log.transactions import TransactionClaim
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, TimestampType, rewrite_log_append_time, verify_crc
from bmq.proxy.appender import HOLD_LONGEST_S, HOLD_S, QUEUED_BYTES_MAX, QUEUED_OVERHEAD_BYTES, Appender
from tests.simulation.loop import VirtualTimeLoop
from tests.support.produced_batch import produced_batch

pytestmark = pytest.mark.unit

KEY = TopicPartition(UUID(int=7), 0)
OTHER_KEY = TopicPartition(UUID(int=7), 1)
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
LONG_HOLD_S = 3600.0  # longer than any story here lasts
Batch = tuple[int, int]  # producer, sequence


def virtual(main: Callable[[], Coroutine[Any, Any, None]], *, time_limit_s: float = 600.0) -> None:
    """Run it on virtual time; whatever failed unheard fails the test."""
    loop = VirtualTimeLoop(time_limit_s=time_limit_s)
    try:
        loop.run_until_complete(main())
        assert not loop.failures, loop.failures
    finally:
        loop.discard()


def encoded(batch: Batch, *, is_numbered: bool = True) -> memoryview:
    """The first bytes are the test's own; magic, producer and sequence stand where a header has them."""
    data = bytearray(batch[0].to_bytes(2, "big") + batch[1].to_bytes(4, "big") + bytes(100))
    data[16] = 2
    if not is_numbered:
        data[43:57] = b"\xff" * 14
        return memoryview(data)
    data[43:57] = batch[0].to_bytes(8, "big") + bytes(2) + batch[1].to_bytes(4, "big")
    return memoryview(data)


def decoded(records: memoryview) -> Batch:
    return int.from_bytes(records[:2], "big"), int.from_bytes(records[2:6], "big")


class Owner:
    """The leader of one epoch: keeps what it is given in `pending` until the test decides. `refuse_with`: at once, from
    now on, or the next `refuse_count`."""

    def __init__(self, stored: list[Batch], leader_epoch: int) -> None:
        self.stored = stored
        self.leader_epoch = leader_epoch
        self.pending: deque[tuple[Batch, AppendDone]] = deque()
        self.refuse_with: ErrorCode | None = None
        self.refuse_count = 0
        self.asked = 0
        self.buffers: list[memoryview] = []
        self.claims: list[TransactionClaim | None] = []

    def append(self, batch: ProducedBatch) -> None:
        self.asked += 1
        self.claims.append(batch.request.claim)
        self.buffers.append(batch.records)
        if self.refuse_with is not None:
            batch.complete(AppendResult(self.refuse_with))
        elif self.refuse_count:
            self.refuse_count -= 1
            batch.complete(AppendResult(MOVED))
        else:
            self.pending.append((decoded(batch.records), batch.complete))

    def store(self, count: int, code: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest `count` get into the log, and this is what their producers hear."""
        for _ in range(min(count, len(self.pending))):
            batch, done = self.pending.popleft()
            self.stored.append(batch)
            done(AppendResult(code, len(self.stored) - 1))

    def refuse(self, code: ErrorCode = MOVED, *, newest: int = 10**6) -> None:
        """The newest so many do not get into the log."""
        for _ in range(min(newest, len(self.pending))):
            self.pending.pop()[1](AppendResult(code))


class Moving:
    """Partitions whose owner a test takes away and gives back. `leader_of` waits for one, or raises `errors` first."""

    def __init__(self) -> None:
        self.stored: list[Batch] = []
        self.owner: Owner | None = None
        self.errors: deque[KafkaError] = deque()
        self.looks = 0
        self._epoch = 0
        self._news = asyncio.Event()

    def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.owner  # type: ignore[return-value]

    async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
        self.looks += 1
        if self.errors:
            raise self.errors.popleft()
        while self.owner is None:
            self._news.clear()
            await self._news.wait()
        return self.owner  # type: ignore[return-value]

    def lead(self) -> Owner:
        self._epoch += 1
        self.owner = Owner(self.stored, self._epoch)
        self._news.set()
        return self.owner


class Producing:
    """A retrying appender over moving partitions, and the answers of what it was given."""

    def __init__(self, bytes_max: int = QUEUED_BYTES_MAX) -> None:
        self.partitions = Moving()
        self.appender = Appender(self.partitions, bytes_max, hold_longest_s=LONG_HOLD_S)  # type: ignore[arg-type]
        self.answers: dict[Batch, AppendResult] = {}

    def send(
        self,
        *sequences: int,
        producer: int = 1,
        deadline_s: float = inf,
        key: TopicPartition = KEY,
        is_wanted: Callable[[], bool] = lambda: True,
        is_numbered: bool = True,
    ) -> None:
        for sequence in sequences:
            batch = (producer, sequence)

            def done(result: AppendResult, batch: Batch = batch) -> None:
                assert batch not in self.answers, "answered twice"
                self.answers[batch] = result

            records = encoded(batch, is_numbered=is_numbered)
            now_s = asyncio.get_running_loop().time()
            self.appender.append(
                produced_batch(key, records, done, send_until_s=deadline_s, arrived_s=now_s, is_wanted=is_wanted)
            )

    def code(self, sequence: int, producer: int = 1) -> ErrorCode | None:
        answer = self.answers.get((producer, sequence))
        return None if answer is None else answer.error_code

    @property
    def queued_bytes(self) -> int:
        return self.appender.queued_bytes

    def is_idle(self) -> bool:
        return not self.appender._queues and self.queued_bytes == 0


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_a_request_says_of_its_transaction_goes_to_every_owner() -> None:
    producing, claim = Producing(), TransactionClaim("tx", may_add=True)
    first = producing.partitions.lead()
    for sequence in range(2):
        claimed = claim if sequence else None
        producing.appender.append(produced_batch(KEY, encoded((1, sequence)), lambda result: None, claim=claimed))
    first.refuse()
    second = producing.partitions.lead()
    await turns()
    assert first.claims == second.claims == [None, claim]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    ],
)
def test_what_a_former_owner_refuses_goes_to_the_next_one_in_order(code: ErrorCode) -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2, 3)
        old.store(1)
        producing.partitions.owner = None
        old.refuse(code)
        producing.send(4)
        await turns()
        assert producing.answers.keys() == {(1, 1)}
        new = producing.partitions.lead()
        producing.send(5)
        await turns()
        assert [batch for batch, _ in new.pending] == [(1, 2), (1, 3), (1, 4), (1, 5)]
        producing.send(6)
        new.store(10)
        assert producing.partitions.stored == [(1, n) for n in range(1, 7)]
        assert {answer.error_code for answer in producing.answers.values()} == {ErrorCode.NONE}
        assert len(producing.answers) == 6 and producing.is_idle()

    virtual(main)


def test_nothing_is_sent_on_before_everything_at_the_former_owner_is_answered() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2, 3)
        old.refuse(newest=1)  # it drains: what it has written it will still acknowledge
        new = producing.partitions.lead()
        producing.send(4)
        await asyncio.sleep(5)
        assert not new.pending
        old.store(2)
        await turns()
        assert [batch for batch, _ in new.pending] == [(1, 3), (1, 4)]
        assert producing.code(2) is ErrorCode.NONE

    virtual(main)


@pytest.mark.parametrize("is_numbered", [True, False])
def test_a_batch_without_a_number_is_not_sent_again_behind_a_later_one(is_numbered: bool) -> None:
    """An owner that has just started refused the first one and took the second."""

    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        producing.send(1, 2, 3, is_numbered=is_numbered)
        _, first_done = owner.pending.popleft()
        first_done(AppendResult(MOVED))
        owner.store(1)
        owner.refuse()
        await turns()
        assert [batch for batch, _ in owner.pending] == ([(1, 1), (1, 3)] if is_numbered else [(1, 3)])
        assert producing.code(1) is (None if is_numbered else MOVED)
        owner.store(10)
        assert producing.code(2) is producing.code(3) is ErrorCode.NONE
        assert len(producing.answers) == 3 and producing.is_idle()

    virtual(main)


@pytest.mark.parametrize("is_numbered", [True, False])
def test_a_batch_without_a_number_and_of_unknown_outcome_is_not_sent_again(is_numbered: bool) -> None:
    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        producing.send(1, 2, is_numbered=is_numbered)
        owner.refuse(ErrorCode.NETWORK_EXCEPTION)
        await turns()
        if is_numbered:
            assert [batch for batch, _ in owner.pending] == [(1, 1), (1, 2)]
            owner.store(2)
        expected = ErrorCode.NONE if is_numbered else ErrorCode.REQUEST_TIMED_OUT
        assert producing.code(1) is producing.code(2) is expected
        assert not owner.pending and producing.is_idle()

    virtual(main)


def test_a_new_owner_gets_nothing_while_the_former_one_has_something() -> None:
    """Without any refusal: the way to the partition is another one from one moment to the next."""

    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2)
        new = producing.partitions.lead()
        producing.send(3)
        await turns()
        assert not new.pending and len(old.pending) == 2
        old.store(1)
        old.refuse()
        await turns()
        assert [batch for batch, _ in new.pending] == [(1, 2), (1, 3)]

    virtual(main)


def test_what_stands_behind_a_batch_that_is_refused_at_once_stays_behind_it() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2, 3)
        new = producing.partitions.lead()
        new.refuse_count = 1
        old.refuse()
        await asyncio.sleep(1)
        assert [batch for batch, _ in new.pending] == [(1, 1), (1, 2), (1, 3)]
        new.refuse_count = 1
        producing.send(4, 5)
        new.store(3)
        await asyncio.sleep(1)
        assert [batch for batch, _ in new.pending] == [(1, 4), (1, 5)]

    virtual(main)


class ManyMoving:
    """Partitions none of which has an owner until the test gives it one; `asked`: whose owner was looked for."""

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, Owner] = {}
        self.asked: list[TopicPartition] = []
        self._news = asyncio.Event()

    def ready(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.owners.get(topic_partition)  # type: ignore[return-value]

    async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
        self.asked.append(topic_partition)
        while topic_partition not in self.owners:
            self._news.clear()
            await self._news.wait()
        return self.owners[topic_partition]  # type: ignore[return-value]

    def lead(self, topic_partition: TopicPartition) -> Owner:
        owner = self.owners[topic_partition] = Owner([], 1)
        self._news.set()
        return owner


class Crowd:
    """A retrying appender over partitions that all wait, and the answers by partition and sequence."""

    def __init__(self, partitions_held_max: int, hold_longest_s: float = LONG_HOLD_S) -> None:
        self.partitions = ManyMoving()
        self.starts_waiting = 0
        self.appender = Appender(
            self.partitions,  # type: ignore[arg-type]
            partitions_held_max=partitions_held_max,
            hold_longest_s=hold_longest_s,
            starts_waiting=lambda: self.starts_waiting,
        )
        self.answers: list[tuple[int, int, ErrorCode]] = []

    def send(self, partition: int, sequence: int = 0, *, is_answered: bool = True) -> None:
        def done(result: AppendResult) -> None:
            self.answers.append((partition, sequence, result.error_code))

        records = encoded((1, sequence))
        self.appender.append(
            produced_batch(self.key(partition), records, done, is_acks_all=is_answered, is_answered=is_answered)
        )

    @staticmethod
    def key(partition: int) -> TopicPartition:
        return TopicPartition(KEY.topic_id, partition)


def test_a_crowd_of_partitions_that_wait_is_refused_at_once_and_started_all_the_same() -> None:
    """Answers of a connection leave in order: what waits keeps the partitions that are well waiting."""

    async def main() -> None:
        crowd = Crowd(partitions_held_max=3)
        for partition in range(3):
            crowd.send(partition)
        await asyncio.sleep(5)
        assert not crowd.answers
        crowd.send(3)
        await asyncio.sleep(HOLD_S * 0.9)
        assert not crowd.answers, "it may be over in a moment"
        await asyncio.sleep(HOLD_S * 0.2)
        assert sorted(crowd.answers) == [(partition, 0, MOVED) for partition in range(4)]
        crowd.send(4)
        assert crowd.answers[-1] == (4, 0, MOVED), "in a crowd a new one does not wait at all"
        assert crowd.appender.queued_bytes == 0
        await turns()
        assert crowd.partitions.asked == [crowd.key(partition) for partition in range(5)]
        for partition in (0, 3, 4):
            owner = crowd.partitions.lead(crowd.key(partition))
            await turns()
            crowd.answers.clear()
            crowd.send(partition)
            owner.store(1)
            assert crowd.answers == [(partition, 0, ErrorCode.NONE)]
        crowd.send(1)  # two wait, which is no crowd
        await asyncio.sleep(5)
        assert len(crowd.answers) == 1
        crowd.partitions.lead(crowd.key(1))
        crowd.partitions.lead(crowd.key(2))
        await turns()
        assert not crowd.appender._queues[crowd.key(1)].waiting and crowd.appender.queued_bytes == 0

    virtual(main)


def test_a_single_partition_is_not_waited_for_long_and_started_all_the_same() -> None:
    """The five requests that a client sends ahead may all be for it: no answer of the others would leave."""

    async def main() -> None:
        crowd = Crowd(partitions_held_max=4, hold_longest_s=HOLD_LONGEST_S)
        for sequence in range(2):
            crowd.send(0, sequence)
        crowd.send(1, is_answered=False)
        await asyncio.sleep(HOLD_LONGEST_S * 0.9)
        assert not crowd.answers
        await asyncio.sleep(HOLD_LONGEST_S * 0.2)
        assert crowd.answers == [(0, 0, MOVED), (0, 1, MOVED)]
        crowd.send(0)
        assert crowd.answers[2:] == [(0, 0, MOVED)], "it is known to take long"
        owner = crowd.partitions.lead(crowd.key(0))
        other = crowd.partitions.lead(crowd.key(1))
        await turns()
        other.store(1)
        crowd.send(0)
        owner.store(1)
        assert crowd.answers[3:] == [(1, 0, ErrorCode.NONE), (0, 0, ErrorCode.NONE)]
        assert not crowd.appender._queues and crowd.appender.queued_bytes == 0
        del crowd.partitions.owners[crowd.key(0)]
        crowd.answers.clear()
        crowd.send(0, 1)
        await asyncio.sleep(HOLD_LONGEST_S * 0.9)
        assert not crowd.answers, "its next move begins anew"
        crowd.starts_waiting = crowd.appender._partitions_held_max
        await asyncio.sleep(HOLD_S)
        assert not crowd.answers
        crowd.partitions.lead(crowd.key(0))
        await turns()

    virtual(main)


def test_a_partition_is_not_waited_for_while_many_starts_wait_for_their_turn() -> None:
    async def main() -> None:
        crowd = Crowd(partitions_held_max=4)
        crowd.send(0)
        await asyncio.sleep(HOLD_S * 5)
        assert not crowd.answers
        crowd.starts_waiting = 5
        crowd.send(1)
        await asyncio.sleep(HOLD_S * 1.1)
        assert sorted(crowd.answers) == [(0, 0, MOVED), (1, 0, MOVED)]
        crowd.starts_waiting = 4
        crowd.send(2)
        await asyncio.sleep(HOLD_S * 5)
        assert len(crowd.answers) == 2
        for partition in range(3):
            crowd.partitions.lead(crowd.key(partition))
        await turns()

    virtual(main)


def test_partitions_whose_owners_are_found_at_once_are_no_crowd() -> None:
    async def main() -> None:
        crowd = Crowd(partitions_held_max=1)
        for _ in range(5):
            for partition in range(20):
                crowd.send(partition)
            await asyncio.sleep(HOLD_S * 0.9)
            for partition in range(20):
                owner = crowd.partitions.lead(crowd.key(partition))
                await turns()
                owner.store(1)
                del crowd.partitions.owners[crowd.key(partition)]
            await asyncio.sleep(HOLD_S)
        assert [code for _, _, code in crowd.answers] == [ErrorCode.NONE] * 100
        assert not crowd.appender._long_moves and not crowd.appender._queues

    virtual(main)


def test_nothing_overtakes_what_was_refused_in_a_crowd() -> None:
    async def main() -> None:
        crowd = Crowd(partitions_held_max=1)
        crowd.send(0, 7)
        crowd.send(1)
        await asyncio.sleep(HOLD_S * 1.1)
        assert crowd.answers == [(0, 7, MOVED), (1, 0, MOVED)]
        owner = crowd.partitions.lead(crowd.key(0))
        await turns()
        crowd.answers.clear()
        crowd.send(0, 8)
        assert crowd.answers == [(0, 8, MOVED)] and not owner.pending
        crowd.send(0, 7)
        crowd.send(0, 8)
        assert [batch for batch, _ in owner.pending] == [(1, 7), (1, 8)]

    virtual(main)


def test_batches_that_nobody_would_send_again_wait_in_a_crowd() -> None:
    """With acks=0 a refusal loses the records."""

    async def main() -> None:
        crowd = Crowd(partitions_held_max=1)
        for partition in range(4):
            crowd.send(partition, is_answered=False)
        await asyncio.sleep(1)
        assert not crowd.answers
        for partition in range(4):
            owner = crowd.partitions.lead(crowd.key(partition))
            await turns()
            owner.store(1)
        assert sorted(crowd.answers) == [(partition, 0, ErrorCode.NONE) for partition in range(4)]
        assert not crowd.appender._queues and crowd.appender.queued_bytes == 0

    virtual(main)


def test_in_a_crowd_what_a_former_owner_refuses_is_refused_once_it_has_answered_everything() -> None:
    """Refused before, a batch behind it would be out of order for the former owner, and its producer would hear that."""

    async def main() -> None:
        crowd = Crowd(partitions_held_max=1)
        old = crowd.partitions.lead(crowd.key(0))
        for sequence in range(3):
            crowd.send(0, sequence)
        for partition in (1, 2, 3):
            crowd.send(partition)
        await asyncio.sleep(HOLD_S * 1.1)
        del crowd.partitions.owners[crowd.key(0)]
        crowd.answers.clear()
        _, done = old.pending.popleft()
        done(AppendResult(MOVED))
        await turns()
        assert not crowd.answers
        old.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await turns()
        assert crowd.answers == [(0, sequence, MOVED) for sequence in range(3)]
        assert crowd.partitions.asked[-1] == crowd.key(0)

    virtual(main)


def test_partitions_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        producing.send(1)
        owner.refuse()
        producing.partitions.owner = None
        await turns()
        owner = producing.partitions.lead()
        producing.send(1, producer=2, key=OTHER_KEY)
        assert [batch for batch, _ in owner.pending] == [(2, 1)]

    virtual(main)


def test_other_refusals_are_told_and_hold_nobody_up() -> None:
    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        producing.send(1, 2)
        owner.pending.popleft()[1](AppendResult(ErrorCode.MESSAGE_TOO_LARGE))
        producing.send(3)
        owner.store(2, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert producing.code(1) is ErrorCode.MESSAGE_TOO_LARGE
        assert producing.code(3) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert producing.partitions.looks == 0 and producing.is_idle()

    virtual(main)


def test_what_is_out_of_order_only_behind_a_refused_batch_goes_with_it() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2)
        old.pending.popleft()[1](AppendResult(MOVED))
        new = producing.partitions.lead()
        old.pending.popleft()[1](AppendResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
        await turns()
        assert [batch for batch, _ in new.pending] == [(1, 1), (1, 2)]
        new.store(1)
        new.pending.popleft()[1](AppendResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))  # this one is the producer's own
        assert producing.code(2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    virtual(main)


def test_a_deleted_topic_is_told_to_all_who_wait() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2)
        producing.partitions.owner = None
        producing.partitions.errors.append(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone"))
        old.refuse()
        producing.send(3)
        await turns()
        assert {answer.error_code for answer in producing.answers.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert list(producing.answers) == [(1, 1), (1, 2), (1, 3)]
        assert producing.is_idle()

    virtual(main)


def test_a_partition_that_goes_on_starting_is_waited_for_and_one_that_is_offline_is_not() -> None:
    async def main() -> None:
        producing = Producing()
        producing.partitions.errors += [
            PartitionStarting("recovering"),
            KafkaError(MOVED),
            PartitionStarting("opening"),
        ]
        producing.send(1)
        await asyncio.sleep(1)
        assert producing.partitions.looks == 4 and not producing.answers
        producing.partitions.lead().store(0)
        await turns()
        assert producing.partitions.owner is not None
        producing.partitions.owner.store(1)
        assert producing.code(1) is ErrorCode.NONE
        producing.partitions.owner = None
        producing.partitions.errors.append(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "offline"))
        producing.send(2)
        await turns()
        assert producing.code(2) is ErrorCode.KAFKA_STORAGE_ERROR

    virtual(main)


def test_a_batch_is_dropped_at_its_deadline_and_not_later() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2, deadline_s=2.0)
        producing.send(3, producer=2, deadline_s=100.0)
        producing.partitions.owner = None
        old.refuse()
        producing.send(4, deadline_s=2.0)
        await asyncio.sleep(1.9)
        producing.appender.expire(1.9)
        assert not producing.answers and producing.queued_bytes == 4 * (106 + QUEUED_OVERHEAD_BYTES)
        producing.appender.expire(2.0)
        assert {sequence for _, sequence in producing.answers} == {1, 2, 4}
        assert {answer.error_code for answer in producing.answers.values()} == {ErrorCode.REQUEST_TIMED_OUT}
        new = producing.partitions.lead()
        await turns()
        new.store(10)
        assert producing.partitions.stored == [(2, 3)] and producing.is_idle()

    virtual(main)


def test_what_is_refused_after_its_deadline_is_not_sent_again() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, deadline_s=1.0)
        await asyncio.sleep(1.5)
        producing.partitions.lead()
        old.refuse(ErrorCode.NETWORK_EXCEPTION)
        await turns()
        assert producing.code(1) is MOVED  # consumers and old producers know of no network exception
        assert producing.is_idle()

    virtual(main)


def test_what_is_too_old_once_an_owner_is_found_is_not_handed_to_it() -> None:
    """The client has given it up by then, and may have sent it, and others behind it, by another way."""

    async def main() -> None:
        producing = Producing()
        producing.send(1, deadline_s=2.0)
        producing.send(2, producer=2, deadline_s=100.0)
        await asyncio.sleep(2.5)  # nobody has looked at the deadlines meanwhile
        owner = producing.partitions.lead()
        await turns()
        owner.store(10)
        assert producing.code(1) is ErrorCode.REQUEST_TIMED_OUT and producing.code(2, 2) is ErrorCode.NONE
        assert producing.partitions.stored == [(2, 2)] and producing.is_idle()

    virtual(main)


@pytest.mark.parametrize("is_moved_first", [True, False])
def test_nothing_gets_past_a_refused_batch_of_its_producer(is_moved_first: bool) -> None:
    """The next owner may not know the producer: it would take the second batch as the first, and the first never again."""

    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(0, 1, 2)
        producing.send(0, producer=2)
        producing.partitions.owner = None
        first = old.pending.popleft()[1]
        if not is_moved_first:
            first(AppendResult(ErrorCode.KAFKA_STORAGE_ERROR))
        old.refuse()
        if is_moved_first:
            first(AppendResult(ErrorCode.KAFKA_STORAGE_ERROR))
        new = producing.partitions.lead()
        await turns()
        producing.send(3)  # sent before its client read the refusal
        new.store(10)
        assert producing.partitions.stored == [(2, 0)]
        assert producing.code(0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert [producing.code(sequence) for sequence in (1, 2, 3)] == [MOVED] * 3
        producing.answers.clear()
        producing.send(0, 1, 2, 3)
        new.store(10)
        assert producing.partitions.stored == [(2, 0), (1, 0), (1, 1), (1, 2), (1, 3)] and producing.is_idle()

    virtual(main)


def test_what_waited_for_long_behind_a_refused_batch_does_not_get_past_it() -> None:
    """It was sent before its client could read the refusal, however late the next owner is found."""

    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(0, 1)
        producing.partitions.owner = None
        old.pending.popleft()[1](AppendResult(ErrorCode.KAFKA_STORAGE_ERROR))
        old.refuse()
        producing.send(2)
        for _ in range(20):
            await asyncio.sleep(STEP_S_MAX)
            producing.send(0, producer=2, key=OTHER_KEY, is_wanted=lambda: False)
            producing.answers.pop((2, 0), None)
        new = producing.partitions.lead()
        await turns()
        new.store(10)
        assert [producing.code(sequence) for sequence in (0, 1, 2)] == [ErrorCode.KAFKA_STORAGE_ERROR, MOVED, MOVED]
        assert (1, 1) not in producing.partitions.stored

    virtual(main)


def test_a_refused_batch_that_nobody_sends_again_is_forgotten() -> None:
    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        producing.send(5)
        owner.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        producing.send(6)
        assert producing.code(6) is MOVED
        for _ in range(int(FORGOTTEN_S / STEP_S_MAX) - 1):
            await asyncio.sleep(STEP_S_MAX)
            del producing.answers[1, 6]
            producing.send(6)
            assert producing.code(6) is MOVED
        await asyncio.sleep(STEP_S_MAX)
        producing.send(7)
        owner.store(1)
        assert producing.code(7) is ErrorCode.NONE

    virtual(main)


def test_sequences_that_begin_again_at_zero_stand_behind_the_greatest() -> None:
    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        producing.send(2**31 - 1)
        owner.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        producing.send(0)
        assert producing.code(0) is MOVED
        producing.answers.clear()
        producing.send(2**31 - 1, 0)
        owner.store(2)
        assert producing.partitions.stored == [(1, 2**31 - 1), (1, 0)]

    virtual(main)


@pytest.mark.parametrize("is_refused_first", [True, False])
def test_what_a_client_sent_that_has_left_goes_nowhere(is_refused_first: bool) -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead() if is_refused_first else None
        producing.send(1, is_wanted=lambda: False)
        producing.send(2)
        if old is not None:
            producing.partitions.owner = None
            old.refuse()
        await turns()
        owner = producing.partitions.lead()
        await turns()
        owner.store(10)
        assert producing.partitions.stored == [(1, 2)] and producing.is_idle()

    virtual(main)


def test_a_batch_goes_to_its_next_owner_in_another_buffer() -> None:
    """A link to the old owner, or its file's writer, may still hold the first: what an owner writes into it would be sent."""

    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1)
        producing.partitions.owner = None
        (first,) = old.buffers
        before = bytes(first)
        old.refuse()
        new = producing.partitions.lead()
        await turns()
        (second,) = new.buffers
        assert bytes(second) == before
        second[50] ^= 0xFF  # an owner writes its leader epoch and the base offset into what it gets
        assert bytes(first) == before

    virtual(main)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_time_that_an_owner_has_stamped_is_no_claim_of_the_producer(is_damaged: bool) -> None:
    """The next owner would refuse a batch whose producer had set the timestamp type to LogAppendTime."""

    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        records = memoryview(encode_batch([Record(b"k", b"v", timestamp_ms=5)], producer_id=1, base_sequence=1))
        answers: list[AppendResult] = []
        producing.appender.append(produced_batch(KEY, records, answers.append))
        stamped = rewrite_log_append_time(records, 0, BatchHeader.parse(records), 9)
        if is_damaged:
            records[-1] ^= 1
        producing.partitions.owner = None
        old.refuse()
        new = producing.partitions.lead()
        await turns()
        (second,) = new.buffers
        header = BatchHeader.parse(second)
        if is_damaged:
            assert header == stamped, "a wrong checksum is not made right"
        else:
            assert header.timestamp_type is TimestampType.CREATE_TIME
            verify_crc(second, 0, header)
        new.store(1)
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE]

    virtual(main)


def test_what_waits_is_bounded() -> None:
    async def main() -> None:
        producing = Producing(bytes_max=3 * (106 + QUEUED_OVERHEAD_BYTES))
        old = producing.partitions.lead()
        producing.send(1, 2)
        producing.partitions.owner = None
        old.refuse()
        producing.send(3, 4, 5)
        assert {sequence: answer.error_code for (_, sequence), answer in producing.answers.items()} == {
            4: MOVED,
            5: MOVED,
        }
        new = producing.partitions.lead()
        await turns()
        assert [batch for batch, _ in new.pending] == [(1, 1), (1, 2), (1, 3)]
        assert producing.queued_bytes == 0
        producing.send(6)
        assert len(new.pending) == 4

    virtual(main)


@pytest.mark.parametrize("refuses_at_once", [True, False])
def test_an_owner_that_refuses_on_and_on_is_not_asked_all_the_time(refuses_at_once: bool) -> None:
    async def main() -> None:
        producing = Producing()
        owner = producing.partitions.lead()
        owner.refuse_with = MOVED if refuses_at_once else None
        producing.send(1, 2)
        for _ in range(1_000):
            await asyncio.sleep(0.01)
            owner.refuse()
        # Ten seconds: some quick tries at first, then one each 0.2 s.
        assert 40 <= producing.partitions.looks <= 70
        assert owner.asked <= 2 * producing.partitions.looks + 2
        owner.refuse_with = None
        await asyncio.sleep(0.3)
        owner.store(2)
        assert producing.partitions.stored == [(1, 1), (1, 2)]

    virtual(main)


def test_the_first_refusal_is_met_without_a_pause() -> None:
    async def main() -> None:
        producing = Producing()
        for sequence in range(1, 20):
            old = producing.partitions.lead()
            producing.send(sequence)
            new = producing.partitions.lead()
            old.refuse()
            await turns()
            new.store(1)
        assert producing.partitions.stored == [(1, n) for n in range(1, 20)]
        assert asyncio.get_running_loop().time() == 0

    virtual(main)


def test_stopping_answers_what_waits_and_what_is_refused_later() -> None:
    async def main() -> None:
        producing = Producing()
        old = producing.partitions.lead()
        producing.send(1, 2)
        producing.partitions.owner = None
        old.refuse(newest=1)
        producing.send(3)
        await turns()
        producing.appender.stop()
        assert producing.code(2) is producing.code(3) is MOVED
        old.refuse(ErrorCode.NETWORK_EXCEPTION)
        assert producing.code(1) is MOVED
        producing.send(4)
        assert producing.code(4) is MOVED
        await turns()
        assert producing.is_idle()

    virtual(main)


def test_a_fault_in_the_way_to_a_partition_is_answered() -> None:
    async def main() -> None:
        producing = Producing()
        producing.partitions.errors.append(ValueError("a bug"))  # type: ignore[arg-type]
        producing.send(1)
        await turns()
        assert producing.code(1) is ErrorCode.UNKNOWN_SERVER_ERROR and producing.is_idle()
        producing.partitions.lead()
        producing.send(2)
        assert producing.partitions.owner is not None and len(producing.partitions.owner.pending) == 1

    virtual(main)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
@pytest.mark.parametrize("is_idle", [True, False])
def test_an_owner_takes_a_forwarded_batch_only_at_the_epoch_it_was_meant_for(
    epoch: int, code: ErrorCode | None, is_idle: bool
) -> None:
    async def main() -> None:
        partitions = Moving()
        owner = Owner(partitions.stored, 5)
        partitions.owner = None if is_idle else owner
        appender = Appender(partitions, retries=False)  # type: ignore[arg-type]
        answers: list[AppendResult] = []
        appender.append(produced_batch(KEY, encoded((1, 1)), answers.append, leader_epoch=epoch))
        if is_idle:
            await turns()
            partitions.owner = owner
            partitions._news.set()
            await turns()
        assert [answer.error_code for answer in answers] == ([] if code is None else [code])
        assert len(owner.pending) == (code is None)

    virtual(main)


def test_a_start_that_fails_for_our_fault_is_answered() -> None:
    class Broken(Moving):
        async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
            raise RuntimeError("a bug")

    async def main() -> None:
        appender = Appender(Broken(), retries=False)  # type: ignore[arg-type]
        answers: list[AppendResult] = []
        for sequence in (1, 2):
            appender.append(produced_batch(KEY, encoded((1, sequence)), answers.append))
        await turns()
        assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2

    virtual(main)


def first_and_last_places(stored: list[Batch], producer: int) -> tuple[list[int], list[int]]:
    """The sequences in the order of their first, and of their last, place in the log."""
    mine = [sequence for who, sequence in stored if who == producer]
    return list(dict.fromkeys(mine)), list(dict.fromkeys(reversed(mine)))[::-1]


@given(seed=st.integers(0, 2**32), steps=st.integers(10, 150), has_deadlines=st.booleans())
def test_order_is_kept_and_every_produce_is_answered_once(seed: int, steps: int, has_deadlines: bool) -> None:
    """Random refusals, moves and losses. What the log has of a producer is in order, apart from what was sent again because
    its answer was lost; and what was acknowledged is there."""
    random = Random(seed)

    async def main() -> None:
        producing = Producing()
        partitions = producing.partitions
        owners: list[Owner] = []
        sequences = [0, 0, 0]
        loop = asyncio.get_running_loop()

        def end_leadership(owner: Owner) -> None:
            """What is pending was written or not, a prefix of it; some of the answers come, in any order of refusals."""
            owner.refuse_with = random.choice((MOVED, ErrorCode.NETWORK_EXCEPTION, ErrorCode.FENCED_LEADER_EPOCH))
            written = random.randint(0, len(owner.pending))
            is_lost = random.random() < 0.5
            if not is_lost and random.random() < 0.5:
                owner.refuse(owner.refuse_with, newest=len(owner.pending) - written)
            owner.store(written, owner.refuse_with if is_lost else ErrorCode.NONE)
            owner.refuse(owner.refuse_with)

        for _ in range(steps):
            step = random.random()
            if step < 0.5:
                producer = random.randrange(3)
                sequences[producer] += 1
                deadline_s = loop.time() + random.choice((0.05, 0.5, 5)) if has_deadlines else inf
                producing.send(sequences[producer], producer=producer, deadline_s=deadline_s)
            elif step < 0.65 and partitions.owner is not None:
                partitions.owner.store(random.randint(1, 4))
            elif step < 0.75:
                owners.append(partitions.lead())
            elif step < 0.8:
                partitions.owner = None
            elif step < 0.85:
                partitions.errors.append(KafkaError(random.choice((MOVED, ErrorCode.NETWORK_EXCEPTION))))
            elif step < 0.95:
                former = [owner for owner in owners if owner is not partitions.owner or random.random() < 0.2]
                if former:
                    end_leadership(random.choice(former))
            elif random.random() < 0.5:
                await turns(random.randint(1, 5))
            else:
                await asyncio.sleep(random.choice((0.01, 0.1, 1)))
                producing.appender.expire(loop.time())

        last = partitions.lead()
        for _ in range(60):
            for owner in owners:
                end_leadership(owner)
            last.store(1000)
            await asyncio.sleep(0.1)
            producing.appender.expire(loop.time())
        assert producing.answers.keys() == {(p, s + 1) for p, count in enumerate(sequences) for s in range(count)}
        assert producing.is_idle()
        told = {batch for batch, answer in producing.answers.items() if answer.error_code is ErrorCode.NONE}
        assert told <= set(partitions.stored)
        if not has_deadlines:
            assert told == producing.answers.keys()
        for producer in range(3):
            first, last_ones = first_and_last_places(partitions.stored, producer)
            assert first == sorted(first)
            # Of a run that is sent again, some may have expired meanwhile; else it is sent again as a whole.
            assert has_deadlines or last_ones == sorted(last_ones)

    virtual(main)
