"""Dead letters of share groups: a record is archived once its dead letter is durable, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from bmq.coordinator.share_state.dead_letters import RECORDS_PER_WRITE_MAX
from bmq.protocol.batch_records import iterate_records
from bmq.protocol.dead_letters import DeadLetterTerms, DeadReason, DeadRecords
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import AckType, state_key
from bmq.protocol.share_state_records import UpdateValue, decode_key, decode_value
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import TOPIC, States, ranges

pytestmark = pytest.mark.unit

ACCEPT, RELEASE, REJECT, GAP = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.GAP


class FakeLetters:
    """`failure(dead)`: why nothing can be written now; None: it is written. `at_most`: records at once."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, int, DeadReason]] = []
        self.tries: list[DeadRecords] = []
        self.failure: Callable[[DeadRecords], str | None] = lambda dead: None
        self.is_on = True
        self.at_most = 1_000_000
        self.gate = asyncio.Event()
        self.gate.set()

    def is_enabled(self) -> bool:
        return self.is_on

    async def write(self, dead: DeadRecords) -> int:
        self.tries.append(dead)
        await asyncio.sleep(0.001)
        if (why := self.failure(dead)) is not None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        last = min(dead.last, dead.first + self.at_most - 1)
        self.written += [
            (dead.group_id, offset, dead.delivery_count, dead.reason) for offset in range(dead.first, last + 1)
        ]
        await self.gate.wait()
        return last + 1

    @property
    def offsets(self) -> list[int]:
        return [offset for _, offset, _, _ in self.written]


async def begun(letters: FakeLetters, group_id: str = "g", **configs: Any) -> States:
    states = States(letters=letters)
    await with_letters(states, group_id, **configs)
    return states


async def with_letters(states: States, group_id: str, **configs: Any) -> None:
    states.topics.group_configs[group_id] = {"errors.deadletterqueue.topic.name": "dlq.t", **configs}
    await states.initialize(start=0, group_id=group_id)


def archived_in_log(states: States) -> list[tuple[int, int, int]]:
    """(first, last, state) of every given-up batch in the log of group g's shard, in order."""
    found = []
    for record in (one for batch in states.log().batches for one in iterate_records(batch.data)):
        state = None if record.key is None else decode_value(decode_key(record.key), record.value)
        if isinstance(state, UpdateValue):
            found += [
                (one.first_offset, one.last_offset, one.delivery_state)
                for one in state.state_batches
                if one.delivery_state >= 3
            ]
    return found


def test_what_is_rejected_or_given_too_often_is_archived_after_its_dead_letter() -> None:
    async def main() -> None:
        letters = FakeLetters()
        states = await begun(letters, **{"share.delivery.count.limit": "2"})
        letters.gate.clear()
        await states.acquire("a")
        assert await states.acknowledge("a", (0, 1, REJECT), (2, 2, GAP), (3, 4, RELEASE), (5, 9, ACCEPT)) == 0
        await asyncio.sleep(1)
        assert letters.offsets == [0, 1]
        assert (await states.summary()).start_offset == 0, "the dead letter is not durable yet"
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == [(3, 4, 2)]
        letters.gate.set()
        assert await states.acknowledge("b", (3, 4, RELEASE)) == 0
        await asyncio.sleep(1)
        assert letters.written == [
            ("g", 0, 1, DeadReason.REJECTED),
            ("g", 1, 1, DeadReason.REJECTED),
            ("g", 3, 2, DeadReason.DELIVERY_COUNT),
            ("g", 4, 2, DeadReason.DELIVERY_COUNT),
        ]
        assert (await states.summary()).start_offset == 10
        assert archived_in_log(states) == [(0, 1, 3), (2, 2, 4), (3, 4, 3), (0, 1, 4), (3, 4, 4)]
        assert letters.tries[0] == DeadRecords("g", TOPIC, 0, 0, 1, 1, DeadReason.REJECTED, DeadLetterTerms("dlq.t"))

    virtual(main)


