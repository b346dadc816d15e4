"""Half messages at a partition's owner: hidden, decided once, delivered once, over takeovers and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.broker.half.partition_half import PartitionHalf
from bmq.broker.half_checker import CheckAnswer, CheckRequest, CheckTarget, NobodyAsked
from bmq.broker.partition_events import WriterBroken
from bmq.broker.partition_states import Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.log.half.check_schedule import DueCheck
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.protocol.batch_records import Record
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.simulation.loop import VirtualTimeLoop
from tests.support.flagged_batch import flagged_batch
from tests.unit.broker.half.fake_checker import FakeChecker
from tests.unit.broker.timers.test_timers import values, visible
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, produce, virtual

pytestmark = pytest.mark.unit

HALF = replace(CONFIG, is_half_enabled=True)
CHECKED = replace(
    HALF,
    half_check_url="http://orders/check",
    half_check_first_ms=6_000,
    half_check_interval_ms=30_000,
    half_checks_max=3,
    half_given_up_topic="lost",
)


class DecidingChecker(FakeChecker):
    """In the turn of the loop behind an answer something becomes durable, so that the partition looks once more."""

    schedule_wake_up: Callable[[], None]

    async def ask(self, target: CheckTarget, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        answer = await super().ask(target, take)
        asyncio.get_running_loop().call_soon(self.schedule_wake_up)
        return answer


class TurnsChecker(FakeChecker):
    """`turns`: in which turn of the loop each request was made."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[int] = []

    async def ask(self, target: CheckTarget, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        async def taken() -> CheckRequest | None:
            request = await take()
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop)
            self.turns.append(loop.turn_count)
            return request

        return await super().ask(target, taken)


def half(value: bytes, check_id: str = "check") -> Record:
    return Record(b"k", value, (("bmq-half", check_id.encode()), ("other", b"x")), timestamp_ms=1_000_000)


def decision(name: str, offset: int) -> Record:
    return Record(None, None, ((f"bmq-half-{name}", b"%d" % offset),), timestamp_ms=1_000_000)


async def send(log: PartitionRuntime, *records: Record, **options: Any) -> AppendResult:
    return await append(log, flagged_batch(records, **options))


async def sent(log: PartitionRuntime, *records: Record, **options: Any) -> int:
    result = await send(log, *records, **options)
    assert result.error_code is ErrorCode.NONE, result
    return result.base_offset


async def pass_time(world: World, by_ms: int) -> None:
    """In steps, as checks are looked for each second."""
    while by_ms > 0:
        world.clock.advance(min(by_ms, 1000))
        by_ms -= 1000
        await asyncio.sleep(1.0)
    await asyncio.sleep(1.5)


def checked(world: World, checker: FakeChecker, config: Any = CHECKED) -> Owner:
    owner = world.owner(config)
    owner.manager.use_half_checker(checker)
    return owner


def waiting(part: PartitionHalf) -> list[int]:
    return [one.offset for one in part.order.undecided(0, 99)]


def test_a_half_message_is_hidden_until_it_is_committed() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(HALF).log()
        name = await sent(log, half(b"order"))
        assert name == 1, "behind the announcement"
        assert await produce(log, b"plain") == 2
        assert await values(log) == [b"plain"] and waiting(log.half) == [1]
        where = await sent(log, decision("commit", 1))
        await asyncio.sleep(1)
        plain, order = await visible(log)
        assert (plain.value, order.value, order.key) == (b"plain", b"order", b"k")
        now = b"%d" % world.clock.now_ms()
        assert order.headers == (
            ("bmq-half", b"check"),
            ("other", b"x"),
            ("bmq-half-offset", b"1"),
            ("bmq-timer-offset", b"%d" % where),
            ("bmq-timer-due", now),
            ("bmq-timer-created", b"1000000"),
        )
        await pass_time(world, 100_000)
        assert await values(log) == [b"plain", b"order"], "once"
        assert waiting(log.half) == [] and log.half.oldest_needed(log.high_watermark) == log.high_watermark

    virtual(main)


