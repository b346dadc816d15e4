"""Open transactions that are asked about before their time-out, by the coordinator over its log, its restarts and takeovers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from bmq.coordinator.transactions.check_back import CheckPolicy, TransactionName
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.log.transactions import TransactionMarker
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse
from bmq.protocol.transaction_records import TransactionStatus
from tests.unit.coordinator.transactions.fake_checker import FakeTransactionChecker
from tests.unit.coordinator.transactions.test_transaction_coordinator import settled
from tests.unit.coordinator.transactions.world import FAST, World, virtual

pytestmark = pytest.mark.unit

S = TransactionStatus
E = ErrorCode
POLICY = CheckPolicy(("id",), url="http://checks/", before_ms=20_000, interval_ms=4_000)
FIRST_S = 40.0  # of a transaction of 60 s


class Asked(World):
    """A world whose coordinators ask `checker`."""

    def __init__(self, policy: CheckPolicy = POLICY) -> None:
        self.policy = policy
        self.checker = FakeTransactionChecker()
        super().__init__(FAST)

    def restart(self) -> TransactionCoordinator:
        coordinator = super().restart()
        coordinator.use_checker(self.checker)
        coordinator.reconfigure_checks(self.policy)
        return coordinator


async def open_transaction(world: World, transactional_id: str = "id") -> tuple[int, int]:
    producer = await world.begun(transactional_id)
    assert await world.add(producer, ("t", 0), ("u", 1), transactional_id=transactional_id) == [0, 0]
    return producer


def name(world: World) -> TransactionName:
    value = world.state()
    return TransactionName(value.producer_id, value.producer_epoch, value.start_ms)


async def decided(world: World, transactional_id: str, name: TransactionName, is_commit: bool) -> ErrorCode:
    request = TransactionDecideRequest(
        transactional_id=transactional_id,
        producer_id=name.producer_id,
        producer_epoch=name.producer_epoch,
        start_ms=name.start_ms,
        is_commit=is_commit,
    )
    answer: TransactionDecideResponse = await world.ask(ApiKey.TRANSACTION_DECIDE, request, 0)
    return ErrorCode(answer.error_code)


def run(main: Callable[[Asked], Awaitable[None]], policy: CheckPolicy = POLICY) -> None:
    async def whole() -> None:
        world = Asked(policy)
        await main(world)
        await world.coordinator.close()

    virtual(whole)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_answer_ends_the_transaction_before_its_time_out(is_commit: bool) -> None:
    async def main(world: Asked) -> None:
        producer = await open_transaction(world)
        started = name(world)
        await asyncio.sleep(FIRST_S - 1)
        assert world.checker.asked == []
        world.checker.answers["id"] = is_commit
        await asyncio.sleep(1.2)
        (asked,) = world.checker.asked
        assert (asked.transactional_id, asked.name, asked.number, asked.timeout_ms) == ("id", started, 1, 60_000)
        await settled(world, S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
        marker = TransactionMarker(1_001, 1, 0, is_commit, 2)
        assert sorted(world.markers.written) == [("t", 0, marker), ("u", 1, marker)]
        metrics = world.coordinator.metrics
        assert (metrics.checks, metrics.committed_by_check, metrics.aborted_by_check) == (1, is_commit, not is_commit)
        # A client of either dialect hears the truth about a commit, and is fenced after it.
        assert (await world.end(producer, version=3))[0] == (0 if is_commit else E.PRODUCER_FENCED)
        assert (await world.end(producer, False, version=3))[0] == (
            E.INVALID_TXN_STATE if is_commit else E.PRODUCER_FENCED
        )
        assert await world.add(producer, ("t", 0)) == [E.PRODUCER_FENCED]
        assert (await world.end(producer, is_commit))[0] == 0
        await asyncio.sleep(60)
        assert len(world.checker.asked) == 1, "what has ended is not asked about"
        assert metrics.timed_out == 0

    run(main)


def test_without_an_answer_it_is_asked_again_and_aborted_at_its_time_out() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        await asyncio.sleep(62)
        assert world.checker.numbers == [1, 2, 3, 4, 5, 6]  # the last one as its time ends
        assert world.state().status == S.COMPLETE_ABORT and world.coordinator.metrics.timed_out == 1

    run(main)


def test_extra_time_ends_too() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        await asyncio.sleep(69)
        assert world.state().status == S.ONGOING and len(world.checker.asked) == 8
        await asyncio.sleep(3)
        assert world.state().status == S.COMPLETE_ABORT

    run(main, replace(POLICY, extra_ms=10_000))


def test_a_service_that_fails_for_ever_changes_nothing() -> None:
    async def main(world: Asked) -> None:
        world.checker.failure = KafkaError(E.UNKNOWN_SERVER_ERROR, "it answers with status 500")
        world.checker.answers["id"] = True
        await open_transaction(world)
        await asyncio.sleep(62)
        metrics = world.coordinator.metrics
        assert (metrics.checks, metrics.checks_failed, metrics.committed_by_check) == (0, 6, 0)
        assert world.state().status == S.COMPLETE_ABORT

    run(main)


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    async def main(world: Asked) -> None:
        producer = await open_transaction(world)
        world.checker.answers["id"] = True
        world.checker.gate.clear()
        await asyncio.sleep(FIRST_S + 1)
        assert len(world.checker.asked) == 1 and world.state().status == S.ONGOING
        assert (await world.end(producer, False, version=3))[0] == 0
        await settled(world, S.COMPLETE_ABORT)
        assert await world.add(producer, ("t", 0)) == [0], "the next transaction, with the same epoch"
        world.checker.gate.set()
        await asyncio.sleep(1)
        assert world.state().status == S.ONGOING and world.coordinator.metrics.committed_by_check == 0
        await world.end(producer, version=3)

    run(main)


def test_an_answer_does_not_count_once_the_transaction_has_more() -> None:
    async def main(world: Asked) -> None:
        producer = await open_transaction(world)
        world.checker.answers["id"] = True
        world.checker.gate.clear()
        await asyncio.sleep(FIRST_S + 1)
        assert await world.add(producer, ("t", 3)) == [0]
        world.checker.gate.set()
        await asyncio.sleep(0.5)
        assert world.state().status == S.ONGOING
        await asyncio.sleep(5)
        assert world.checker.numbers == [1, 2] and world.state().status == S.COMPLETE_COMMIT
        assert {(topic, number) for topic, number, _ in world.markers.written} == {("t", 0), ("u", 1), ("t", 3)}

    run(main)


def test_only_ids_that_opted_in_and_from_when_they_did() -> None:
    async def main(world: Asked) -> None:
        for transactional_id in ("other", "id-late", "id-2"):
            await open_transaction(world, transactional_id)
        await asyncio.sleep(FIRST_S + 0.5)
        assert [one.transactional_id for one in world.checker.asked] == ["id-2"]
        world.policy = replace(POLICY, id_prefixes=("id-late",))
        world.coordinator.reconfigure_checks(world.policy)
        await asyncio.sleep(0.5)
        assert [one.transactional_id for one in world.checker.asked] == ["id-2", "id-late"]
        world.coordinator.reconfigure_checks(replace(POLICY, id_prefixes=()))
        await asyncio.sleep(10)
        assert len(world.checker.asked) == 2

    run(main, replace(POLICY, id_prefixes=("id-2",)))


def test_a_check_under_way_is_asked_again_by_the_next_owner_and_decided_once() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.answers["id"] = True
        world.checker.gate.clear()
        await asyncio.sleep(FIRST_S + 1)
        former = world.coordinator
        assert world.checker.numbers == [1]
        world.take_over()
        await world.coordinator.prepare("id")
        await asyncio.sleep(1)
        assert world.checker.numbers == [1, 1]
        world.checker.gate.set()  # both hear the answer
        await settled(world, S.COMPLETE_COMMIT)
        await asyncio.sleep(5)
        assert (former.metrics.committed_by_check, world.coordinator.metrics.committed_by_check) == (0, 1)
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}
        assert {marker.producer_epoch for _, _, marker in world.markers.written} == {1}
        assert former.directory.ready == {}, "its append was refused"
        await former.close()

    run(main)


def test_a_former_owner_asks_nobody() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        former = world.coordinator
        world.checker.answers["id"] = True
        world.checker.failure = KafkaError(E.UNKNOWN_SERVER_ERROR)
        await asyncio.sleep(1)
        asked_by: list[str] = []
        heir = world.take_over()
        own = FakeTransactionChecker()
        heir.use_checker(own)
        await heir.prepare("id")
        await asyncio.sleep(FIRST_S)
        asked_by += ["former"] * len(world.checker.asked) + ["heir"] * len(own.asked)
        assert asked_by == ["heir"]
        await former.close()

    run(main)


def test_a_restart_asks_again() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        await asyncio.sleep(FIRST_S + 1)
        await world.coordinator.close()
        world.take_over()
        world.checker.answers["id"] = True
        await world.coordinator.prepare("id")
        await settled(world, S.COMPLETE_COMMIT)
        assert world.checker.numbers == [1, 1]

    run(main)


# ---------------------------------------------------------------- a new instance of the producer


def test_a_new_instance_waits_for_the_outcome_of_the_last_ones_transaction() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.answers["id"] = True
        assert (await world.init())[0] == E.CONCURRENT_TRANSACTIONS
        assert world.state().status == S.ONGOING, "it is not aborted"
        await settled(world, S.COMPLETE_COMMIT)
        assert len(world.checker.asked) == 1
        assert await world.begun() == (1_001, 2)
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}

    run(main)


def test_a_new_instance_waits_although_other_requests_still_wait_for_the_shard() -> None:
    """As behind a hand-over: the next owner loads the shard for all of them."""

    async def main(world: Asked) -> None:
        await open_transaction(world)
        former = world.coordinator
        world.take_over()
        world.checker.answers["id"] = True
        (error, _, _), other = await asyncio.gather(world.init(), world.init("other"))
        assert (error, other[0]) == (E.CONCURRENT_TRANSACTIONS, E.NONE)
        await settled(world, S.COMPLETE_COMMIT)
        assert len(world.checker.asked) == 1
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}
        await former.close()

    run(main)


def test_a_new_instance_aborts_what_nobody_has_committed() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        assert (await world.init())[0] == E.CONCURRENT_TRANSACTIONS
        await asyncio.sleep(0.3)
        assert len(world.checker.asked) == 1 and world.state().status == S.ONGOING
        while (answer := await world.init())[0] == E.CONCURRENT_TRANSACTIONS:  # noqa: ASYNC110 -- as a client does
            await asyncio.sleep(0.05)
        assert answer[0] == 0
        assert {marker.is_commit for _, _, marker in world.markers.written} == {False}

    run(main)


def test_a_new_instance_does_not_wait_for_a_service_that_hangs() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.gate.clear()
        since_s = asyncio.get_running_loop().time()
        while (answer := await world.init())[0] == E.CONCURRENT_TRANSACTIONS:  # noqa: ASYNC110 -- as a client does
            await asyncio.sleep(0.05)
        assert answer[0] == 0 and 9.9 < asyncio.get_running_loop().time() - since_s < 11
        world.checker.answers["id"] = True
        world.checker.gate.set()
        await asyncio.sleep(1)
        assert world.state().status == S.EMPTY, "its answer is about a transaction that has ended"

    run(main)


async def let_in_after_s(world: Asked) -> float:
    """How long a new instance waits, as a client does."""
    since_s = asyncio.get_running_loop().time()
    while (answer := await world.init())[0] == E.CONCURRENT_TRANSACTIONS:  # noqa: ASYNC110 -- as a client does
        await asyncio.sleep(0.05)
    assert answer[0] == 0
    return asyncio.get_running_loop().time() - since_s


def test_a_question_that_is_late_leaves_the_application_its_time() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.room.clear()
        world.checker.gate.clear()
        world.checker.answers["id"] = True
        waiting = asyncio.ensure_future(let_in_after_s(world))
        await asyncio.sleep(15)
        assert world.checker.asked == [] and world.state().status == S.ONGOING
        world.checker.room.set()
        await asyncio.sleep(9)
        assert world.checker.numbers == [1] and world.state().status == S.ONGOING
        world.checker.gate.set()
        assert 23.9 < await waiting < 25
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}

    run(main)


def test_a_question_that_cannot_be_asked_is_not_waited_for_for_ever() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.is_reached = False
        assert 29.9 < await let_in_after_s(world) < 31
        assert world.checker.asked == [] and world.coordinator.metrics.checks == 0
        assert world.coordinator.metrics.checks_failed >= 25, "it was tried each second"
        assert {marker.is_commit for _, _, marker in world.markers.written} == {False}

    run(main)


def test_an_instance_that_has_nothing_to_be_asked_by_does_not_wait_for_a_service_that_fails() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.without = {"id", "unknown"}
        world.checker.failure = KafkaError(E.UNKNOWN_SERVER_ERROR, "it answers with status 500")
        assert await let_in_after_s(world) < 1
        assert world.checker.asked == []

    run(main)


def test_a_question_that_cannot_be_asked_is_tried_again_although_the_wall_clock_is_set_back() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.is_reached = False
        world.checker.answers["id"] = True
        waiting = asyncio.ensure_future(let_in_after_s(world))
        await asyncio.sleep(0.5)
        world.clock.advance(-3_600_000)
        await asyncio.sleep(5)
        world.checker.is_reached = True
        assert 5.5 < await waiting < 8
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}

    run(main)


@pytest.mark.parametrize("step_ms", [-3_600_000, 9_000])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_wall_clock_that_is_set_neither_ends_nor_prolongs_the_wait(step_ms: int, is_asked: bool) -> None:
    """`is_asked`: whether it is set behind the question."""

    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.gate.clear()
        assert (await world.init())[0] == E.CONCURRENT_TRANSACTIONS
        if is_asked:
            await asyncio.sleep(0.5)
        assert world.checker.numbers == [1] * is_asked
        world.clock.advance(step_ms)
        assert 9.4 < await let_in_after_s(world) < 11
        assert world.checker.numbers == [1], "it was asked about at once"
        world.checker.gate.set()

    run(main)


def test_an_answer_to_an_earlier_question_does_not_end_the_wait() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.gate.clear()
        await asyncio.sleep(FIRST_S + 0.5)
        assert world.checker.numbers == [1]
        waiting = asyncio.ensure_future(let_in_after_s(world))
        await asyncio.sleep(0.1)
        world.checker.gate.set()  # nobody knew, before the restart
        await asyncio.sleep(0)
        world.checker.gate.clear()
        await asyncio.sleep(2)
        assert world.checker.numbers == [1, 2] and not waiting.done() and world.state().status == S.ONGOING
        world.checker.answers["id"] = True
        world.checker.gate.set()
        await waiting
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}

    run(main)


def test_an_answer_from_before_a_new_policy_does_not_end_the_wait() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        world.checker.gate.clear()
        await asyncio.sleep(FIRST_S + 5)
        assert world.checker.numbers == [1]
        world.coordinator.reconfigure_checks(replace(POLICY, interval_ms=3_000))
        waiting = asyncio.ensure_future(let_in_after_s(world))
        await asyncio.sleep(0.1)
        world.checker.gate.set()
        await asyncio.sleep(0)
        world.checker.gate.clear()
        await asyncio.sleep(2)
        assert world.checker.numbers == [1, 1] and not waiting.done()
        world.checker.gate.set()
        await waiting

    run(main)


def test_a_second_restart_waits_anew() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        assert (await world.init())[0] == E.CONCURRENT_TRANSACTIONS
        await asyncio.sleep(20)
        assert world.checker.asked and world.state().status == S.ONGOING, (
            "nobody knew, and it has asked for nothing since"
        )
        world.checker.gate.clear()
        world.checker.answers["id"] = True
        waiting = asyncio.ensure_future(let_in_after_s(world))
        await asyncio.sleep(5)
        assert not waiting.done() and world.state().status == S.ONGOING
        world.checker.gate.set()
        await waiting
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}

    run(main)


def test_a_stranger_is_refused_and_does_not_wait() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        assert (await world.init(given=(77, 0)))[0] == E.PRODUCER_FENCED
        await asyncio.sleep(1)
        assert world.checker.asked == []

    run(main)


# ---------------------------------------------------------------- decided from outside


def test_a_decision_names_its_transaction() -> None:
    async def main(world: Asked) -> None:
        producer = await open_transaction(world)
        started, decide = name(world), partial(decided, world)
        assert await decide("id", started._replace(start_ms=1), True) is E.INVALID_PRODUCER_ID_MAPPING
        assert await decide("nobody", started, True) is E.INVALID_PRODUCER_ID_MAPPING
        assert await decide("id", started, True) is E.NONE
        await settled(world, S.COMPLETE_COMMIT)
        assert await decide("id", started, True) is E.NONE
        assert await decide("id", started, False) is E.INVALID_TXN_STATE
        assert (await world.end(producer))[0] == 0
        assert await world.begun() == (1_001, 2)
        assert await decide("id", started, True) is E.INVALID_PRODUCER_ID_MAPPING, "a later instance has begun"

        other = await open_transaction(world, "other")
        value = world.state("other")
        named = TransactionName(*other, value.start_ms)
        assert await decide("other", named, True) is E.INVALID_REQUEST, "it has not opted in"
        assert world.state("other").status == S.ONGOING

    run(main)


def test_decisions_at_the_same_time_have_one_outcome() -> None:
    async def main(world: Asked) -> None:
        await open_transaction(world)
        started = name(world)
        codes = await asyncio.gather(*(decided(world, "id", started, number % 2 == 0) for number in range(6)))
        assert codes[0] is E.NONE and E.NONE not in codes[1::2]
        await settled(world, S.COMPLETE_COMMIT)
        assert {marker.is_commit for _, _, marker in world.markers.written} == {True}

    run(main)
