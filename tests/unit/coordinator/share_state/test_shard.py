"""The state of share partitions: what members get, what is durable, and what another owner of the shard knows."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
import structlog

from bmq.log.partition_log import StateSnapshot
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.share_state_messages import ANY_NODE, AckType
from bmq.protocol.share_state_records import StateBatch, UpdateKey, UpdateValue, encode_key, encode_value
from tests.support.gate_share import few_in_gate
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import TOPIC, States, ranges

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

ACCEPT, RELEASE, REJECT, RENEW = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW


def test_records_are_given_from_the_start_offset_that_was_found_first() -> None:
    async def main() -> None:
        states = States()
        assert await states.initialize() == 0
        assert (await states.acquire()).start_offset == -1
        first, second = await asyncio.gather(states.acquire(reset_offset=10), states.acquire("b", reset_offset=50))
        assert ranges(first) == [(10, 19, 1)]
        assert ranges(second) == [(20, 29, 1)]
        assert (second.start_offset, second.next_offset, second.lock_timeout_ms) == (10, 30, 30_000)
        heir = states.take_over()
        answer = await heir.acquire("c", batches=[])
        assert (answer.start_offset, answer.next_offset) == (10, 30)

    virtual(main)


def test_without_state_nothing_is_given() -> None:
    async def main() -> None:
        states = States()
        assert (await states.acquire()).error_code == ErrorCode.INVALID_REQUEST
        assert await states.acknowledge("a", (0, 1, ACCEPT)) == ErrorCode.INVALID_REQUEST
        assert await states.release("a") == 0
        assert (await states.summary()).start_offset == -1
        assert await states.delete() == 0
        assert [one.error_code for one in await states.wait(0)] == [ErrorCode.INVALID_REQUEST]

    virtual(main)


def test_locks_and_counts_outlive_the_owner_of_the_shard() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        assert ranges(await states.acquire("a")) == [(0, 9, 1)]
        assert await states.acknowledge("a", (0, 3, ACCEPT), (4, 4, RELEASE), (5, 5, REJECT)) == 0
        heir = states.take_over()
        assert await heir.acknowledge("b", (6, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
        assert ranges(await heir.acquire("b", 1)) == [(4, 4, 2)]
        assert await heir.acknowledge("a", (6, 9, ACCEPT)) == 0
        assert (await heir.acquire("a", batches=[])).start_offset == 4
        assert await states.acknowledge("a", (6, 9, ACCEPT)) == ErrorCode.NOT_COORDINATOR

    virtual(main)


def test_a_former_owner_refuses_nothing() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.acquire("a", 10)
        heir = states.take_over()
        assert ranges(await heir.acquire("b")) == [(10, 19, 1)]
        assert await states.acknowledge("b", (10, 19, ACCEPT)) == ErrorCode.NOT_COORDINATOR
        assert await heir.acknowledge("b", (10, 19, ACCEPT)) == 0

    virtual(main)


def test_a_lock_runs_out_and_its_records_are_given_again_until_the_limit() -> None:
    async def main() -> None:
        states = States()
        states.topics.group_configs["g"] = {
            "share.delivery.count.limit": "2",
            "share.record.lock.duration.ms": "2000",
        }
        await states.initialize(start=0)
        answer = await states.acquire("a")
        assert ranges(answer) == [(0, 9, 1)] and answer.lock_timeout_ms == 2_000
        waiting = asyncio.create_task(states.wait(answer.version))
        await asyncio.sleep(1.9)
        assert not waiting.done()
        (news,) = await waiting
        assert news.error_code == 0 and news.version > answer.version
        assert await states.acknowledge("a", (0, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
        assert ranges(await states.acquire("a")) == [(0, 9, 2)]
        await asyncio.sleep(4)
        assert (await states.summary()).start_offset == 10

    virtual(main)


def test_a_lock_runs_out_at_the_next_owner_but_not_before_acknowledgements_on_their_way_can_arrive() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.acquire("a")
        states.clock.advance(60_000)
        heir = states.take_over()
        assert await heir.acknowledge("a", (0, 4, ACCEPT)) == 0
        await asyncio.sleep(1.1)
        assert await heir.acknowledge("a", (5, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
        assert ranges(await heir.acquire("b", batches=[(0, 9)])) == [(5, 9, 2)]

    virtual(main)


def test_a_renewed_lock_holds_longer_here_and_at_the_next_owner() -> None:
    async def main() -> None:
        states = States()
        states.topics.group_configs["g"] = {"share.record.lock.duration.ms": "3000"}
        await states.initialize(start=0)
        await states.acquire("a")
        await asyncio.sleep(2)
        states.clock.advance(2_000)
        assert await states.acknowledge("a", (0, 3, RENEW)) == 0
        await asyncio.sleep(2)
        states.clock.advance(2_000)
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == [(4, 9, 2)]
        heir = states.take_over()
        assert await heir.acknowledge("a", (0, 3, ACCEPT)) == 0
        states.topics.group_configs["g"] = {
            **states.topics.group_configs["g"],
            "share.renew.acknowledge.enable": "false",
        }
        assert await heir.acknowledge("b", (4, 9, RENEW)) == ErrorCode.INVALID_RECORD_STATE
        assert await heir.acknowledge("b", (4, 9, ACCEPT)) == 0

    virtual(main)


def test_nobody_gets_a_record_whose_append_is_in_flight() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        answers = await asyncio.gather(*(states.acquire(str(number)) for number in range(5)))
        assert [ranges(answer) for answer in answers] == [[(low, low + 9, 1)] for low in range(0, 50, 10)]
        acks = await asyncio.gather(*(states.acknowledge("0", (0, 9, ACCEPT)) for _ in range(3)))
        assert sorted(acks) == [0, ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_RECORD_STATE]

    virtual(main)


def test_records_of_a_refused_append_are_as_before() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.acquire("a")
        states.log().refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await states.acquire("b")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await states.acknowledge("a", (0, 9, ACCEPT)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        states.log().refuse_with = None
        assert ranges(await states.acquire("b")) == [(10, 19, 1)]
        assert await states.acknowledge("a", (0, 9, ACCEPT)) == 0
        assert (await states.summary()).locked_count == 10

    virtual(main)


def test_a_lock_that_runs_out_while_nothing_can_be_written_ends_a_second_after_it_can() -> None:
    async def main() -> None:
        states = States()
        states.topics.group_configs["g"] = {"share.record.lock.duration.ms": "2000"}
        await states.initialize(start=0)
        for number in range(20):
            assert ranges(await states.acquire("a", 1, batches=[(number, number)])) == [(number, number, 1)]
            await asyncio.sleep(0.05)
        states.log().refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(5.5)
        summary = await states.summary()
        assert (summary.locked_count, summary.start_offset) == (20, 0)
        states.log().refuse_with = None
        await asyncio.sleep(1)
        assert (await states.summary()).locked_count == 0
        assert ranges(await states.acquire("b", 50, batches=[(0, 19)])) == [(0, 19, 2)]

    virtual(main)


def test_more_locks_than_end_in_one_turn_run_out_together() -> None:
    async def main() -> None:
        states = States()
        states.topics.group_configs["g"] = {"share.record.lock.duration.ms": "2000"}
        await states.initialize(start=0)
        for number in range(1_200):
            await states.acquire("a", 1, batches=[(number, number)])
        await states.acquire("a", 1, batches=[(1_200, 1_209)])
        await asyncio.sleep(1.5)
        assert await states.acknowledge("a", (1_200, 1_209, RENEW)) == 0
        await asyncio.sleep(1)
        assert (await states.summary()).locked_count == 10, "the renewed lock is over later"
        assert states.coordinator.metrics.expired_locks == 1_200
        await asyncio.sleep(1)
        assert (await states.summary()).locked_count == 0

    virtual(main)


def test_the_end_of_a_session_releases_what_it_and_earlier_ones_acquired() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.acquire("a", session=1)
        await states.acquire("a", session=2)
        await states.acquire("a", node=(2, 1))
        await states.acquire("b")
        assert await states.release("a", session=1) == 0
        assert ranges(await states.acquire("c")) == [(0, 9, 2)]
        assert await states.acknowledge("a", (10, 10, ACCEPT)) == 0, "acquired in a later session"
        assert await states.release("a", session=2) == 0
        assert ranges(await states.acquire("c", 9)) == [(11, 19, 2)]
        assert await states.acknowledge("a", (20, 29, ACCEPT)) == 0, "acquired over another proxy"
        assert await states.release("b", node=(ANY_NODE, -1)) == 0
        assert ranges(await states.acquire("c")) == [(30, 39, 2)]

    virtual(main)


def test_the_end_of_a_session_waits_for_an_acquisition_in_flight() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        states.log().is_acknowledging = False
        acquiring = asyncio.create_task(states.acquire("a"))
        await asyncio.sleep(0.1)
        releasing = asyncio.create_task(states.release("a"))
        await asyncio.sleep(0.1)
        assert not releasing.done()
        states.log().is_acknowledging = True
        states.log().acknowledge()
        assert ranges(await acquiring) == [(0, 9, 1)] and await releasing == 0
        assert ranges(await states.acquire("b")) == [(0, 9, 2)]

    virtual(main)


def test_a_proxy_that_is_gone_holds_nothing() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        answer = await states.acquire("a", node=(1, 5))
        await states.acquire("b", node=(2, 5))
        states.gone.add((1, 5))
        states.coordinator.nodes_changed()
        assert len(await states.wait(answer.version)) == 1
        assert ranges(await states.acquire("c")) == [(0, 9, 2)]
        states.gone.add((2, 5))
        heir = states.take_over()
        await heir.acquire("d", batches=[])
        await asyncio.sleep(0.1)
        assert ranges(await heir.acquire("d")) == [(10, 19, 2)]

    virtual(main)


def test_state_begins_again_only_at_a_named_offset_and_a_newer_epoch() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(epoch=5, start=0)
        await states.acquire("a")
        assert await states.initialize(epoch=4) == ErrorCode.FENCED_STATE_EPOCH
        assert await states.initialize(epoch=6) == 0
        assert (await states.summary()).locked_count == 10, "a repeated initialization keeps what is known"
        assert await states.initialize(epoch=6, start=40) == 0
        assert await states.acknowledge("a", (0, 9, ACCEPT)) == 0, "below the start nothing counts"
        assert ranges(await states.acquire("a")) == [(40, 49, 1)]
        heir = states.take_over()
        summary = await heir.summary()
        assert (summary.state_epoch, summary.start_offset, summary.window_end) == (6, 40, 50)
        assert await heir.delete() == 0
        assert (await heir.acquire("a")).error_code == ErrorCode.INVALID_REQUEST
        assert (await heir.take_over().summary()).state_epoch == -1

    virtual(main)


def test_nothing_is_decided_while_the_state_begins_again() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.acquire("a")
        states.log().is_acknowledging = False
        again = asyncio.create_task(states.initialize(epoch=2, start=70))
        await asyncio.sleep(0.1)
        others = [
            asyncio.create_task(work)
            for work in (states.acquire("b"), states.acknowledge("a", (0, 9, ACCEPT)), states.release("a"))
        ]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in others)
        states.log().is_acknowledging = True
        states.log().acknowledge()
        assert await again == 0
        given, acked, released = await asyncio.gather(*others)
        assert (ranges(given), acked, released) == ([(70, 79, 1)], 0, 0)  # type: ignore[arg-type]

    virtual(main)


def test_what_no_consumer_has_to_see_is_archived_with_the_next_acquisition() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        answer = await states.acquire("a", batches=[(10**12, 10**12 + 4)], archive=[(0, 10**12 - 1)])
        assert (answer.start_offset, ranges(answer)) == (10**12, [])
        low = 10**12
        answer = await states.acquire("a", batches=[(low, low + 4), (low + 6, low + 9)], archive=[(low + 5, low + 5)])
        assert ranges(answer) == [(low, low + 4, 1), (low + 6, low + 9, 1)]
        assert await states.acknowledge("a", (low, low + 4, ACCEPT)) == 0
        assert (await states.summary()).start_offset == low + 6
        answer = await states.acquire("a", batches=[], log_start_offset=low + 8)
        assert (answer.start_offset, (await states.take_over().summary()).start_offset) == (low + 8, low + 8)

    virtual(main)


def test_batches_that_no_consumer_has_to_see_are_not_given_though_they_were_read() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        read = [(0, 4), (5, 5), (6, 9), (10, 10)]  # a proxy names all that it read: markers and aborted records too
        answer = await states.acquire("a", batches=read, archive=[(5, 5), (6, 9)])
        assert ranges(answer) == [(0, 4, 1), (10, 10, 1)]
        assert await states.acknowledge("a", (0, 4, ACCEPT)) == 0
        assert (await states.summary()).start_offset == 10
        assert await states.acknowledge("a", (10, 10, RELEASE)) == 0
        assert ranges(await states.acquire("a", batches=[(0, 12)], archive=[(9, 10), (12, 12)])) == [(11, 11, 1)]

    virtual(main)


def test_a_lock_begins_when_it_is_durable() -> None:
    """No member has the records before: an append that takes longer than a lock must not use a delivery up."""

    async def main() -> None:
        states = States()
        states.topics.group_configs["g"] = {"share.record.lock.duration.ms": "5000"}
        await states.initialize(start=0)
        states.log().is_acknowledging = False
        acquiring = asyncio.create_task(states.acquire("a"))
        await asyncio.sleep(20)
        states.clock.advance(20_000)
        states.log().is_acknowledging = True
        states.log().acknowledge()
        assert ranges(await acquiring) == [(0, 9, 1)]
        await asyncio.sleep(4.5)
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == []
        await asyncio.sleep(1)
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == [(0, 9, 2)]

    virtual(main)


def test_a_shard_that_is_loaded_again_has_newer_versions_than_before() -> None:
    """At the same leader epoch: proxies keep no position of an older version, and ask for newer ones."""

    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        for _ in range(3):
            await states.acquire("a")
            await states.release("a")
        before = await states.acquire("a", 20)
        states.coordinator.directory.ready[states.log().topic_partition.partition].lose()
        assert ranges(await states.acquire("b", batches=[])) == []
        (news,) = await states.wait(before.version)
        assert news.error_code == 0 and news.version > before.version
        assert (await states.acquire("b", batches=[])).version > before.version

    virtual(main)


def test_at_the_limit_of_locks_a_member_waits_until_some_are_settled() -> None:
    async def main() -> None:
        states = States()
        states.topics.group_configs["g"] = {"share.partition.max.record.locks": "100"}
        await states.initialize(start=0)
        answer = await states.acquire("a", 1_000)
        assert (ranges(answer), answer.next_offset) == ([(0, 99, 1)], -1)
        waiting = asyncio.create_task(states.wait(answer.version))
        await asyncio.sleep(1)
        assert not waiting.done()
        assert await states.acknowledge("a", (50, 59, ACCEPT)) == 0
        assert [one.error_code for one in await waiting] == [0]
        assert (await states.acquire("a", batches=[])).next_offset == 100

    virtual(main)


def test_a_long_log_becomes_a_snapshot_with_all_counts_and_locks() -> None:
    async def main() -> None:
        states = States(snapshot_records_max=10)
        await states.initialize(start=0)
        for number in range(5):
            await states.acquire(f"m{number}", session=number)
        for number in range(5):
            await states.acknowledge(f"m{number}", (10 * number + 1, 10 * number + 8, ACCEPT))
            await states.acknowledge(f"m{number}", (10 * number + 9, 10 * number + 9, RELEASE))
        await asyncio.sleep(1)
        assert states.log().snapshots
        heir = States(states, snapshot_records_max=10)
        assert await heir.summary() == await States(states).summary()
        heir = States(states)
        assert ranges(await heir.acquire("x", 2)) == [(9, 9, 2), (19, 19, 2)]
        assert await heir.acknowledge("m4", (40, 40, ACCEPT)) == 0
        assert await heir.release("m3", session=2) == 0
        assert (await heir.summary()).locked_count == 6
        assert await heir.release("m3", session=3) == 0
        assert (await heir.summary()).locked_count == 5

    virtual(main)


def far_away() -> tuple[bytes, bytes]:
    """A record that names offsets which no member can have been given."""
    far = StateBatch(first_offset=1, last_offset=2**62, delivery_state=2, delivery_count=1)
    value = UpdateValue(start_offset=0, state_batches=(far,))
    return encode_key(UpdateKey(group="g", topic_id=TOPIC, partition=0)), encode_value(value)


@pytest.mark.parametrize("damage", ["snapshot", "record", "offsets"])
def test_a_damaged_shard_says_so_and_stops_alone(damage: str) -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        log = states.log()
        if damage == "snapshot":
            log.snapshots.append(StateSnapshot(log.high_watermark, b"\0\0\0\x7fnonsense"))
        else:
            shard = next(iter(states.coordinator.directory.ready.values()))
            with structlog.testing.capture_logs():
                shard.append([(b"\0\x07", b"") if damage == "record" else far_away()])
                await asyncio.sleep(0.1)
        heir = states.take_over()
        with structlog.testing.capture_logs() as lines:
            assert (await heir.acquire("a")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "share_state_shard_not_loaded" in [line["event"] for line in lines]
        sound = 0
        while await heir.initialize(group_id=str(sound), start=0):
            sound += 1
        assert ranges(await heir.acquire("a", group_id=str(sound))) == [(0, 9, 1)]

    virtual(main)


@few_in_gate("seed", range(20), every=5, others=in_campaign)
def test_whatever_happens_a_record_is_accepted_once_or_archived_or_still_there(seed: int) -> None:
    """Members take, settle, forget and leave; shards move; locks run out. Records 0 to 99."""

    async def main() -> None:
        random = Random(seed)
        states = States()
        states.topics.group_configs["g"] = {"share.record.lock.duration.ms": "5000"}
        await states.initialize(start=0)
        deliveries = dict.fromkeys(range(100), 0)
        accepted: list[int] = []
        held: dict[str, set[int]] = {name: set() for name in "abc"}
        for _ in range(400):
            member = random.choice("abc")
            match random.randrange(8):
                case 0 | 1 | 2:
                    for first, last, count in ranges(await states.acquire(member, random.randint(1, 15))):
                        for offset in range(first, last + 1):
                            deliveries[offset] += 1
                            assert deliveries[offset] == count <= 5
                            assert offset not in accepted
                            held[member].add(offset)
                case 3 | 4 | 5 if held[member]:
                    offset = random.choice(sorted(held[member]))
                    kind = random.choice((ACCEPT, ACCEPT, RELEASE, RENEW))
                    start = (await states.summary()).start_offset
                    is_done = await states.acknowledge(member, (offset, offset, kind)) == 0
                    if is_done and kind == ACCEPT and offset >= start:
                        accepted.append(offset)
                    if kind != RENEW:
                        held[member].discard(offset)
                case 6:
                    await states.release(member)
                    held[member].clear()
                case 7:
                    if random.random() < 0.3:
                        states = states.take_over()
                    else:
                        await asyncio.sleep(1)
                        states.clock.advance(1_000)
        assert len(accepted) == len(set(accepted))
        await asyncio.sleep(10)
        states.clock.advance(10_000)
        states = states.take_over()
        await states.acquire("z", batches=[])
        await asyncio.sleep(2)
        left = set()
        while given := ranges(await states.acquire("z", 1_000)):
            for first, last, count in given:
                for offset in range(first, last + 1):
                    assert deliveries[offset] + 1 == count
                    left.add(offset)
        assert not left & set(accepted)
        for offset in set(range(100)) - left - set(accepted):
            assert deliveries[offset] == 5, f"record {offset} is lost"

    virtual(main)


def test_what_is_applied_at_once_is_what_the_next_owner_reads() -> None:
    """A change is applied as it was decided; the record that was written has to say the same."""

    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        assert ranges(await states.acquire("a", 30)) == [(0, 29, 1)]
        assert await states.acknowledge("a", (0, 4, ACCEPT), (5, 9, RELEASE), (12, 12, REJECT), (20, 29, RENEW)) == 0
        assert ranges(await states.acquire("b", 3)) == [(5, 9, 2)]
        heir = states.take_over()
        await heir.summary()
        (here,), (there,) = (
            [one for shard in of.coordinator.directory.ready.values() for one in shard.partitions.values()]
            for of in (states, heir)
        )
        assert here.window is not None and there.window is not None
        assert (there.window.start, there.window.states, there.window.counts) == (
            here.window.start,
            here.window.states,
            here.window.counts,
        )
        held = [
            sorted((*lock[:3], lock.holder.member_id, lock.holder.session) for lock in window.holds.all_locks())
            for window in (here.window, there.window)
        ]
        assert held[0] == held[1]

    virtual(main)