def test_a_rolled_back_message_is_never_delivered() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(HALF)
        log = await first.log()
        await sent(log, half(b"order"))
        await sent(log, decision("rollback", 1))
        await pass_time(world, 2_000)
        assert await values(log) == [] and len(log.half.order) == 0
        first.kill()
        log = await world.owner(HALF).log()
        await pass_time(world, 2_000)
        assert await values(log) == [] and len(log.half.order) == 0

    virtual(main)


@pytest.mark.parametrize("codec", list(Compression))
def test_committed_ones_come_in_the_order_of_their_decisions(codec: Compression) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(HALF).log()
        first = await sent(log, half(b"a"), Record(None, b"now"), half(b"b"), half(b"c"), compression=codec)
        assert await values(log) == [b"now"]
        await sent(log, decision("commit", first + 3), Record(None, b"x"), decision("commit", first), compression=codec)
        await asyncio.sleep(1)
        assert await values(log) == [b"now", b"x", b"c", b"a"]
        assert waiting(log.half) == [first + 2]

    virtual(main)


def test_a_topic_without_half_messages_takes_no_notice_of_the_headers() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(CONFIG).log()
        assert await sent(log, half(b"a"), decision("commit", 99)) == 0
        assert await values(log) == [b"a", None]

    virtual(main)


def test_decisions_that_cannot_be_are_refused_by_name_and_nothing_is_applied() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(HALF).log()
        await sent(log, half(b"a"), half(b"b"))
        result = await send(
            log,
            decision("commit", 1),
            half(b"c"),
            decision("rollback", 1),
            decision("commit", 77),
            decision("commit", 1),
        )
        assert result.error_code is ErrorCode.INVALID_RECORD
        assert [(one.batch_index, one.message) for one in result.record_errors] == [
            (2, "the half message 1 is both committed and rolled back"),
            (3, "no half message with offset 77 waits in this partition"),
        ]
        assert waiting(log.half) == [1, 2]
        await sent(log, decision("commit", 1), decision("commit", 1))
        await asyncio.sleep(1)
        assert await values(log) == [b"a"]
        await sent(log, decision("commit", 1))
        result = await send(log, decision("rollback", 1))
        assert result.record_errors[0].message == "the half message 1 was committed before"
        await asyncio.sleep(1)
        assert await values(log) == [b"a"], "once, however often it is committed"

    virtual(main)


