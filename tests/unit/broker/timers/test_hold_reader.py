"""Held records that are due, read from the log: each part of it a few times, whatever the order, and no more than has room."""

from __future__ import annotations

import asyncio

import pytest

from bmq.broker.timers.hold_reader import HoldReader
from bmq.log.partition_log import WholeBatches
from bmq.log.store import CorruptFile, StorageUnavailable
from bmq.log.timers.announcements import HeldRecord, NamedBatch, encode_held
from bmq.log.timers.delivering import DeliveryDraft
from bmq.log.timers.due_bodies import DueBodies
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.record_batch import BatchHeader, rewrite
from tests.unit.records.delivery_cases import body_of

pytestmark = pytest.mark.unit

TAKEN = 50
NOW_MS = 1_000_000


class Turns:
    count = 0

    async def next(self) -> None:
        self.count += 1
        await asyncio.sleep(0)


class Log:
    """Holds, and the batches behind them. `broken`: reads that begin there fail. `reads`: (offset, turn)."""

    def __init__(self) -> None:
        self.batches: list[bytearray] = []
        self.end_offset = 0
        self.broken = -1
        self.reads: list[tuple[int, int]] = []
        self.turns = Turns()
        self.order = DueOrder()
        self.bodies = DueBodies()
        self.reader = HoldReader(self.read, self.order, self.bodies, self.turns)

    def hold(self, dues_ms: list[int], body: bytes) -> int:
        visible = encode_batch([Record(None, b"")] * len(dues_ms))
        records = [HeldRecord(due_ms, 0, delta, body) for delta, due_ms in enumerate(dues_ms)]
        control = encode_held(records, NamedBatch.of(BatchHeader.parse(visible)))
        hold_offset = self.end_offset
        for batch in (control, visible):
            rewrite(batch, 0, self.end_offset, 0)
            self.batches.append(batch)
            self.end_offset += BatchHeader.parse(batch).last_offset_delta + 1
        pending = [Pending(due_ms, hold_offset + 1 + delta, hold_offset) for delta, due_ms in enumerate(dues_ms)]
        self.order.place(hold_offset, pending, (), self.end_offset)
        self.order.synced(self.end_offset)
        return hold_offset

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        self.reads.append((offset, self.turns.count))
        if offset == self.broken:
            raise StorageUnavailable("broken")
        found = bytearray()
        for batch in self.batches:
            if BatchHeader.parse(batch).base_offset >= offset and (
                not found or len(found) + len(batch) <= length_bytes_max
            ):
                found += batch
        return WholeBatches(offset, found)

    async def deliver(self) -> list[int]:
        """The names of the next ones, which are gathered, made and delivered."""
        due = self.order.take(NOW_MS, TAKEN)
        try:
            await self.reader.gather(due, NOW_MS)
        except BaseException:
            self.order.give_back(due)
            raise
        draft = DeliveryDraft()
        self.bodies.put(due, draft, 1_000_000)
        count = len(draft)
        self.order.give_back(due[count:])
        records = decode_records(draft.batch(NOW_MS))
        names = [int(dict(record.headers)["bmq-timer-offset"] or b"") for record in records]
        assert names == [one.offset for one in due[:count]] and names
        self.order.place_delivery(due[:count], self.end_offset, self.end_offset + 2)
        self.end_offset += 2
        self.order.synced(self.end_offset)
        self.bodies.drop_passed(self.order.position)
        return names


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BYTES_MAX", 200_000), ("MORE_BYTES_MAX", 50_000), ("READ_BYTES", 40_000)):
        monkeypatch.setattr(f"bmq.broker.timers.hold_reader.{name}", value)


def test_records_that_lie_in_one_hold_each_are_read_in_few_passes() -> None:
    """40 holds of 25 KB, each with a record of each millisecond. Read one by one they were 1,000 reads."""

    async def main() -> None:
        log = Log()
        for _ in range(40):
            log.hold([1000 + number for number in range(25)], body_of(Record(None, b"v" * 1000)))
        expected = sorted((one.due_ms, one.offset) for page in log.order.upcoming(NOW_MS, 9999) for one in page)
        names: list[int] = []
        while len(names) < len(expected):
            names += await log.deliver()
            assert log.bodies.size_bytes <= 250_000
        assert names == [name for _, name in expected]
        passes = 1_000_000 / 200_000 + 2
        assert len(log.reads) <= passes * 1_000_000 / 25_000, "each pass reads a hold once at most"
        assert len({turn for _, turn in log.reads}) == len(log.reads), "one read in a turn"
        assert not log.bodies.size_bytes

    asyncio.run(main())


def test_what_comes_before_a_hold_that_cannot_be_read_is_delivered() -> None:
    async def main() -> None:
        log = Log()
        first = log.hold([10, 40], body_of(Record(None, b"a" * 50_000)))
        broken = log.hold([20, 30], body_of(Record(None, b"b" * 50_000)))
        log.broken = broken
        assert await log.deliver() == [first + 1]
        for _ in range(2):
            with pytest.raises(StorageUnavailable):
                await log.deliver()
        log.broken = -1
        assert await log.deliver() == [broken + 1, broken + 2, first + 2]

    asyncio.run(main())


def test_what_is_in_memory_before_a_hold_that_cannot_be_read_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        log = Log()
        first = log.hold([10, 20], body_of(Record(None, b"a")))
        with monkeypatch.context() as patch:
            patch.setattr("tests.unit.broker.timers.test_hold_reader.TAKEN", 1)
            assert await log.deliver() == [first + 1]
        log.broken = log.hold([30], body_of(Record(None, b"b")))
        assert await log.deliver() == [first + 2]
        with pytest.raises(StorageUnavailable):
            await log.deliver()

    asyncio.run(main())


def test_holds_behind_what_has_room_are_not_read() -> None:
    """40 holds of 25 KB in the order of their due times: 200 KB have room, and twice as much is gathered."""

    async def main() -> None:
        log = Log()
        for number in range(40):
            log.hold([1000 + number], body_of(Record(None, b"v" * 25_000)))
        await log.deliver()
        assert len(log.reads) <= 2 * 200_000 / 25_000 + 2

    asyncio.run(main())


def test_a_record_that_is_not_where_it_is_held_stops_deliveries_there() -> None:
    async def main() -> None:
        log = Log()
        hold = log.hold([10, 20], b"\1\1\0")
        strange = Pending(15, hold + 3, hold)
        log.order.place(hold, [strange], (), log.end_offset)
        log.order.synced(log.end_offset)
        with pytest.raises(CorruptFile, match=f"the delayed record {hold + 3} is not where it is held"):
            await log.deliver()

    asyncio.run(main())


def test_one_record_longer_than_all_room_is_delivered() -> None:
    async def main() -> None:
        log = Log()
        hold = log.hold([10, 20], body_of(Record(None, b"v" * 300_000)))
        assert [await log.deliver(), await log.deliver()] == [[hold + 1], [hold + 2]]

    asyncio.run(main())
