"""Too few DataNodes: `min.insync.replicas`, the way back to full replication, and waiting for a store that is away."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.broker.min_insync_tracker import UNCONFIRMED_S_MAX, MinInsyncTracker
from bmq.broker.partition_states import AwaitingSegment, Idle, Mending, Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import FOLLOWERS_MAX
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader
from tests.fakes.store import Faults
from tests.unit.broker.world import (
    CONFIG,
    World,
    append,
    batch_of,
    produce,
    read_all,
    read_from_store,
    sequenced,
    virtual,
)

pytestmark = pytest.mark.unit

NONE = ErrorCode.NONE
BEFORE, AFTER = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
TWO = replace(CONFIG, min_insync_replicas=2)


async def code_of(log: PartitionRuntime, value: bytes, **options: bool) -> ErrorCode:
    return (await append(log, batch_of(value), **options)).error_code


def replicas_of(log: PartitionRuntime) -> int:
    assert isinstance(log.state, Writing), log.state
    return log.state.replicas


def test_too_few_nodes_refuse_acks_all_and_take_the_rest() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(TWO).log()
        assert await code_of(log, b"a") is NONE
        world.lose_nodes(2)
        assert await code_of(log, b"b") is BEFORE
        assert await code_of(log, b"c") is BEFORE
        assert await code_of(log, b"d", is_internal=True) is BEFORE
        assert await code_of(log, b"e", is_acks_all=False) is NONE
        assert (log.high_watermark, log.log_end_offset) == (2, 2)
        assert [value for _, value in await read_all(log)] == [b"a", b"e"]

    virtual(main)


def test_one_node_less_is_enough_for_two() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(TWO).log()
        world.lose_nodes(1)
        assert [await code_of(log, bytes([n])) for n in range(20)] == [NONE] * 20
        assert replicas_of(log) == 2

    virtual(main)


def test_the_minimum_is_never_more_than_the_store_makes() -> None:
    """As Partition.effectiveMinIsr: on one node `min.insync.replicas=3` still means that one."""

    async def main() -> None:
        world = World(node_count=1)
        log = await world.owner(replace(CONFIG, min_insync_replicas=3)).log()
        assert await code_of(log, b"a") is NONE
        assert log.state.limits.replicas_min == 1

    virtual(main)


@pytest.mark.parametrize("is_acks_all", [True, False])
def test_what_a_mend_leaves_on_too_few_nodes_is_in_the_log_and_told_so(is_acks_all: bool) -> None:
    async def main() -> None:
        kept = 0
        for seed in range(12):
            world = World(seed, Faults(append_s=(0.001, 0.001), ack_timeout_s=1.0))
            log = await world.owner(TWO).log()
            world.lose_nodes(2, is_hung=True)
            results = [append(log, batch_of(b"%d" % n), is_acks_all=is_acks_all) for n in range(3)]
            await asyncio.sleep(0.5)
            assert log.high_watermark == 0
            answers = await asyncio.gather(*results)
            for offset, answer in enumerate(answers):
                if offset < log.high_watermark:
                    kept += 1
                    assert answer.error_code is (AFTER if is_acks_all else NONE)
                    assert answer.base_offset == offset
                else:
                    assert answer.error_code is BEFORE
            assert len(await read_all(log)) == log.high_watermark
        assert kept > 12

    virtual(main)


def test_a_repeated_batch_succeeds_when_the_store_has_put_it_on_enough_nodes() -> None:
    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=1.0))
        owner = world.owner(TWO)
        log = await owner.log()
        assert (await append(log, sequenced(0, b"a"))).error_code is NONE
        world.lose_nodes(2, is_hung=True)
        answer = await append(log, sequenced(1, b"b"))
        assert (answer.error_code, answer.base_offset) == (AFTER, 1)
        world.return_nodes()
        await asyncio.sleep(5)
        assert replicas_of(log) == 3
        again = await append(log, sequenced(1, b"b"))
        assert (again.error_code, again.base_offset) == (AFTER, 1), "its only copy is on one node"
        assert (await append(log, sequenced(1, b"b"), is_acks_all=False)).error_code is NONE
        assert (await append(log, sequenced(0, b"a"))).error_code is AFTER, "its file is the same"
        world.store.replicate()
        again = await append(log, sequenced(1, b"b"))
        assert (again.error_code, again.base_offset) == (NONE, 1)
        assert (await append(log, sequenced(2, b"c"))).base_offset == 2

    virtual(main)


def test_a_producer_does_not_pass_its_batch_that_is_not_safe_yet() -> None:
    """Only its last five batches are known: past them, the unsafe one sent again would be called out of order for ever."""

    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=1.0))
        log = await world.owner(TWO).log()
        world.lose_nodes(2, is_hung=True)
        assert (await append(log, sequenced(0, b"a"))).error_code is AFTER
        world.return_nodes()
        await asyncio.sleep(5)
        assert replicas_of(log) == 3
        for sequence in range(1, 10):
            assert (await append(log, sequenced(sequence, b"x"))).error_code is BEFORE
            assert (await append(log, sequenced(0, b"a"))).error_code is AFTER
        assert await code_of(log, b"somebody else's") is NONE
        assert (await append(log, sequenced(0, b"new life", producer_epoch=1))).error_code is NONE
        world.store.replicate()

    virtual(main)


def test_what_coordinators_write_for_a_producer_does_not_wait_for_its_unsafe_batches() -> None:
    """A marker, or an offset committed in a transaction: sent again it is written again, and nobody confirms the first."""

    def written(*values: bytes) -> bytearray:
        return batch_of(*values, producer_id=9, producer_epoch=0, is_transactional=True)

    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=1.0))
        log = await world.owner(TWO).log()
        world.lose_nodes(2, is_hung=True)
        assert (await append(log, sequenced(0, b"a"))).error_code is AFTER
        assert (await append(log, written(b"b"), is_internal=True)).error_code is BEFORE, (
            "there are no nodes for it yet"
        )
        world.return_nodes()
        await asyncio.sleep(5)
        assert (await append(log, sequenced(1, b"c"))).error_code is BEFORE, "a client's batch does"
        assert (await append(log, written(b"b"), is_internal=True)).error_code is NONE
        marker = encode_end_transaction_marker(
            EndTransactionMarker(ControlType.COMMIT, 0), producer_id=9, producer_epoch=0, timestamp_ms=0
        )
        assert (await append(log, marker, is_internal=True)).error_code is NONE

    virtual(main)


def test_a_producer_goes_on_when_its_batch_is_safe() -> None:
    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=1.0))
        log = await world.owner(TWO).log()
        world.lose_nodes(2, is_hung=True)
        assert (await append(log, sequenced(0, b"a"))).error_code is AFTER
        world.return_nodes()
        await asyncio.sleep(5)
        assert (await append(log, sequenced(1, b"b"))).error_code is BEFORE
        world.store.replicate()
        assert (await append(log, sequenced(0, b"a"))).error_code is NONE
        assert [(await append(log, sequenced(n, b"b"))).base_offset for n in (1, 2, 3)] == [1, 2, 3]
        assert not log.inspect().guard.tracker.unconfirmed and not log.inspect().guard.is_on

    virtual(main)


@pytest.mark.parametrize("is_resting", [False, True])
def test_a_new_producer_does_not_begin_behind_a_batch_refused_for_want_of_nodes(is_resting: bool) -> None:
    """Of a pipeline the first batches may be refused, and then a segment on enough nodes opens."""

    async def main() -> None:
        world = World(min_insync_retry_s=0.2)
        config = replace(TWO, segment_idle_close_ms=1_000) if is_resting else TWO
        log = await world.owner(config).log()
        if is_resting:
            await asyncio.sleep(5)
        assert isinstance(log.state, Idle if is_resting else Writing)
        world.lose_nodes(2)
        answers = await asyncio.gather(*(append(log, sequenced(n, b"%d" % n)) for n in range(2)))
        assert [answer.error_code for answer in answers] == [BEFORE] * 2
        world.return_nodes()
        await asyncio.sleep(1.5)
        assert replicas_of(log) == 3
        assert (await append(log, sequenced(2, b"2"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await code_of(log, b"somebody else's") is NONE
        assert [(await append(log, sequenced(n, b"%d" % n))).error_code for n in range(3)] == [NONE] * 3
        assert [value for _, value in await read_all(log)] == [b"somebody else's", b"0", b"1", b"2"]

    virtual(main)


def test_a_new_owner_does_not_call_a_batch_safe_that_lies_on_one_node() -> None:
    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=100.0))
        owner = world.owner(TWO)
        log = await owner.log()
        world.lose_nodes(2, is_hung=True)
        append(log, sequenced(0, b"a"))
        await asyncio.sleep(0.1)
        owner.kill()
        log = await world.owner(TWO).log()
        assert log.high_watermark == 1
        world.return_nodes()
        await asyncio.sleep(1)
        assert (await append(log, sequenced(0, b"a"))).error_code in (BEFORE, AFTER)
        await asyncio.sleep(5)
        assert (await append(log, sequenced(0, b"a"))).error_code is AFTER
        world.store.replicate()
        answer = await append(log, sequenced(0, b"a"))
        assert (answer.error_code, answer.base_offset) == (NONE, 0)

    virtual(main)


def test_a_refusing_partition_recovers_by_itself_when_the_nodes_return() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(TWO)
        log = await owner.log()
        world.lose_nodes(2)
        assert await code_of(log, b"a") is BEFORE
        await asyncio.sleep(30)
        assert await code_of(log, b"b") is BEFORE
        world.return_nodes()
        await asyncio.sleep(4)
        assert (replicas_of(log), log.log_end_offset) == (3, 0)
        assert await code_of(log, b"c") is NONE
        await asyncio.sleep(1)
        segments = [path for path in world.store.files() if path.endswith(".log")]
        assert world.open_files() == segments and len(segments) == 1, "a discarded segment is gone, and not open"
        assert len(await read_from_store(owner)) == 1

    virtual(main)


def test_full_replication_comes_back_under_load_without_a_stall_or_small_files() -> None:
    async def main() -> None:
        world = World(0, Faults(request_s=(0.2, 0.2)))
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"first")
        world.lose_nodes(1)
        await produce(log, b"second")
        assert replicas_of(log) == 2
        loop, slowest_s = asyncio.get_running_loop(), 0.0
        for number in range(2_000):
            if number == 1_200:
                segments = sum(path.endswith(".log") for path in world.store.files())
                assert segments <= 4, "files pile up while a node is away"
                assert replicas_of(log) == 2
                world.return_nodes()
            began_s = loop.time()
            await produce(log, b"x")
            slowest_s = max(slowest_s, loop.time() - began_s)
            await asyncio.sleep(0.05)
        assert replicas_of(log) == 3
        assert slowest_s < 0.1, "an append waited for a file to be made"
        await asyncio.sleep(1)
        assert len(world.open_files()) == 1
        assert len(await read_from_store(owner)) == 2_002

    virtual(main)


def test_rolling_a_full_segment_over_a_slow_store_stalls_no_append() -> None:
    """The next segment is open before it is needed; closing the full one and writing its index go on beside."""

    async def main() -> None:
        world = World(0, Faults(request_s=(0.3, 0.3)))
        owner = world.owner(replace(CONFIG, segment_bytes=20_000))
        log = await owner.log()
        loop, slowest_s = asyncio.get_running_loop(), 0.0
        for _ in range(600):
            began_s = loop.time()
            await produce(log, b"x" * 400)
            slowest_s = max(slowest_s, loop.time() - began_s)
            await asyncio.sleep(0.2)
        assert owner.manager.counts.rolls > 10
        assert slowest_s < 0.1
        await asyncio.sleep(120)
        assert isinstance(log.state, Idle) and not world.open_files()

    virtual(main)


def test_nodes_are_looked_for_seldom_while_nothing_is_written() -> None:
    """The metadata log may rest for days; until its segment is replaced, the loss of its other nodes would lose it."""

    async def main() -> None:
        world = World(quiet_replicas_retry_s=1_000.0)
        log = await world.owner(replace(CONFIG, segment_idle_close_ms=10**9)).log()
        assert not log.is_under_replicated
        world.lose_nodes(1)
        await produce(log, b"x")
        assert log.is_under_replicated
        await asyncio.sleep(30)
        made = world.store.counts.short_files
        await asyncio.sleep(600)
        assert world.store.counts.short_files == made
        world.return_nodes()
        assert replicas_of(log) == 2 and log.is_under_replicated
        await asyncio.sleep(400)
        assert replicas_of(log) == 3 and not log.is_under_replicated
        assert [value for _, value in await read_all(log)] == [b"x"]

    virtual(main)


def test_a_refused_partition_rests_when_nobody_asks_any_more() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(TWO).log()
        world.lose_nodes(2)
        assert await code_of(log, b"x") is BEFORE
        await asyncio.sleep(120)
        assert isinstance(log.state, Idle) and not world.open_files()
        assert await code_of(log, b"x") is BEFORE
        world.return_nodes()
        await asyncio.sleep(4)
        assert await code_of(log, b"y") is NONE

    virtual(main)


def test_a_minimum_that_is_raised_holds_at_once() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        world.lose_nodes(2)
        assert await code_of(log, b"a") is NONE
        log.update_config(TWO)
        assert await code_of(log, b"b") is BEFORE
        log.update_config(CONFIG)
        assert await code_of(log, b"c") is NONE

    virtual(main)


@pytest.mark.parametrize("are_nodes_gone", [False, True])
def test_produces_wait_for_a_store_that_is_away(are_nodes_gone: bool) -> None:
    async def main() -> None:
        world = World(append_bytes_max=10_000)
        owner = world.owner(replace(CONFIG, segment_idle_close_ms=1_000))
        log = await owner.log()
        await produce(log, b"a")
        await asyncio.sleep(5)
        assert isinstance(log.state, Idle)
        _cut_off(world, are_nodes_gone)
        waiting = [append(log, sequenced(n, b"%d" % n)) for n in range(5)]
        await asyncio.sleep(20)
        assert not any(answer.done() for answer in waiting)
        assert isinstance(log.state, AwaitingSegment)
        _bring_back(world)
        answers = await asyncio.gather(*waiting)
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(NONE, n) for n in range(1, 6)]
        assert owner.manager.budget.bytes_used == 0

    virtual(main)


@pytest.mark.parametrize("are_nodes_gone", [False, True])
def test_who_waited_too_long_is_refused_retriably_and_its_memory_given_back(are_nodes_gone: bool) -> None:
    async def main() -> None:
        world = World(append_bytes_max=1_000)
        owner = world.owner(replace(CONFIG, segment_idle_close_ms=1_000))
        log = await owner.log()
        await produce(log, b"a")
        await asyncio.sleep(5)
        _cut_off(world, are_nodes_gone)
        waiting = [append(log, batch_of(b"x" * 100)) for _ in range(20)]
        await asyncio.sleep(1)
        refused = [answer.result().error_code for answer in waiting if answer.done()]
        assert refused and set(refused) == {ErrorCode.REQUEST_TIMED_OUT}, "what waits is bounded"
        assert owner.manager.budget.bytes_used <= 2_000
        await asyncio.sleep(35)
        codes = {answer.result().error_code for answer in waiting}
        assert codes == {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR}
        assert owner.manager.budget.bytes_used == 0
        late = append(log, sequenced(0, b"again"))
        await asyncio.sleep(20)
        assert not late.done()
        _bring_back(world)
        assert (await late).base_offset == 1

    virtual(main)


def test_while_a_mend_waits_for_the_store_only_what_was_not_written_is_refused() -> None:
    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=0.1), storage_wait_max_s=5.0)
        log = await world.owner().log()
        world.lose_nodes(3, is_hung=True)
        written = append(log, batch_of(b"a"))
        await asyncio.sleep(1)
        assert isinstance(log.state, Mending)
        waiting = append(log, batch_of(b"b"))
        assert (await waiting).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert not written.done(), "nobody knows what became of it"
        world.return_nodes()
        answer = await written
        assert (answer.error_code, answer.base_offset) == (NONE, 0)
        assert [value for _, value in await read_all(log)] == [b"a"]

    virtual(main)


def test_of_a_batch_that_is_sent_again_and_again_only_the_newest_wait() -> None:
    """Each waiting one holds on to its whole request, for as long as the store does not answer."""

    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=0.1), storage_wait_max_s=5.0)
        log = await world.owner().log()
        world.lose_nodes(3, is_hung=True)
        sent = [append(log, sequenced(0, b"a")) for _ in range(50)]
        await asyncio.sleep(1)
        assert isinstance(log.state, Mending)
        assert [answer.done() for answer in sent] == [False] + [True] * (49 - FOLLOWERS_MAX) + [False] * FOLLOWERS_MAX
        assert {(await answer).error_code for answer in sent if answer.done()} == {ErrorCode.REQUEST_TIMED_OUT}
        world.return_nodes()
        late = [await answer for answer in sent[:1] + sent[-FOLLOWERS_MAX:]]
        assert {(answer.error_code, answer.base_offset) for answer in late} == {(NONE, 0)}
        assert [value for _, value in await read_all(log)] == [b"a"]

    virtual(main)


def test_unconfirmed_batches_of_producers_that_never_come_again_are_forgotten() -> None:
    def header(producer_id: int) -> BatchHeader:
        return BatchHeader.parse(batch_of(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0))

    async def main() -> None:
        tracker = MinInsyncTracker(World().owner().manager.context)
        for number in range(100):
            tracker.note_unconfirmed(header(number), 10 + number, float(number))
        tracker.note_unconfirmed(header(0), 500, 150.0)
        tracker.forget_expired(UNCONFIRMED_S_MAX + 98.5)
        assert list(tracker.unconfirmed) == [99, 0]
        tracker.forget_expired(UNCONFIRMED_S_MAX + 150)
        assert tracker.unconfirmed == {}

    virtual(main)


def test_a_segment_thrown_away_is_removed_even_if_the_store_is_away_at_first() -> None:
    async def main() -> None:
        world = World()
        config = replace(CONFIG, segment_bytes=1_000, segment_idle_close_ms=2_000)
        log = await world.owner(config).log()
        await produce(log, b"x" * 800)
        await asyncio.sleep(0.1)
        assert len(world.open_files()) == 2, "the next one is opened ahead of need"
        world.store.faults.unavailable_rate = 1.0
        await asyncio.sleep(20)
        assert isinstance(log.state, Idle)
        world.store.faults.unavailable_rate = 0.0
        await asyncio.sleep(10)
        assert world.open_files() == []
        assert sum(path.endswith(".log") for path in world.store.files()) == 1

    virtual(main)


def _cut_off(world: World, are_nodes_gone: bool) -> None:
    if are_nodes_gone:
        world.lose_nodes(3)
    else:
        world.store.faults.unavailable_rate = 1.0


def _bring_back(world: World) -> None:
    world.return_nodes()
    world.store.faults.unavailable_rate = 0.0