def test_locks_that_run_out_and_sessions_that_end_at_the_limit_make_dead_letters() -> None:
    async def main() -> None:
        letters = FakeLetters()
        states = await begun(letters, **{"share.delivery.count.limit": "2", "share.record.lock.duration.ms": "2000"})
        await states.acquire("a", batches=[(0, 9)])
        await states.release("a")
        for offset in range(2):
            await states.acquire("a", 1, batches=[(offset, offset)])
        await asyncio.sleep(3)
        assert letters.offsets == [0, 1]
        await states.acquire("a", 1, batches=[(2, 2)])
        await states.release("a")
        await asyncio.sleep(0.1)
        assert letters.offsets == [0, 1, 2]
        assert {reason for *_, reason in letters.written} == {DeadReason.DELIVERY_COUNT}

    virtual(main)


@pytest.mark.parametrize("as_snapshot", [False, True])
def test_the_next_owner_of_the_shard_goes_on(as_snapshot: bool) -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "topic dlq.t does not exist"
        states = await begun(letters, **{"share.delivery.count.limit": "2"})
        await states.acquire("a", batches=[(0, 9)])
        await states.acknowledge("a", (0, 3, REJECT), (4, 9, RELEASE))
        await states.acquire("a", 1, batches=[(5, 5)])
        await states.acknowledge("a", (5, 5, RELEASE))
        await asyncio.sleep(1)
        if as_snapshot:
            (shard,) = states.coordinator.directory.ready.values()
            assert await shard.save_snapshot(force=True)
        assert letters.written == []
        letters = FakeLetters()
        heir = States(states, letters)
        await heir.summary()
        await asyncio.sleep(1)
        assert letters.written == [("g", offset, 1, DeadReason.REJECTED) for offset in range(4)] + [
            ("g", 5, 2, DeadReason.DELIVERY_COUNT)
        ]
        assert (await heir.summary()).start_offset == 4

    virtual(main)


def test_a_topic_that_is_away_stops_neither_other_records_nor_other_groups() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "topic dlq.t does not exist" if dead.group_id == "g" else None
        states = await begun(letters)
        await with_letters(states, "h")
        with structlog.testing.capture_logs() as lines:
            for number in range(5):
                given = await states.acquire("a")
                assert ranges(given) == [(10 * number, 10 * number + 9, 1)]
                await states.acknowledge("a", (10 * number, 10 * number + 9, REJECT))
            await states.acquire("a", group_id="h")
            await states.acknowledge("a", (0, 9, REJECT), group_id="h")
            await asyncio.sleep(300)
        assert [one for one in letters.written if one[0] == "h"] == [
            ("h", o, 1, DeadReason.REJECTED) for o in range(10)
        ]
        assert (await states.summary()).start_offset == 0
        waits = [line for line in lines if line["event"] == "dead_letters_wait"]
        assert [line["reason"] for line in waits] == ["topic dlq.t does not exist"], "one line, not one for each try"
        assert len([dead for dead in letters.tries if dead.group_id == "g"]) < 20, "tries have pauses"
        letters.failure = lambda dead: None
        await asyncio.sleep(31)
        assert sorted(o for group, o, *_ in letters.written if group == "g") == list(range(50))
        assert (await states.summary()).start_offset == 50

    virtual(main)


def test_a_share_partition_whose_records_cannot_be_read_does_not_hold_up_the_groups_others() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "the store is away" if dead.partition == 0 else None
        states = await begun(letters)
        place = states.coordinator.directory.number_of
        other = next(n for n in range(1, 50) if place(state_key("g", TOPIC, n)) == place(state_key("g", TOPIC, 0)))
        await states.initialize(start=0, partition=other)
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, REJECT))
        await states.acquire("a", partition=other)
        await states.acknowledge("a", (0, 9, REJECT), partition=other)
        await asyncio.sleep(1)
        assert letters.offsets == list(range(10))
        assert {dead.partition for dead in letters.tries} == {0, other}
        assert len(letters.tries) < 20

    virtual(main)


def test_a_group_may_rather_lose_dead_letters_than_wait_for_their_topic() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "topic dlq.t does not exist"
        states = await begun(letters, **{"bmq.share.dead.letter.policy": "drop"})
        registry = CollectorRegistry()
        states.coordinator.metrics.register(registry)
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, REJECT))
        await asyncio.sleep(1)
        assert (await states.summary()).start_offset == 0
        await asyncio.sleep(30)
        assert (await states.summary()).start_offset == 10
        assert len(letters.tries) == 5
        assert registry.get_sample_value("bmq_share_dead_letters_dropped_total") == 10
        assert registry.get_sample_value("bmq_share_dead_letter_failed_produce_requests_total", {"group": "g"}) == 5
        await states.acquire("a")
        letters.failure = lambda dead: None
        await states.acknowledge("a", (10, 19, REJECT))
        await asyncio.sleep(1)
        assert letters.offsets == list(range(10, 20)), "each record's dead letter is tried once at least"
        assert registry.get_sample_value("bmq_share_dead_letter_records_total", {"group": "g"}) == 10

    virtual(main)


