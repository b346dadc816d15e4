"""The owner's side of a tail stream: polls are answered at once, when something moves, or when their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from bmq.internode_server.tail_feed import SentPart
from bmq.internode_server.tail_sessions import TailSession, TailSessions
from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import ForgottenTail, TailFetchRequest, TailInterest
from tests.fakes.partition_log import FakePartitionLog, FakePartitions
from tests.fakes.peer import FakePeer
from tests.support.produced_batch import produced_batch
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=4)


class Owner:
    """Two partitions at epoch 1, and the session of one connection."""

    def __init__(self) -> None:
        self.partitions: Any = FakePartitions()
        self.logs = [self.partitions.add(TOPIC_ID, number, leader_epoch=1) for number in range(2)]
        self.session = TailSession(self.partitions)  # type: ignore[arg-type]
        self.answers: list[list[tuple[int, int, int]]] = []

    def poll(
        self, *added: int, forgotten: Sequence[int] = (), max_wait_ms: int = 1_000, bytes_max: int = 10**6
    ) -> None:
        request = TailFetchRequest(
            max_wait_ms=max_wait_ms,
            bytes_max=bytes_max,
            added=[TailInterest(topic_id=TOPIC_ID, partition=number, leader_epoch=1, offset=0) for number in added],
            forgotten=[ForgottenTail(topic_id=TOPIC_ID, partition=number) for number in forgotten],
        )
        self.session.fetch(request, self.answered)

    def answered(self, told: Sequence[SentPart]) -> None:
        """Noted as (partition, error code, high watermark)."""
        self.answers.append([(one.part.partition, one.part.error_code, one.part.high_watermark) for one in told])


def produce(log: FakePartitionLog) -> None:
    records = memoryview(encode_batch([Record(None, b"v", timestamp_ms=1)]))
    log.append(produced_batch(log.topic_partition, records, lambda _: None))


def test_a_poll_is_answered_at_once_if_there_is_something() -> None:
    async def main() -> None:
        owner = Owner()
        produce(owner.logs[1])
        owner.poll(0, 1)
        assert owner.answers == [[(0, 0, 0), (1, 0, 1)]]

    virtual(main)


def test_what_moves_in_one_turn_is_told_together() -> None:
    async def main() -> None:
        owner = Owner()
        owner.poll(0, 1)
        owner.poll()
        assert len(owner.answers) == 1
        produce(owner.logs[0])
        produce(owner.logs[1])
        produce(owner.logs[1])
        assert len(owner.answers) == 1
        await asyncio.sleep(0)
        assert owner.answers[1:] == [[(0, 0, 1), (1, 0, 2)]]
        await asyncio.sleep(5)
        assert len(owner.answers) == 2

    virtual(main)


def test_what_moves_between_two_polls_is_told_with_the_second() -> None:
    async def main() -> None:
        owner = Owner()
        owner.poll(0)
        produce(owner.logs[0])
        await asyncio.sleep(0)
        assert len(owner.answers) == 1
        owner.poll()
        assert owner.answers[1:] == [[(0, 0, 1)]]

    virtual(main)


def test_a_poll_ends_with_nothing_when_its_time_is_over() -> None:
    async def main() -> None:
        owner = Owner()
        owner.poll(0)
        owner.poll(max_wait_ms=700)
        await asyncio.sleep(0.69)
        assert len(owner.answers) == 1
        await asyncio.sleep(0.02)
        assert owner.answers[1:] == [[]]
        owner.poll(max_wait_ms=-5)
        await asyncio.sleep(0.001)
        assert owner.answers[2:] == [[]]

    virtual(main)


def test_a_newer_poll_ends_the_one_before() -> None:
    async def main() -> None:
        owner = Owner()
        owner.poll(0)
        owner.poll()
        owner.poll(1)
        assert owner.answers[1:] == [[], [(1, 0, 0)]]

    virtual(main)


def test_what_is_forgotten_is_not_watched() -> None:
    async def main() -> None:
        owner = Owner()
        owner.poll(0, 1)
        assert [log.waiting_count for log in owner.logs] == [1, 1]
        owner.poll(forgotten=[0])
        assert [log.waiting_count for log in owner.logs] == [0, 1]
        produce(owner.logs[0])
        await asyncio.sleep(0)
        assert len(owner.answers) == 1

    virtual(main)


def test_watches_do_not_pile_up() -> None:
    async def main() -> None:
        owner = Owner()
        for _ in range(50):
            owner.poll(0)
            produce(owner.logs[0])
            await asyncio.sleep(0)
            assert owner.logs[0].waiting_count <= 1
        owner.poll()
        assert owner.logs[0].waiting_count == 1

    virtual(main)


def test_a_partition_that_is_not_owned_or_ends_is_told_so_once() -> None:
    async def main() -> None:
        owner = Owner()
        owner.partitions.idle.add(TopicPartition(TOPIC_ID, 0))
        owner.poll(0, 1)
        assert owner.answers == [[(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (1, 0, 0)]]
        owner.poll()
        del owner.partitions.logs[TopicPartition(TOPIC_ID, 1)]
        owner.logs[1].wake()
        await asyncio.sleep(0)
        assert owner.answers[1:] == [[(1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]]
        owner.poll(max_wait_ms=10)
        await asyncio.sleep(1)
        assert owner.answers[2:] == [[]]

    virtual(main)


def test_a_lost_connection_takes_everything_with_it() -> None:
    async def main() -> None:
        owner = Owner()
        sessions, peer = TailSessions(), FakePeer()
        session = owner.session = sessions.of(peer, owner.partitions)  # type: ignore[arg-type]
        assert sessions.of(peer, owner.partitions) is session and len(peer.lost) == 1  # type: ignore[arg-type]
        owner.poll(0, 1)
        owner.poll()
        peer.lost[0]()
        assert len(sessions) == 0 and [log.waiting_count for log in owner.logs] == [0, 0]
        produce(owner.logs[0])
        await asyncio.sleep(5)
        assert len(owner.answers) == 1

    virtual(main)
