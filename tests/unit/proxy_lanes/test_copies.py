"""What a lane has left over: which records are copied, and that a repeated job writes the same batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.log.lanes.copying import CopyJob, CopyStep
from bmq.log.producer_state import ProducerStates
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.lanes import copies
from bmq.proxy.lanes.copies import LaneCopier

pytestmark = pytest.mark.unit

SOURCE, TARGET = UUID(int=1), UUID(int=2)


class Log:
    """Batches in memory; `aborted` as a log tells them."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.end = 0
        self.log_start_offset = 0
        self.last_stable_offset = 0
        self.aborted: list[Any] = []

    def add(self, lanes: list[str], *, producer_id: int = -1, codec: Compression = Compression.NONE) -> None:
        records = [Record(b"k", b"%d" % (self.end + at), (("x-lane", lane.encode()),)) for at, lane in enumerate(lanes)]
        batch = encode_batch(
            records,
            base_offset=self.end,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            attributes=TRANSACTIONAL if producer_id >= 0 else 0,
        )
        self._add(bytes(batch), len(lanes))

    def mark(self, producer_id: int, control_type: ControlType) -> None:
        marker = EndTransactionMarker(control_type, 0)
        batch = encode_end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1, base_offset=self.end
        )
        self._add(bytes(batch), 1)

    def _add(self, batch: bytes, count: int) -> None:
        self.data.append(batch)
        self.end += count
        self.last_stable_offset = self.end

    def aborted_transactions(self, first: int, end: int) -> list[Any]:
        return [one for one in self.aborted if one.first_offset < end]

    async def prove_ownership(self) -> None:
        pass


async def at_once(work: Callable[[], Any]) -> Any:
    """As asyncio.to_thread."""
    return work()


class World:
    """`written`: (partition, producer id, sequence, offsets that the copies name). `refusal`: why their owner does not take these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = Log()
        self.written: list[tuple[int, int, int, list[int]]] = []
        self.producers = ProducerStates()
        self.refusal: Callable[[list[Record]], ErrorCode | None] = lambda records: None
        self.topics = {
            "t": SimpleNamespace(name="t", topic_id=SOURCE, partitions=(0,)),
            "t.retry.g": SimpleNamespace(name="t.retry.g", topic_id=TARGET, partitions=(0, 1)),
        }

        async def read_views(shared: object, log: Log, offset: int, limit: int, bound: int) -> list[memoryview]:
            found = [one for one in log.data if offset < BatchHeader.parse(one).end_offset <= bound]
            return [memoryview(b"".join(found))] if found else []

        monkeypatch.setattr(copies, "read_views", read_views)

        world = cast(Any, self)
        self.copier = LaneCopier(world.image, world, lambda: cast(Any, None), world, BatchOpener(at_once))

    def image(self) -> Any:
        return SimpleNamespace(topics=self.topics, topics_by_id={one.topic_id: one for one in self.topics.values()})

    async def leader_of(self, place: object) -> Log:
        return self.log

    async def new_producer_id(self) -> int:
        return 9

    def append_as(self, place: Any, records: list[Record], producer_id: int, sequence: int) -> Awaitable[int]:
        offsets = [int(dict(record.headers)["bmq-lane-offset"] or b"") for record in records]
        assert [int(record.value or b"") for record in records] == offsets

        async def done() -> int:
            """As the owner of the copies' partition."""
            data = encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            header = BatchHeader.parse(data)
            if (code := self.refusal(records)) is not None:
                if code is ErrorCode.MESSAGE_TOO_LARGE and self._has(header):
                    return 0
                raise KafkaError(code, "the owner's reason")
            if self.producers.check(header) is None:
                self.producers.place(header, sequence, 0)
                self.written.append((place.partition, producer_id, sequence, offsets))
            return 0

        return done()

    def _has(self, header: BatchHeader) -> bool:
        try:
            return self.producers.check(header) is not None
        except KafkaError:
            return False

    async def run(self, first: int, end: int) -> list[CopyStep]:
        """Steps to the end, each of them twice, as after a crash."""
        steps, sequence = [], 0
        while first < end:
            job = CopyJob("g", SOURCE, 0, "blue", first, end, 9, sequence, 1)
            step = await self.copier.copy(job)
            written = [*self.written]
            assert await self.copier.copy(job) == step
            assert self.written == written, "the same batch again is a duplicate"
            steps.append(step)
            assert step.next_offset > first
            first, sequence = step.next_offset, sequence + step.records
        return steps


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_records_of_the_lane_within_the_bounds_are_copied_batch_by_batch(world: World) -> None:
    world.log.add(["blue", "red", "blue", ""])
    world.log.add(["red", ""], codec=Compression.ZSTD)
    world.log.add(["blue", "blue", "red"], codec=Compression.LZ4)
    steps = await world.run(1, 8)
    assert world.written == [(1, 9, 0, [2]), (1, 9, 1, [6, 7])]
    assert steps == [CopyStep(4, 1), CopyStep(8, 2)]


async def test_large_batch_is_copied_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "COPY_BYTES_MAX", 1)
    world.log.add(["blue", "red", "blue", "blue"])
    await world.run(0, 4)
    assert world.written == [(1, 9, 0, [0]), (1, 9, 1, [2]), (1, 9, 2, [3])]


