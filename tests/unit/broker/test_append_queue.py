"""Batches that are opened elsewhere keep their order, are answered once, and hold up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from crc32c import crc32c

from bmq.broker.batch_validation import BatchValidator
from bmq.broker.opener import Opened, ThreadOpener, validated_at_once
from bmq.broker.opening_room import TURN_SCRATCH_BYTES
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader
from tests.fakes.opener import FakeOpener
from tests.unit.broker.world import CONFIG, World, append, batch_of, read_all, sequenced, virtual

pytestmark = pytest.mark.unit

LARGE = bytes(TURN_SCRATCH_BYTES + 1)


def large(sequence: int = -1, *, producer_id: int = -1) -> bytearray:
    """A batch that is too long for a turn of the event loop once it is decompressed."""
    return batch_of(
        LARGE,
        compression=Compression.ZSTD,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
    )


def opener_of(world: World) -> FakeOpener:
    opener = world.owners[-1].manager.context.opener
    assert isinstance(opener, FakeOpener)
    return opener


def test_batches_keep_the_order_in_which_they_came() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner().log()
        results = await asyncio.gather(
            append(log, large(0, producer_id=9)),
            append(log, sequenced(1, b"b")),
            append(log, large(2, producer_id=9)),
            append(log, large(3, producer_id=9)),
            append(log, sequenced(4, b"e")),
            append(log, batch_of(b"f")),
        )
        assert [result.error_code for result in results] == [ErrorCode.NONE] * 6
        assert [result.base_offset for result in results] == [0, 1, 2, 3, 4, 5]
        assert opener_of(world).opened == 3
        assert [value and value[:1] for _, value in await read_all(log)] == [b"\0", b"b", b"\0", b"\0", b"e", b"f"]
        assert world.owners[0].manager.budget.bytes_used == 0

    virtual(main)


def test_many_appends_behind_one_are_taken_up_in_order() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner().log()
        results = await asyncio.gather(append(log, large()), *(append(log, batch_of(b"%d" % n)) for n in range(300)))
        assert [result.base_offset for result in results] == list(range(301))

    virtual(main)


def test_a_refused_batch_holds_up_nobody() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner().log()
        ahead = encode_batch(
            [Record(b"k", LARGE, timestamp_ms=world.clock.now_ms() + 7_200_000)], compression=Compression.ZSTD
        )
        first, second = await asyncio.gather(append(log, ahead), append(log, batch_of(b"b")))
        assert first.error_code is ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in first.record_errors] == [0]
        assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 0)

    virtual(main)


def test_a_batch_sent_again_while_it_is_opened_is_written_once() -> None:
    async def main() -> None:
        log = await World().owner().log()
        results = await asyncio.gather(*(append(log, large(0, producer_id=9)) for _ in range(3)))
        assert [(result.error_code, result.base_offset) for result in results] == [(ErrorCode.NONE, 0)] * 3
        assert log.log_end_offset == 1

    virtual(main)


@pytest.mark.parametrize("ends", ["stop", "give_up"])
def test_batches_that_wait_are_refused_when_the_partition_moves(ends: str) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner().log()
        answers = [append(log, large()), append(log, batch_of(b"b")), append(log, large())]
        getattr(log, ends)()
        assert [answer.result().error_code for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
        await log.ended
        await asyncio.sleep(1)  # virtual: the opening ends meanwhile, and changes nothing
        assert log.log_end_offset == 0
        assert world.owners[0].manager.budget.bytes_used == 0

    virtual(main)


class LateOpener:
    """Opens a batch when the test says so. `records`: of the last batch it was given."""

    def __init__(self) -> None:
        self.records = memoryview(b"")

    def open(self, validator: BatchValidator, records: memoryview, now_ms: int, done: Callable[[Opened], None]) -> None:
        self.records = records
        self._open = lambda: done(validated_at_once(validator.for_another_thread(), records, now_ms))

    def go_on(self) -> None:
        self._open()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("is_append_time", [False, True])
def test_a_batch_that_was_refused_is_not_written_to_by_its_opening(is_append_time: bool) -> None:
    """Its appender sends it to the next owner, perhaps just when the header would be half written."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        opener = owner.manager.context.opener = LateOpener()
        log = await owner.log()
        log.update_config(replace(CONFIG, message_timestamp_type_is_append_time=is_append_time))
        records = large()
        records[35:43] = bytes(8)  # not its records' greatest time
        sent = bytes(encode_again(records))
        answer = append(log, records)
        log.give_up()
        assert (await answer).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        opener.go_on()
        await log.ended
        assert opener.records == sent
        assert owner.manager.budget.bytes_used == 0

    virtual(main)


