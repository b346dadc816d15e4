"""A turn of the event loop opens a bounded number of batches, whatever a request holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any, cast

import pytest

from bmq.broker.batch_validation import DECOMPRESSION_NS_PER_BYTE, BatchValidator, ValidBatch
from bmq.broker.opener import WAIT_MAX_S, Opened, ThreadOpener, TurnRoom, validated_at_once
from bmq.broker.opening_room import TURN_NS, TURN_SCRATCH_BYTES, OpeningBudget, TooMuchWork
from bmq.log.config import LogConfig
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, assemble_batch
from tests.support.gate_share import few_in_gate

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

NOW_MS = 1_700_000_000_000


def opened_in_a_turn(room: TurnRoom, data: bytearray, count: int) -> int:
    """How many of so many batches, each of another partition, are opened here."""
    opened = 0
    for _ in range(count):
        try:
            BatchValidator(LogConfig()).validate(memoryview(data), None, NOW_MS, room)
        except TooMuchWork:
            continue
        opened += 1
    return opened


async def test_a_turn_opens_bombs_only_as_far_as_its_time_goes() -> None:
    room = TurnRoom(asyncio.get_running_loop())
    bomb = encode_batch([Record(b"k", bytes(8 << 20), timestamp_ms=NOW_MS)], compression=Compression.ZSTD)
    assert opened_in_a_turn(room, bomb, 400) == 0
    assert room.left_ns is not None and 0 <= room.left_ns < TURN_SCRATCH_BYTES * DECOMPRESSION_NS_PER_BYTE
    await asyncio.sleep(0)
    assert room.left_ns == TURN_NS


async def test_a_turn_opens_batches_of_usual_size_and_the_next_turn_as_many() -> None:
    room = TurnRoom(asyncio.get_running_loop())
    usual = encode_batch([Record(b"k", bytes(100_000), timestamp_ms=NOW_MS)], compression=Compression.LZ4)
    for _ in range(2):
        opened = opened_in_a_turn(room, usual, 400)
        assert 20 <= opened <= TURN_NS // (100_000 * DECOMPRESSION_NS_PER_BYTE)
        await asyncio.sleep(0)


async def test_reading_many_small_records_counts_too() -> None:
    room = TurnRoom(asyncio.get_running_loop())
    many = encode_batch([Record(None, None, timestamp_ms=NOW_MS)] * 100_000)
    assert opened_in_a_turn(room, many, 400) <= TURN_NS // (100_000 * 20)


class Steps:
    """In place of a BatchValidator: each opening has so many parts of a MiB, and writes down how far it is."""

    def __init__(self, name: str, mebibytes: int, log: list[str], gate: threading.Event) -> None:
        self._name = name
        self._mebibytes = mebibytes
        self._log = log
        self._gate = gate

    def for_another_thread(self) -> Steps:
        self._log.append(f"{self._name} is made")
        return self

    def opening(
        self, records: memoryview, now_ms: int, budget: OpeningBudget, *, is_last: bool
    ) -> Generator[None, None, ValidBatch]:
        self._gate.wait()
        self._log.append(f"{self._name} begins")
        for _ in range(self._mebibytes):
            budget.take(1 << 20)
            yield
        self._log.append(f"{self._name} ends")
        return records, BatchHeader.parse(records)


RECORDS = bytes(encode_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)]))


class Openings:
    """Batches that are opened in a real thread, from when `gate` is set."""

    def __init__(self, clock_s: Callable[[], float] = lambda: 0.0) -> None:
        self.log: list[str] = []
        self.steps = Steps
        self.gate = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._requests: dict[str, bytearray] = {}
        self.opener = ThreadOpener(self._loop, clock_s)

    def open(self, name: str, mebibytes: int) -> asyncio.Future[Opened]:
        """Those of one name are of one request."""
        request = self._requests.setdefault(name, bytearray(RECORDS))
        told: asyncio.Future[Opened] = self._loop.create_future()
        steps = cast(BatchValidator, self.steps(name, mebibytes, self.log, self.gate))
        self.opener.open(steps, memoryview(request), NOW_MS, told.set_result)
        return told


async def test_usual_batches_are_opened_before_bombs_however_many_these_are() -> None:
    openings = Openings()
    bombs = [openings.open("bomb", 60) for _ in range(400)]
    longer = [openings.open("longer", 8) for _ in range(3)]
    usual = [openings.open("usual", 1) for _ in range(3)]
    openings.gate.set()
    await asyncio.gather(*usual, *longer)
    assert not any(isinstance(opened, Exception) for opened in await asyncio.gather(*bombs))
    openings.opener.close()
    log = openings.log
    usual_end = max(number for number, line in enumerate(log) if line == "usual ends")
    longer_end = max(number for number, line in enumerate(log) if line == "longer ends")
    # What waits holds no memory of checks: they are made as it begins.
    assert all(pair == ("bomb is made", "bomb begins") for pair in pairwise(log) if pair[0] == "bomb is made")
    # A bomb is left behind after two parts, and each other request has a batch opened before the next one.
    assert log[:usual_end].count("bomb begins") <= 4 and "longer ends" not in log[:usual_end]
    assert "bomb ends" not in log[:longer_end] and log[:longer_end].count("bomb begins") <= 410


async def test_some_bombs_of_a_request_are_taken_though_there_is_no_time_for_all() -> None:
    """Their client sends the others again; if all waited too long, it would send all of them again and again."""
    parts = [0]
    openings = Openings(lambda: parts[0] / 250)  # looked at before each part of a MiB

    class Counting(Steps):
        def opening(self, *arguments: Any, **options: Any) -> Generator[None, None, ValidBatch]:
            opening = super().opening(*arguments, **options)
            while True:
                parts[0] += 1
                try:
                    next(opening)
                except StopIteration as end:
                    valid: ValidBatch = end.value
                    return valid
                yield

    openings.steps = Counting
    told = [openings.open("bombs", 60) for _ in range(400)]
    usual = [openings.open("usual", 1) for _ in range(100)]
    openings.gate.set()
    assert not any(isinstance(one, Exception) for one in await asyncio.gather(*usual))
    outcomes = await asyncio.gather(*told)
    taken = sum(not isinstance(one, Exception) for one in outcomes)
    assert WAIT_MAX_S * 250 // 60 - 10 < taken < WAIT_MAX_S * 250 // 60
    codes = {one.code for one in outcomes if isinstance(one, KafkaError)}
    assert codes == {ErrorCode.REQUEST_TIMED_OUT}
    openings.opener.close()


async def test_a_batch_that_comes_between_two_parts_of_a_bomb_is_next() -> None:
    openings = Openings()
    inside = threading.Event()
    go_on = threading.Event()

    class Pausing(Steps):
        def opening(self, *arguments: Any, **options: Any) -> Generator[None, None, ValidBatch]:
            opening = super().opening(*arguments, **options)
            for number in range(60):
                next(opening)
                if number == 30:
                    inside.set()
                    go_on.wait()
                yield
            return (yield from opening)

    told: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
    bomb = cast(BatchValidator, Pausing("bomb", 60, openings.log, openings.gate))
    openings.gate.set()
    openings.opener.open(bomb, memoryview(bytearray(RECORDS)), NOW_MS, told.set_result)
    await asyncio.to_thread(inside.wait)
    between = openings.open("usual", 1)
    go_on.set()
    assert not isinstance(await between, Exception) and not isinstance(await told, Exception)
    assert openings.log[-4:] == ["usual is made", "usual begins", "usual ends", "bomb ends"]
    openings.opener.close()


async def test_a_batch_that_waited_too_long_is_refused_unopened() -> None:
    now_s = [0.0]
    openings = Openings(lambda: now_s[0])
    waiting = [openings.open("waiting", 1) for _ in range(3)]
    now_s[0] = WAIT_MAX_S + 1
    openings.gate.set()
    for outcome in await asyncio.gather(*waiting):
        assert isinstance(outcome, KafkaError) and outcome.code is ErrorCode.REQUEST_TIMED_OUT
    assert not isinstance(await openings.open("later", 1), Exception)
    # The first may have begun in time.
    assert openings.log.count("waiting begins") <= 1 and "waiting ends" not in openings.log
    assert openings.log[-3:] == ["later is made", "later begins", "later ends"]
    openings.opener.close()


async def test_nobody_is_told_once_it_is_closed() -> None:
    others = threading.enumerate()
    openings = Openings()
    waiting = openings.open("waiting", 60)
    told_late = [openings.open("waiting too", 1) for _ in range(2)]
    openings.opener.close()
    openings.gate.set()
    for thread in threading.enumerate():
        if thread not in others and thread.name.startswith("bmq-opener"):
            await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    assert not any(one.done() for one in (waiting, *told_late))


@few_in_gate(
    "codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD], every=3, others=in_campaign
)
async def test_bombs_are_refused_and_what_is_long_is_taken(codec: Compression) -> None:
    opener = ThreadOpener(asyncio.get_running_loop())
    config = LogConfig(max_message_bytes=8 << 20)  # snappy makes no more than a twentieth of it
    told: list[asyncio.Future[Opened]] = []
    for sizes in ((66,), (20, 20), (1,)):
        records = [Record(b"k", bytes(size << 20), timestamp_ms=NOW_MS) for size in sizes]
        one: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        opener.open(
            BatchValidator(config), memoryview(encode_batch(records, compression=codec)), NOW_MS, one.set_result
        )
        told.append(one)
    too_long, long, usual = await asyncio.gather(*told)
    assert isinstance(too_long, KafkaError) and too_long.code is ErrorCode.MESSAGE_TOO_LARGE
    assert not isinstance(long, Exception) and not isinstance(usual, Exception)
    opener.close()


def test_a_body_of_many_tiny_parts_is_too_much_work() -> None:
    """Each snappy block of one byte takes as long as one of some KiB."""
    records = encode_batch([Record(b"k", bytes(20_000), timestamp_ms=NOW_MS)])[61:]
    blocks = b"".join(b"\0\0\0\3\1\0" + bytes([byte]) for byte in records)
    header = BatchHeader.parse(encode_batch([Record(b"k", bytes(20_000), timestamp_ms=NOW_MS)]))
    data = assemble_batch(header._replace(attributes=int(Compression.SNAPPY)), b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + blocks)
    opened = validated_at_once(BatchValidator(LogConfig()), memoryview(data), NOW_MS)
    assert isinstance(opened, KafkaError) and opened.code is ErrorCode.MESSAGE_TOO_LARGE