def test_transactions_are_refused() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(HALF).log()
        batch = flagged_batch([half(b"a")], is_transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
        result = await append(log, batch)
        assert result.error_code is ErrorCode.POLICY_VIOLATION and "bmq.half.enable" in (result.message or "")

    virtual(main)


def test_a_batch_sent_again_is_held_and_decided_once() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(HALF).log()
        batches = [
            flagged_batch([record], producer_id=9, producer_epoch=0, base_sequence=sequence)
            for sequence, record in enumerate([half(b"a"), decision("commit", 1)])
        ]
        for batch in batches:
            results = [await append(log, batch), await append(log, batch)]
            assert results[0].base_offset == results[1].base_offset
        await asyncio.sleep(1)
        assert await values(log) == [b"a"]

    virtual(main)


def test_the_next_owner_knows_all() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(HALF)
        log = await first.log()
        await sent(log, half(b"a"), half(b"b"), half(b"c"), half(b"d"))
        await sent(log, decision("commit", 1), decision("rollback", 2))
        await asyncio.sleep(1)
        first.kill()
        second = world.owner(HALF)
        log = await second.log()
        assert await values(log) == [b"a"] and waiting(log.half) == [3, 4]
        result = await send(log, decision("commit", 2))
        assert result.error_code is ErrorCode.INVALID_RECORD
        await sent(log, decision("commit", 4))
        await second.manager.close()
        log = await world.owner(HALF).log()
        await asyncio.sleep(1)
        assert await values(log) == [b"a", b"d"] and waiting(log.half) == [3]
        await sent(log, decision("commit", 3))
        await asyncio.sleep(1)
        assert await values(log) == [b"a", b"d", b"c"]

    virtual(main)


def test_a_refused_decision_is_taken_back() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(HALF).log()
        await sent(log, half(b"a"))
        refused = append(log, flagged_batch([decision("commit", 1), half(b"b")]))
        state = log.state
        assert isinstance(state, Writing)
        log.feed(WriterBroken(state.segment.roll, is_full=True))
        assert (await refused).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(30)
        assert waiting(log.half) == [1] and await values(log) == []
        for value in (b"c", b"d", b"e"):
            await produce(log, value)
        await sent(log, decision("rollback", 1))
        await asyncio.sleep(1)
        assert await values(log) == [b"c", b"d", b"e"] and len(log.half.order) == 0

    virtual(main)


def test_an_announcement_whose_batch_was_cut_is_void() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(HALF)
        log = await first.log()
        await produce(log, b"before")
        batch = flagged_batch([half(b"a")], producer_id=9, producer_epoch=0, base_sequence=0)
        unanswered = append(log, batch)
        state = log.state
        assert isinstance(state, Writing)
        state.log.waiting.pop()  # only the announcement reaches the file
        await asyncio.sleep(1)
        assert log.high_watermark == 2 and not unanswered.done()
        first.kill()
        log = await world.owner(HALF).log()
        assert len(log.half.order) == 0
        assert (await append(log, batch)).base_offset == 3
        await sent(log, decision("commit", 3))
        await asyncio.sleep(1)
        assert await values(log) == [b"before", b"a"]

    virtual(main)


def test_delayed_and_half_messages_lie_in_one_batch() -> None:
    async def main() -> None:
        world = World()
        config = replace(HALF, is_delay_enabled=True)
        first = world.owner(config)
        log = await first.log()
        late = Record(None, b"late", (("bmq-deliver-after", b"5000"),), timestamp_ms=1_000_000)
        wrong = Record(None, b"x", (("bmq-deliver-after", b"soon"),), timestamp_ms=1_000_000)
        result = await send(log, half(b"a"), Record(None, b"b"), wrong)
        assert [one.batch_index for one in result.record_errors] == [2], "its place in the producer's batch"
        base = await sent(log, half(b"a"), late, Record(None, b"now"))
        assert base == 2, "behind two announcements"
        assert await values(log) == [b"now"]
        first.kill()
        log = await world.owner(config).log()
        assert waiting(log.half) == [2]
        await sent(log, decision("commit", 2), late._replace(value=b"later"))
        await asyncio.sleep(1)
        assert await values(log) == [b"now", b"a"]
        await pass_time(world, 6_000)
        assert await values(log) == [b"now", b"a", b"late", b"later"]

    virtual(main)


def test_switched_on_while_the_partition_is_owned() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(CONFIG)
        log = await owner.log()
        await produce(log, b"before")
        log.update_config(HALF)
        result = await send(log, half(b"a"))
        assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS, "no manifest names a replay yet"
        await asyncio.sleep(1)
        base = await sent(log, half(b"a"))
        await sent(log, decision("commit", base))
        await asyncio.sleep(1)
        assert await values(log) == [b"before", b"a"]

    virtual(main)


# --- checks


def test_checks_come_at_their_times_and_none_after_a_decision() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"), half(b"b", "two"))
        await pass_time(world, 5_000)
        assert checker.requests == []
        await pass_time(world, 1_000)
        assert checker.numbers == [("one", 1), ("two", 1)]
        target, request = checker.requests[0]
        assert target.url == "http://orders/check" and (request.topic, request.partition) == ("topic", 0)
        assert [check.offset for check in request.checks] == [1, 2]
        await sent(log, decision("rollback", 1))
        await pass_time(world, 30_000)
        assert checker.numbers[2:] == [("two", 2)]

    virtual(main)


def test_many_that_are_due_at_once_are_asked_about_without_a_pause() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker).log()
        for _ in range(20):
            await sent(log, *(half(b"a") for _ in range(500)))
        await pass_time(world, 5_000)
        assert checker.requests == []
        world.clock.advance(1_000)
        await asyncio.sleep(1.5)
        assert [len(request.checks) for _, request in checker.requests] == [500] * 20

    virtual(main)