def test_bytes_that_wait_are_counted_and_bounded() -> None:
    async def main() -> None:
        first = large()
        world = World(append_bytes_max=1000)
        owner = world.owner()
        log = await owner.log()
        waiting = [append(log, first)]
        while owner.manager.budget.bytes_used < 2 * 1000 - 200:
            waiting.append(append(log, batch_of(b"v" * 60)))
        refused = await append(log, batch_of(b"v" * 300))
        assert refused.error_code is ErrorCode.REQUEST_TIMED_OUT
        results = await asyncio.gather(*waiting)
        assert {result.error_code for result in results} == {ErrorCode.NONE}
        assert owner.manager.budget.bytes_used == 0

    virtual(main)


def test_settings_that_changed_meanwhile_do_not_mix_with_those_before() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner().log()
        keyless = encode_batch([Record(None, LARGE, timestamp_ms=world.clock.now_ms())], compression=Compression.ZSTD)
        first, second = append(log, keyless), append(log, keyless)
        log.update_config(replace(CONFIG, cleanup_policy=frozenset({"compact"})))
        assert (await first).error_code is ErrorCode.NONE
        assert (await second).error_code is ErrorCode.INVALID_RECORD

    virtual(main)


def test_an_opening_that_fails_refuses_only_its_batch() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner().log()
        opener = opener_of(world)
        opener.outcome = MemoryError("none left")
        first, second = append(log, large()), append(log, batch_of(b"b"))
        assert (await first).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await second).error_code is ErrorCode.NONE

    virtual(main)


def test_orders_of_any_kind_by_the_dice() -> None:
    async def one(seed: int) -> None:
        dice = Random(seed)
        world = World(seed)
        log = await world.owner().log()
        sequence, answers = 0, []
        for _ in range(dice.randrange(20)):
            answers.append(
                append(log, large(sequence, producer_id=9) if dice.random() < 0.4 else sequenced(sequence, b"v"))
            )
            sequence += 1
            await asyncio.sleep(dice.choice((0, 0, 0.001, 0.03)))
        results = await asyncio.gather(*answers)
        assert [result.base_offset for result in results] == list(range(sequence))

    for seed in range(30):
        virtual(lambda seed=seed: one(seed))  # type: ignore[misc]


async def test_threads_open_what_is_long_and_what_is_longer() -> None:
    world = World()
    owner = world.owner()
    opener = ThreadOpener(asyncio.get_running_loop())
    owner.manager.context.opener = opener
    log = await owner.log()
    longest = encode_batch(
        [Record(b"k", bytes(5 << 20), timestamp_ms=world.clock.now_ms() + n) for n in (1, 0)],
        compression=Compression.ZSTD,
    )
    longest[35:43] = bytes(8)
    longest = encode_again(longest)
    results = await asyncio.gather(append(log, large()), append(log, longest), append(log, batch_of(b"c")))
    assert [result.base_offset for result in results] == [0, 1, 3]
    views = log.tail_read(1, 1, 4)
    assert views is not None and BatchHeader.parse(views[0]).max_timestamp_ms == world.clock.now_ms() + 1
    await owner.manager.close()
    late = append(log, large())
    assert (await late).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def encode_again(data: bytearray) -> bytearray:
    """With the checksum of what is in it now."""
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4)
    return data
