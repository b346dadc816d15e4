"""Appends as an idempotent producer: sequences, lost answers, and a new producer id after an unknown outcome."""

from __future__ import annotations

import asyncio

import pytest

from bmq.log.partition_log import AppendResult, PartitionLog, ProducedBatch, TopicPartition
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, producer_of
from bmq.proxy.appender import Appender
from bmq.proxy.dead_letters import record_appends
from bmq.proxy.dead_letters.record_appends import RecordAppender
from tests.fakes.partition_log import FakePartitionLog
from tests.unit.proxy_dead_letters.letter_cluster import LETTERS_ID, LetterCluster

pytestmark = pytest.mark.unit

PLACE = TopicPartition(LETTERS_ID, 0)


def records(*values: bytes) -> list[Record]:
    return [Record(None, value, (), 1) for value in values]


def producers(log: FakePartitionLog) -> list[tuple[int, int, int] | None]:
    return [producer_of(batch.data) for batch in log.batches]


async def test_sequences_count_up_for_each_partition(cluster: LetterCluster) -> None:
    assert await cluster.appender.append(PLACE, records(b"a", b"b")) == 0
    assert await cluster.appender.append(PLACE, records(b"c")) == 2
    await cluster.appender.append(PLACE._replace(partition=1), records(b"d"))
    assert producers(cluster.log(0, LETTERS_ID)) == [(1_000, 0, 0), (1_000, 0, 2)]
    assert producers(cluster.log(1, LETTERS_ID)) == [(1_001, 0, 0)]


async def test_a_partition_has_one_batch_under_way(cluster: LetterCluster) -> None:
    log = cluster.log(0, LETTERS_ID)
    log.is_acknowledging = False
    both = [asyncio.create_task(cluster.appender.append(PLACE, records(value))) for value in (b"a", b"b")]
    for _ in range(20):
        await asyncio.sleep(0)
    assert log.pending_count == 1
    log.is_acknowledging = True
    log.acknowledge()
    assert await asyncio.gather(*both) == [0, 1]
    assert producers(log) == [(1_000, 0, 0), (1_000, 0, 1)]


async def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_number(cluster: LetterCluster) -> None:
    log = cluster.log(0, LETTERS_ID)

    class LosesOne:
        """The owner, whose first answer is lost."""

        def __init__(self) -> None:
            self.seen: list[tuple[int, int, int] | None] = []

        def __getattr__(self, name: str) -> object:
            return getattr(log, name)

        def append(self, batch: ProducedBatch) -> None:
            self.seen.append(producer_of(batch.records))
            code = ErrorCode.NETWORK_EXCEPTION if len(self.seen) == 1 else ErrorCode.NONE
            asyncio.get_running_loop().call_soon(batch.complete, AppendResult(code, 7))

    owner = LosesOne()

    class Partitions:
        def ready(self, topic_partition: TopicPartition) -> PartitionLog:
            return owner  # type: ignore[return-value]

        async def leader_of(self, topic_partition: TopicPartition) -> PartitionLog:
            return owner  # type: ignore[return-value]

    appender = Appender(Partitions())  # type: ignore[arg-type]
    ids = cluster.fetch_cluster.services.producer_ids
    ids._allocate = cluster.producer_ids
    made = RecordAppender(lambda: appender, lambda: ids)
    assert await made.append(PLACE, records(b"a")) == 7
    assert owner.seen == [(1_000, 0, 0), (1_000, 0, 0)]


async def test_after_a_refusal_another_producer_goes_on(cluster: LetterCluster) -> None:
    log = cluster.log(0, LETTERS_ID)
    await cluster.appender.append(PLACE, records(b"a"))
    log.refuse_with = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(KafkaError):
        await cluster.appender.append(PLACE, records(b"b"))
    log.refuse_with = None
    await cluster.appender.append(PLACE, records(b"b"))
    assert producers(log) == [(1_000, 0, 0), (1_001, 0, 0)]


async def test_no_answer_is_a_sentence(cluster: LetterCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_appends, "APPEND_WAIT_MAX_S", 0.05)
    cluster.log(0, LETTERS_ID).is_acknowledging = False
    with pytest.raises(KafkaError, match="no answer to an append") as refused:
        await cluster.appender.append(PLACE, records(b"a"))
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_only_some_partitions_are_remembered(cluster: LetterCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_appends, "PARTITIONS_MAX", 1)
    for partition in (0, 1, 0):
        await cluster.appender.append(PLACE._replace(partition=partition), records(b"a"))
    headers = [BatchHeader.parse(batch.data) for batch in cluster.log(0, LETTERS_ID).batches]
    assert [(one.producer_id, one.base_sequence) for one in headers] == [(1_000, 0), (1_002, 0)]