def test_decisions_become_durable_as_the_next_checks_begin_without_a_pause() -> None:
    async def main() -> None:
        world, checker = World(), DecidingChecker()
        log = await checked(world, checker).log()
        bases = [await sent(log, *(half(b"a") for _ in range(500))) for _ in range(20)]
        checker.schedule_wake_up = log.half.checks.schedule_wake_up
        world.clock.advance(6_000)
        await asyncio.sleep(1.5)
        assert len(checker.requests) == 20
        await sent(log, *(decision("rollback", base) for base in bases))
        assert len(log.half.order) == 20 * 499

    virtual(main)


def test_a_slow_service_is_asked_by_four_requests_at_once() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.delay_s = 2.0
        log = await checked(world, checker).log()
        for _ in range(10):
            await sent(log, *(half(b"a") for _ in range(500)))
        await pass_time(world, 6_000)
        await asyncio.sleep(0.5)
        for requests in (4, 8, 10):
            assert [len(request.checks) for _, request in checker.requests] == [500] * requests
            await asyncio.sleep(2)
        assert {number for _, number in checker.numbers} == {1}

    virtual(main)


def test_an_answer_that_takes_longer_than_the_interval_decides_before_it_is_given_up() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.answers, checker.delay_s = {"one": True}, 4.5
        config = replace(CHECKED, half_check_interval_ms=1_000, half_checks_max=1, half_given_up_topic="given-up")
        log = await checked(world, checker, config).log()
        await sent(log, half(b"a", "one"))
        for _ in range(12):
            world.clock.advance(1_000)
            await asyncio.sleep(1)
        assert checker.numbers == [("one", 1)], "no second one while the first has no answer"
        assert await values(log) == [b"a"] and checker.copies == []

    virtual(main)


def test_a_topic_of_checks_gets_two_requests_at_once() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.delay_s = 5.0
        log = await checked(world, checker, replace(CHECKED, half_check_url="", half_check_topic="checks")).log()
        for _ in range(4):
            await sent(log, *(half(b"a") for _ in range(500)))
        await pass_time(world, 6_000)
        await asyncio.sleep(0.5)
        assert len(checker.requests) == 2

    virtual(main)


def test_a_request_that_waits_for_room_is_the_only_one_that_waits() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.room = asyncio.Semaphore(2)
        checker.delay_s = 2.0
        log = await checked(world, checker).log()
        for _ in range(10):
            await sent(log, *(half(b"a") for _ in range(500)))
        await pass_time(world, 6_000)
        await asyncio.sleep(0.5)
        assert len(checker.requests) == 2 and checker.asked == 3

    virtual(main)


def test_a_turn_of_the_loop_makes_the_checks_of_one_partition() -> None:
    async def main() -> None:
        world, checker = World(), TurnsChecker()
        owner = checked(world, checker)
        more = [TopicPartition(KEY.topic_id, number) for number in (1, 2)]
        for key in more:
            owner.manager.assign(key, 1, "topic", CHECKED, 0)
        for log in (await owner.log(), *[await owner.manager.leader_of(key) for key in more]):
            for _ in range(4):
                await sent(log, *(half(b"a") for _ in range(500)))
        world.clock.advance(6_000)
        await asyncio.sleep(1.5)
        assert [len(request.checks) for _, request in checker.requests] == [500] * 12
        assert len(set(checker.turns)) == 12

    virtual(main)


def test_a_check_that_is_due_before_those_known_is_not_late() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker, replace(CHECKED, half_check_first_ms=100)).log()
        for number in range(1, 6):  # those before are checked again in 30 s
            await sent(log, half(b"a", f"check {number}"))
            world.clock.advance(100)
            await asyncio.sleep(0.3)
            assert len(checker.numbers) == number

    virtual(main)


def test_what_a_check_answers_is_decided() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.answers = {"yes": True, "no": False}
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "no"), half(b"b", "yes"), half(b"c", "unknown"))
        await pass_time(world, 7_000)
        assert await values(log) == [b"b"] and waiting(log.half) == [3]

    virtual(main)


def test_a_decision_that_came_during_a_check_stands() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.answers, checker.delay_s = {"one": True}, 5.0
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 6_000)
        assert len(checker.requests) == 1
        await sent(log, decision("rollback", 1))
        await pass_time(world, 10_000)
        assert await values(log) == [] and len(log.half.order) == 0

    virtual(main)