def test_without_a_topic_or_the_feature_records_are_archived_at_once() -> None:
    async def main() -> None:
        letters = FakeLetters()
        states = await begun(letters)
        await states.acquire("a")
        letters.is_on = False
        await states.acknowledge("a", (0, 4, REJECT))
        assert (await states.summary()).start_offset == 5
        letters.is_on = True
        letters.failure = lambda dead: "topic dlq.t does not exist"
        await states.acknowledge("a", (5, 9, REJECT))
        await asyncio.sleep(1)
        assert (await states.summary()).start_offset == 5
        states.topics.group_configs["g"] = {}
        await asyncio.sleep(31)
        assert (await states.summary()).start_offset == 10, "an operator's way out"
        assert letters.written == []

    virtual(main)


def test_long_runs_are_written_in_parts_each_archived_for_itself() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.at_most = 300
        states = await begun(letters)
        await states.acquire("a", 2_000, batches=[(0, 1_999)])
        await states.acknowledge("a", (0, 1_199, REJECT), (1_200, 1_999, ACCEPT))
        await asyncio.sleep(1)
        assert letters.offsets == list(range(1_200))
        assert max(dead.last - dead.first + 1 for dead in letters.tries) == RECORDS_PER_WRITE_MAX
        assert (await states.summary()).start_offset == 2_000

    virtual(main)


def test_a_refused_append_of_the_state_does_not_write_the_dead_letter_again() -> None:
    async def main() -> None:
        letters = FakeLetters()
        states = await begun(letters)
        letters.gate.clear()
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, REJECT))
        await asyncio.sleep(0.1)
        states.log().refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        letters.gate.set()
        await asyncio.sleep(3)
        assert (await states.summary()).start_offset == 0
        states.log().refuse_with = None
        await asyncio.sleep(10)
        assert (await states.summary()).start_offset == 10
        assert letters.offsets == list(range(10))

    virtual(main)


def test_retention_does_not_pass_records_whose_dead_letters_are_not_written() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "the topic is away"
        states = await begun(letters)
        await states.acquire("a")
        await states.acknowledge("a", (0, 3, ACCEPT), (4, 4, REJECT), (5, 9, ACCEPT))
        answer = await states.acquire("a", batches=[(50, 59)], log_start_offset=50)
        assert (answer.start_offset, ranges(answer)) == (4, [(50, 59, 1)])
        letters.failure = lambda dead: None
        await asyncio.sleep(31)
        assert letters.offsets == [4]
        assert (await states.acquire("a", batches=[], log_start_offset=50)).start_offset == 50

    virtual(main)


def test_a_state_that_begins_again_or_is_deleted_has_no_more_dead_letters() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "the topic is away"
        states = await begun(letters)
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, REJECT))
        await asyncio.sleep(0.1)
        assert await states.initialize(epoch=2, start=30) == 0
        letters.failure = lambda dead: None
        await asyncio.sleep(31)
        assert letters.written == [] and (await states.summary()).start_offset == 30
        letters.gate.clear()
        await states.acquire("a", batches=[(30, 39)])
        await states.acknowledge("a", (30, 39, REJECT))
        await asyncio.sleep(0.1)
        assert await states.delete() == 0
        letters.gate.set()
        await asyncio.sleep(31)
        assert (await states.summary()).state_epoch == -1

    virtual(main)


def test_a_shard_that_is_lost_writes_nothing_more() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "the topic is away"
        states = await begun(letters)
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, REJECT))
        await asyncio.sleep(20)
        heir = States(states, FakeLetters())
        await heir.acquire("b", batches=[])
        tries = len(letters.tries)
        letters.failure = lambda dead: None
        await asyncio.sleep(120)
        assert letters.written == [] and len(letters.tries) == tries, "it finds out before it writes"
        assert not states.coordinator.directory.ready

    virtual(main)