def larger_than(count: int) -> Callable[[list[Record]], ErrorCode | None]:
    return lambda records: ErrorCode.MESSAGE_TOO_LARGE if len(records) > count else None


async def test_batch_that_its_topic_does_not_take_is_copied_in_parts(world: World) -> None:
    world.log.add(["blue"] * 11)
    world.refusal = larger_than(3)
    await world.run(0, 11)
    assert [offsets for *_, offsets in world.written] == [[0, 1], [2, 3], [4, 5, 6], [7, 8], [9, 10]]
    assert [sequence for _, _, sequence, _ in world.written] == [0, 2, 4, 7, 9]


async def test_many_small_records_are_copied_in_batches_that_a_retry_topic_takes(world: World) -> None:
    world.log.add(["blue"] * 2_500)
    world.refusal = larger_than(2_000)
    await world.run(0, 2_500)
    assert [len(offsets) for *_, offsets in world.written] == [1_000, 1_000, 500]


async def test_half_is_known_again_where_larger_batches_are_taken_by_now(world: World) -> None:
    """The answer is durable in no log when the limit rises: the next try begins with the whole batch."""
    world.log.add(["blue"] * 8)
    job = CopyJob("g", SOURCE, 0, "blue", 0, 8, 9, 0, 1)
    world.refusal = larger_than(2)
    step = await world.copier.copy(job)
    world.refusal = larger_than(100)
    assert await world.copier.copy(job) == step == CopyStep(2, 2)
    assert await world.copier.copy(job._replace(first=2, sequence=2)) == CopyStep(8, 6)
    assert [offsets for *_, offsets in world.written] == [[0, 1], [2, 3, 4, 5, 6, 7]]


async def test_batch_that_is_there_is_known_again_where_its_topic_takes_smaller_ones_by_now(world: World) -> None:
    """Its answer was lost. Its owner knows it (test_a_batch_that_is_in_the_log_is_not_too_large_later); halves of it would be out of order."""
    world.log.add(["blue"] * 8)
    job = CopyJob("g", SOURCE, 0, "blue", 0, 8, 9, 0, 1)
    world.refusal = larger_than(4)
    step = await world.copier.copy(job)
    assert step == CopyStep(4, 4)
    for count in (2, 1):
        world.refusal = larger_than(count)
        assert await world.copier.copy(job) == step
    assert await world.copier.copy(job._replace(first=4, sequence=4)) == CopyStep(5, 1)
    assert [offsets for *_, offsets in world.written] == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD])
async def test_record_that_its_topic_refuses_keeps_those_behind_it_waiting(world: World, code: ErrorCode) -> None:
    """A record past its last attempt, or too large with the headers of a copy: no record is left out, or passes it."""
    world.log.add(["blue"] * 8)
    world.refusal = lambda records: code if any(record.value == b"5" for record in records) else None
    with pytest.raises(
        KafkaError, match=r"topic t\.retry\.g, partition 1, .* of its first record from offset 5 on: the owner's"
    ):
        await world.run(0, 8)
    assert [offsets for *_, offsets in world.written] == [[0, 1, 2, 3], [4]]
    world.refusal = lambda records: None
    assert await world.copier.copy(CopyJob("g", SOURCE, 0, "blue", 5, 8, 9, 5, 1)) == CopyStep(8, 3)
    assert [offsets for *_, offsets in world.written] == [[0, 1, 2, 3], [4], [5, 6, 7]]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
async def test_batch_whose_fate_is_not_known_is_not_divided(world: World, code: ErrorCode) -> None:
    world.log.add(["blue"] * 8)
    sent: list[int] = []

    def refusal(records: list[Record]) -> ErrorCode:
        sent.append(len(records))
        return code

    world.refusal = refusal
    with pytest.raises(KafkaError) as caught:
        await world.run(0, 8)
    assert (caught.value.code, sent) == (code, [8])


async def test_topic_of_copies_may_be_made_again_with_fewer_partitions(world: World) -> None:
    world.log.add(["blue"] * 3)
    world.topics["t.retry.g"].partitions = (0,)
    await world.run(0, 3)
    assert world.written == [(0, 9, 0, [0, 1, 2])]


async def test_aborted_records_are_not_copied(world: World) -> None:
    log = world.log
    log.add(["blue"], producer_id=5)
    log.add(["blue"], producer_id=6)
    log.mark(5, ControlType.ABORT)
    log.add(["blue"], producer_id=5)
    log.mark(6, ControlType.COMMIT)
    log.mark(5, ControlType.COMMIT)
    log.aborted = [SimpleNamespace(producer_id=5, first_offset=0)]
    await world.run(0, log.end)
    assert [offsets for *_, offsets in world.written] == [[1], [3]]


async def test_open_transaction_is_waited_for(world: World) -> None:
    world.log.add(["blue"] * 3)
    world.log.last_stable_offset = 2
    with pytest.raises(KafkaError) as caught:
        await world.run(0, 3)
    assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE


async def test_without_its_topic_nothing_is_copied_and_what_retention_took_is_passed(world: World) -> None:
    world.log.add(["blue"] * 3)
    world.log.log_start_offset = 3
    assert await world.run(0, 3) == [CopyStep(3, 0)]
    assert await world.copier.producer("g", SOURCE, 3) == (9, 1)
    del world.topics["t.retry.g"]
    with pytest.raises(KafkaError):
        await world.run(0, 3)