def test_nobody_decides_and_it_is_given_up() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 70_000)
        assert checker.numbers == [("one", 1), ("one", 2), ("one", 3)] and checker.copies == []
        await pass_time(world, 30_000)
        ((topic, partition, record),) = checker.copies
        assert (topic, partition, record.key, record.value) == ("lost", 0, b"k", b"a")
        assert record.headers == (
            ("bmq-half-id", b"one"),
            ("other", b"x"),
            ("bmq-half-topic", b"topic"),
            ("bmq-half-partition", b"0"),
            ("bmq-half-offset", b"1"),
        )
        result = await send(log, decision("commit", 1))
        assert result.record_errors[0].message == "the half message 1 was given up before"
        assert len(log.half.order) == 0 and await values(log) == []
        await pass_time(world, 100_000)
        assert len(checker.copies) == 1 and len(checker.requests) == 3

    virtual(main)


def test_a_copy_that_fails_is_tried_again_and_the_next_owner_goes_on() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.copy_failure = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic lost does not exist")
        first = checked(world, checker)
        log = await first.log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 100_000)
        assert log.half.order.given_up_count == 1 and checker.copies == []
        assert (await send(log, decision("commit", 1))).error_code is ErrorCode.INVALID_RECORD
        first.kill()
        checker.copy_failure = None
        log = await checked(world, checker).log()
        await pass_time(world, 3_000)
        assert [record.value for _, _, record in checker.copies] == [b"a"] and len(log.half.order) == 0

    virtual(main)


def test_without_a_topic_for_it_nothing_is_given_up() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker, replace(CHECKED, half_given_up_topic="")).log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 300_000)
        assert len(checker.requests) == 3 and waiting(log.half) == [1]
        await sent(log, decision("commit", 1))
        await asyncio.sleep(1)
        assert await values(log) == [b"a"]

    virtual(main)


def test_without_a_way_to_check_it_waits() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker, replace(CHECKED, half_check_url="")).log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 300_000)
        assert checker.requests == [] and waiting(log.half) == [1]
        log.update_config(CHECKED)
        await pass_time(world, 31_000)
        assert checker.numbers == [("one", 1), ("one", 2)], "only checks that were made count"

    virtual(main)


def test_checks_that_may_not_be_asked_do_not_count() -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        checker.failure = NobodyAsked("the host is not in the list")
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 300_000)
        assert {number for _, number in checker.numbers} == {1} and waiting(log.half) == [1]
        assert checker.copies == []
        checker.failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")
        await pass_time(world, 130_000)
        assert len(checker.copies) == 1, "those that got no answer count"

    virtual(main)


def test_a_replaced_owner_asks_nobody() -> None:
    """It does not know what was decided since."""

    async def main() -> None:
        world, checker, other = World(), FakeChecker(), FakeChecker()
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"))
        newer = await checked(world, other).log()
        await sent(newer, decision("rollback", 1))
        await pass_time(world, 40_000)
        assert checker.requests == [] and other.requests == []
        assert log.state.is_final

    virtual(main)


def test_a_replaced_owner_copies_nothing() -> None:
    async def main() -> None:
        world, checker, other = World(), FakeChecker(), FakeChecker()
        checker.copy_failure = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic lost does not exist")
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"))
        await pass_time(world, 100_000)
        assert log.half.order.given_up_count == 1
        newer = await checked(world, other).log()
        await pass_time(world, 3_000)
        assert len(other.copies) == 1 and len(newer.half.order) == 0
        checker.copy_failure = None
        await pass_time(world, 40_000)
        assert checker.copies == [] and log.state.is_final

    virtual(main)


def test_no_check_asks_about_what_is_being_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"), half(b"b", "two"))
        take, answers = log.half.schedule.take, []

        def decide_before(now_ms: int, count_max: int) -> list[DueCheck]:
            answers.append(append(log, flagged_batch([decision("rollback", 1)])))
            assert log.half.order.is_deciding(1)
            return take(now_ms, count_max)

        monkeypatch.setattr(log.half.schedule, "take", decide_before)
        await pass_time(world, 6_000)
        assert checker.numbers == [("two", 1)]
        assert [(await answer).error_code for answer in answers] == [ErrorCode.NONE]

    virtual(main)
