"""The partition runtime over the fake store: the write path, reads, rolling, idling, stopping."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace

import pytest

from bmq.broker.manifest_changes import SNAPSHOT_ROLL_BYTES_MIN
from bmq.broker.partition_states import Idle, Writing
from bmq.broker.upkeep import REST_S_MAX
from bmq.log.config import LogConfig
from bmq.log.names import partition_directory
from bmq.log.partition_log import AppendResult, StateSnapshot, TopicPartition
from bmq.log.producer_state import ProducerStates
from bmq.log.refused_sequences import FORGOTTEN_S, STEP_S_MAX
from bmq.log.store import FencedWriter
from bmq.log.transactions import TransactionClaim
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_produce import RecordError
from bmq.protocol.record_batch import CONTROL, HEADER_BYTES, TRANSACTIONAL, assemble_batch
from tests.fakes.store import Faults
from tests.support.produced_batch import produced_batch
from tests.unit.broker.world import (
    CONFIG,
    KEY,
    World,
    append,
    batch_of,
    header_of,
    produce,
    read_all,
    read_from_store,
    sequenced,
    virtual,
)

pytestmark = pytest.mark.unit


def test_what_is_produced_is_read_back() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        assert await produce(log, b"a", b"b") == 0
        assert await produce(log, b"c") == 2
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_stable_offset) == (0, 3, 3, 3)
        views = log.tail_read(1, 10_000, 3)
        assert views is not None and [header_of(view).base_offset for view in views] == [0, 2]
        assert {header_of(view).leader_epoch for view in views} == {1}
        assert log.tail_read(3, 10_000, 3) == ()
        assert await read_all(log) == await read_from_store(owner) == [(0, b"a"), (1, b"b"), (2, b"c")]
        location = await log.locate(2)
        assert location.end_offset == 3 and not location.is_closed
        assert log.epoch_end_offset(1) == (1, 3)
        now_ms = world.clock.now_ms()
        assert await log.offset_for_timestamp(now_ms, 3) == (0, now_ms)
        assert await log.offset_for_timestamp(now_ms + 1, 3) is None
        assert await log.max_timestamp() == (0, now_ms)
        await log.prove_ownership()
        await owner.manager.close()

    virtual(main)


def test_a_refusal_names_the_records_at_fault_and_the_log_start() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        await produce(log, b"a", b"b")
        await log.delete_records(1)
        log.update_config(replace(CONFIG, cleanup_policy=frozenset({"compact"})))
        result = await append(log, encode_batch([Record(b"k", b"v"), Record(None, b"v")]))
        assert (result.error_code, result.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert result.log_start_offset == 1
        text = "Compacted topic cannot accept message without key in topic partition topic-0"
        assert result.record_errors == (RecordError(1, text),)
        assert result.message is not None and "due to 1 record errors in total" in result.message
        await owner.manager.close()

    virtual(main)


def test_one_iterations_batches_are_one_append() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        results = [append(log, batch_of(b"%d" % number)) for number in range(10)]
        answers = await asyncio.gather(*results)
        assert [answer.base_offset for answer in answers] == list(range(10))
        assert owner.manager.counts.appends == 1
        assert owner.manager.budget.bytes_used == 0
        await owner.manager.close()

    virtual(main)


def test_while_others_append_what_comes_behind_an_own_append_shares_the_next() -> None:
    async def main() -> None:
        owner = World(faults=Faults(append_s=(0.01, 0.01)), appends_outstanding_max=1).owner()
        other_key = TopicPartition(KEY.topic_id, 1)
        await owner.client.make_directories(partition_directory(other_key))
        owner.manager.assign(other_key, 1, "topic", CONFIG, 0)
        log, other = await owner.log(), await owner.manager.leader_of(other_key)
        assert owner.manager.counts.appends == 0
        results = [append(other, batch_of(b"elsewhere"))]
        for number in range(5):
            results.append(append(log, batch_of(b"%d" % number)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        answers = await asyncio.gather(*results)
        assert [answer.base_offset for answer in answers] == [0, *range(5)]
        # One elsewhere, one with the first batch though that was on its way, one with all that came behind it.
        assert owner.manager.counts.appends == 3
        assert owner.manager.context.turns.outstanding == 0
        await owner.manager.close()

    virtual(main)


def test_an_append_that_fails_is_not_on_its_way_any_more() -> None:
    async def main() -> None:
        owner = World(faults=Faults(append_s=(0.01, 0.01))).owner()
        log = await owner.log()
        result = append(log, batch_of(b"a"))
        await asyncio.sleep(0.001)
        assert owner.manager.context.turns.outstanding == 1
        owner.client.writers[0].break_off()
        assert (await result).base_offset == 0
        assert owner.manager.counts.mends == 1
        assert owner.manager.context.turns.outstanding == 0
        await owner.manager.close()

    virtual(main)


def test_callbacks_may_append_and_waiters_wake_once() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        woken: list[int] = []
        log.on_advance(lambda: woken.append(log.high_watermark))
        log.on_advance(lambda: woken.append(-1))()
        second: list[asyncio.Future[object]] = []
        first = asyncio.get_running_loop().create_future()

        def done(_: object) -> None:
            second.append(append(log, batch_of(b"2")))  # type: ignore[arg-type]
            first.set_result(None)

        log.append(produced_batch(log.topic_partition, memoryview(batch_of(b"1")), done))
        await first
        await second[0]
        assert woken == [1]
        assert [value for _, value in await read_all(log)] == [b"1", b"2"]
        await owner.manager.close()

    virtual(main)


def test_a_refused_batch_leaves_nothing() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        broken = batch_of(b"a")
        broken[-1] ^= 1
        assert (await append(log, broken)).error_code is ErrorCode.CORRUPT_MESSAGE
        marker = encode_end_transaction_marker(
            EndTransactionMarker(ControlType.COMMIT, 0), producer_id=9, producer_epoch=0, timestamp_ms=0
        )
        assert (await append(log, marker)).error_code is ErrorCode.INVALID_RECORD
        transactional = batch_of(b"a", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
        claim = TransactionClaim("tx")
        assert (await append(log, transactional, claim=claim)).error_code is ErrorCode.INVALID_TXN_STATE
        # What the log itself refuses comes with its start, as in Kafka; what is no batch at all does not.
        starts = [(await append(log, data)).log_start_offset for data in (broken, marker, batch_of(b"a") * 2)]
        assert starts == [-1, 0, -1]
        assert log.log_end_offset == 0 and owner.manager.budget.bytes_used == 0
        await owner.manager.close()

    virtual(main)


def test_log_append_time_is_told_and_kept() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, message_timestamp_type_is_append_time=True))
        log = await owner.log()
        world.clock.advance(500)
        result = await append(log, batch_of(b"a"))
        assert result.log_append_time_ms == world.clock.now_ms()
        assert await log.max_timestamp() == (0, world.clock.now_ms())
        first = await append(log, sequenced(0, b"b"))
        world.clock.advance(500)
        assert await append(log, sequenced(0, b"b")) == first
        await owner.manager.close()

    virtual(main)


def test_the_budget_bounds_what_is_on_its_way() -> None:
    async def main() -> None:
        owner = World(append_bytes_max=300).owner()
        log = await owner.log()
        results = [append(log, batch_of(b"x" * 100)) for _ in range(10)]
        answers = await asyncio.gather(*results)
        codes = [answer.error_code for answer in answers]
        taken = codes.count(ErrorCode.NONE)
        assert 2 <= taken < 10 and codes == [ErrorCode.NONE] * taken + [ErrorCode.REQUEST_TIMED_OUT] * (10 - taken)
        assert owner.manager.budget.bytes_used == 0
        assert await produce(log, b"y") == taken
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CORRUPT_MESSAGE])
def test_an_unknown_producer_does_not_begin_behind_its_refused_batch(code: ErrorCode) -> None:
    """Its second batch would be taken for its first, and the first, sent again, would be out of order for good."""

    async def main() -> None:
        owner = World(append_bytes_max=300).owner()
        log = await owner.log()
        first, damaged = sequenced(0, b"first"), sequenced(0, b"first")
        damaged[-1] ^= 1
        others = []
        if code is ErrorCode.REQUEST_TIMED_OUT:
            others = [append(log, batch_of(b"x" * 700))]
        refused = await append(log, damaged if code is ErrorCode.CORRUPT_MESSAGE else first)
        assert refused.error_code is code
        await asyncio.gather(*others)
        assert owner.manager.budget.bytes_used == 0
        behind = await append(log, sequenced(1, b"second"))
        assert behind.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and log.log_end_offset == len(others)
        values = [await append(log, first), await append(log, sequenced(1, b"second"))]
        assert [answer.error_code for answer in values] == [ErrorCode.NONE] * 2
        assert [value for _, value in await read_all(log)][-2:] == [b"first", b"second"]
        await owner.manager.close()

    virtual(main)


def test_an_unknown_producer_begins_anywhere_when_the_refused_batch_is_given_up() -> None:
    async def main() -> None:
        owner = World(append_bytes_max=300).owner()
        log = await owner.log()
        other = append(log, batch_of(b"x" * 700))
        assert (await append(log, sequenced(5, b"a"))).error_code is ErrorCode.REQUEST_TIMED_OUT
        await other
        assert (await append(log, sequenced(6, b"b"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        tries = 0
        while (await append(log, sequenced(7, b"c"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            tries += 1
            await asyncio.sleep(STEP_S_MAX)
        assert tries == FORGOTTEN_S / STEP_S_MAX and log.log_end_offset == 2
        await owner.manager.close()

    virtual(main)


def test_several_batches_of_the_server_itself_share_one_answer() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        await produce(log, b"0")
        result = await append(log, batch_of(b"1", b"2") + batch_of(b"3"), is_internal=True)
        assert (result.error_code, result.base_offset, log.high_watermark) == (ErrorCode.NONE, 1, 4)
        await owner.manager.close()

    virtual(main)


class Caller:
    """Whoever appends, and all that it holds on to."""

    def __init__(self) -> None:
        self.result: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()

    def __call__(self, answer: AppendResult) -> None:
        self.result.set_result(answer)


@pytest.mark.parametrize(("batch_count", "is_internal"), [(1, False), (1, True), (2, True)])
def test_nothing_of_an_answered_append_is_left_to_the_collector(batch_count: int, is_internal: bool) -> None:
    """Cycles among them would make the collector go through 100,000 objects in one turn, every second or so."""

    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        caller = Caller()
        result = caller.result
        gone = weakref.ref(caller)
        records = memoryview(bytearray(batch_of(b"1") * batch_count))
        log.append(produced_batch(log.topic_partition, records, caller, is_internal=is_internal))
        del records
        del caller
        assert (await result).error_code is ErrorCode.NONE
        for _ in range(3):  # turns: the store's own callbacks end
            await asyncio.sleep(0)
        assert gone() is None
        await owner.manager.close()

    gc.disable()
    try:
        virtual(main)
    finally:
        gc.enable()


def test_transactions_bound_the_last_stable_offset() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        batch = batch_of(b"a", producer_id=9, producer_epoch=0, base_sequence=-1, is_transactional=True)
        assert (await append(log, batch, is_internal=True)).error_code is ErrorCode.NONE
        await produce(log, b"b")
        assert (log.last_stable_offset, log.high_watermark) == (0, 2)
        marker = encode_end_transaction_marker(
            EndTransactionMarker(ControlType.ABORT, 0), producer_id=9, producer_epoch=0, timestamp_ms=0
        )
        assert (await append(log, marker, is_internal=True)).base_offset == 2
        assert (log.last_stable_offset, log.high_watermark) == (3, 3)
        assert [(entry.producer_id, entry.first_offset) for entry in log.aborted_transactions(0, 3)] == [(9, 0)]
        await owner.manager.close()

    virtual(main)


def test_a_duplicate_is_answered_with_the_first_offset() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"before")
        first, again = append(log, sequenced(0, b"a", b"b")), append(log, sequenced(0, b"a", b"b"))
        following = append(log, sequenced(2, b"c"))
        assert not again.done()
        answers = await asyncio.gather(first, again, following, append(log, sequenced(9, b"z")))
        assert [answer.base_offset for answer in answers] == [1, 1, 3, -1]
        assert answers[3].error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await append(log, sequenced(2, b"c"))).base_offset == 3
        assert (await append(log, sequenced(0, b"d", producer_epoch=1))).base_offset == 4
        assert (await append(log, sequenced(3, b"e"))).error_code is ErrorCode.INVALID_PRODUCER_EPOCH
        owner.kill()
        log = await world.owner().log()
        assert (await append(log, sequenced(0, b"d", producer_epoch=1))).base_offset == 4
        assert (await append(log, sequenced(1, b"f", producer_epoch=1))).base_offset == 5

    virtual(main)


def test_rolling_keeps_everything_readable_and_indexed() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_bytes=1500))
        log = await owner.log()
        expected = []
        for round_number in range(10):
            values = [b"%d-%d" % (round_number, number) * 20 for number in range(8)]
            answers = await asyncio.gather(*(append(log, batch_of(value)) for value in values))
            expected += [(answer.base_offset, value) for answer, value in zip(answers, values, strict=True)]
        assert [offset for offset, _ in expected] == list(range(80))
        assert await read_from_store(owner) == expected
        await owner.manager.close()
        files = world.store.files()
        logs = [path for path in files if path.endswith(".log")]
        assert len(logs) >= 8
        assert all(len(files[path]) <= 1500 for path in logs)
        assert {path[:-4] for path in logs if files[path]} == {path[:-6] for path in files if path.endswith(".index")}
        after = world.owner()
        assert await read_from_store(after) == expected
        log = await after.log()
        recovered = log.inspect().start.recovered
        assert recovered is not None and recovered.scanned_bytes == 0
        assert not log.inspect().start.open_files
        await after.manager.close()

    virtual(main)


def test_an_idle_segment_is_closed_and_the_next_produce_opens_another() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_idle_close_ms=5_000))
        log = await owner.log()
        await produce(log, b"a")
        await asyncio.sleep(8)
        assert isinstance(log.state, Idle)
        assert owner.manager.ready(KEY) is log
        await log.prove_ownership()
        assert await read_from_store(owner) == [(0, b"a")]
        assert (await log.locate(0)).is_closed
        assert await produce(log, b"b") == 1
        assert isinstance(log.state, Writing)
        await asyncio.sleep(8)
        assert await read_from_store(owner) == [(0, b"a"), (1, b"b")]
        await owner.manager.close()
        assert not [path for path, data in world.store.files().items() if path.endswith(".log") and not data]

    virtual(main)


def test_a_proof_survives_that_its_empty_segment_is_given_up() -> None:
    """The writer says "abandoned", which is no news of another owner: a look at the own directory decides."""

    async def main() -> None:
        world = World()
        faults = world.store.faults
        owner = world.owner(replace(CONFIG, segment_idle_close_ms=5_000))
        log = await owner.log()
        await asyncio.sleep(4.9)
        assert isinstance(log.state, Writing)
        faults.request_s = (1.0, 1.0)
        proof = asyncio.ensure_future(log.prove_ownership())
        await asyncio.sleep(0.01)  # it is on its way
        faults.request_s = (0.0, 0.0)
        faults.late_call_rate = 1.0  # the empty segment's close is given up, and so is its writer
        await asyncio.sleep(0.5)
        faults.late_call_rate = 0.0
        assert isinstance(log.state, Idle) and not proof.done()
        await proof
        assert isinstance(log.state, Idle)
        assert await produce(log, b"a") == 0
        await owner.manager.close()

    virtual(main)


def test_a_segment_rolls_by_age() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_ms=60_000))
        log = await owner.log()
        await produce(log, b"a")
        world.clock.advance(61_000)
        await asyncio.sleep(3)
        await produce(log, b"b")
        assert isinstance(log.state, Writing) and log.state.segment.roll == 1
        assert await read_from_store(owner) == [(0, b"a"), (1, b"b")]
        await owner.manager.close()

    virtual(main)


def test_transactions_of_old_records_roll_once() -> None:
    """A backfill: each marker has the present time, so each segment would span more than segment.ms."""

    async def main() -> None:
        world = World()
        owner = world.owner(CONFIG)
        log = await owner.log()
        old_ms = world.clock.now_ms() - 30 * 24 * 3600 * 1000
        for number in range(25):
            records = [Record(None, b"old", timestamp_ms=old_ms)]
            data = encode_batch(
                records, producer_id=9, producer_epoch=0, base_sequence=number, attributes=TRANSACTIONAL
            )
            assert (await append(log, data, is_internal=True)).error_code is ErrorCode.NONE
            marker = EndTransactionMarker(ControlType.COMMIT, 0)
            now_ms = world.clock.now_ms()
            data = encode_end_transaction_marker(marker, producer_id=9, producer_epoch=0, timestamp_ms=now_ms)
            assert (await append(log, data, is_internal=True)).error_code is ErrorCode.NONE
            await asyncio.sleep(3)
        assert isinstance(log.state, Writing) and log.state.segment.roll == 1
        assert len(await read_from_store(owner)) == 50
        await owner.manager.close()

    virtual(main)


def test_upkeep_rests_and_still_sees_a_clock_that_was_set() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_ms=60_000))
        log = await owner.log()
        await produce(log, b"a")
        await asyncio.sleep(2)
        now_s = asyncio.get_running_loop().time()
        assert 1 < log.upkeep_due_s - now_s <= REST_S_MAX
        world.clock.advance(61_000)
        await asyncio.sleep(REST_S_MAX + 1)
        assert isinstance(log.state, Writing) and log.state.segment.roll == 1
        await asyncio.sleep(2)
        assert log.upkeep_due_s > asyncio.get_running_loop().time()
        await produce(log, b"b")
        assert log.upkeep_due_s == 0.0, "an event may make something due"
        await owner.manager.close()

    virtual(main)


def test_retention_drops_old_segments_and_their_files() -> None:
    async def main() -> None:
        world = World(retention_check_interval_ms=10_000)
        config = replace(CONFIG, segment_bytes=200, retention_ms=30_000, file_delete_delay_ms=1_000)
        owner = world.owner(config)
        log = await owner.log()
        for number in range(6):
            await produce(log, b"%d" % number * 100)
        world.clock.advance(31_000)
        await asyncio.sleep(15)
        assert log.log_start_offset == 6 == log.high_watermark
        assert log.tail_read(0, 1000, 6) is None
        with pytest.raises(KafkaError) as caught:
            await log.read(0, 1000)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        await asyncio.sleep(5)
        assert not [path for path in world.store.files() if "00000000.log" in path]
        await owner.manager.close()
        log = await world.owner(config).log()
        assert (log.log_start_offset, log.high_watermark) == (6, 6)

    virtual(main)


def test_records_are_deleted_on_request() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        for number in range(5):
            await produce(log, b"%d" % number)
        assert await log.delete_records(3) == 3
        assert await log.delete_records(1) == 3
        assert await read_all(log) == [(3, b"3"), (4, b"4")]
        for offset in (6, -2):
            with pytest.raises(KafkaError) as caught:
                await log.delete_records(offset)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        owner.kill()
        after = world.owner()
        assert await read_from_store(after) == [(3, b"3"), (4, b"4")]
        assert await (await after.log()).delete_records(-1) == 5
        assert await read_from_store(after) == []

    virtual(main)


def test_a_snapshot_replaces_what_lies_before_it() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_bytes=200))
        log = await owner.log()
        assert await log.latest_snapshot() is None
        for number in range(6):
            await produce(log, b"%d" % number * 100)
        await log.save_snapshot(StateSnapshot(4, b"state"))
        assert await log.latest_snapshot() == StateSnapshot(4, b"state")
        with pytest.raises(KafkaError):
            await log.save_snapshot(StateSnapshot(7, b"state"))
        owner.kill()
        log = await world.owner().log()
        assert await log.latest_snapshot() == StateSnapshot(4, b"state")
        assert log.log_start_offset > 0
        chunk = await log.read(4, 10_000)
        assert chunk is not None and chunk.base_offset == 4

    virtual(main)


def test_a_snapshot_of_a_long_log_leaves_little_to_walk() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_bytes=16 * 1024 * 1024))
        log = await owner.log()
        small, large = b"s" * 1000, b"l" * (SNAPSHOT_ROLL_BYTES_MIN // 3)
        await produce(log, small)
        await log.save_snapshot(StateSnapshot(1, b"small"))
        assert isinstance(log.state, Writing) and log.state.segment.roll == 0
        for _ in range(3):
            await produce(log, large)
        await log.save_snapshot(StateSnapshot(4, b"state"))
        await asyncio.sleep(1)
        await produce(log, small)
        assert isinstance(log.state, Writing) and log.state.segment.roll == 1
        await asyncio.sleep(1)
        owner.kill()
        log = await world.owner().log()
        assert log.inspect().start.recovered is not None
        recovered = log.inspect().start.recovered
        assert recovered is not None and 0 < recovered.scanned_bytes < 2 * len(small)
        assert await log.latest_snapshot() == StateSnapshot(4, b"state")
        assert log.log_start_offset == 0  # the next snapshot drops what was closed behind the last one
        await log.save_snapshot(StateSnapshot(4, b"state again"))
        assert log.log_start_offset == 4
        chunk = await log.read(4, 10_000)
        assert chunk is not None and chunk.base_offset == 4

    virtual(main)


def test_settings_may_change_while_it_writes() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        await produce(log, b"a" * 100)
        owner.manager.update_config(KEY, LogConfig(segment_bytes=300, max_message_bytes=200))
        for _ in range(3):
            await produce(log, b"a" * 100)
        assert isinstance(log.state, Writing) and log.state.segment.roll >= 1
        assert (await append(log, batch_of(b"a" * 200))).error_code is ErrorCode.MESSAGE_TOO_LARGE
        await owner.manager.close()

    virtual(main)


def test_a_batch_that_is_in_the_log_is_not_too_large_later() -> None:
    """Its answer was lost, and the limit was lowered: refused, it would be sent in parts, and they are out of order for good."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        assert (await append(log, sequenced(0, b"a" * 200, b"b" * 200))).base_offset == 0
        owner.manager.update_config(KEY, LogConfig(max_message_bytes=200))
        again = await append(log, sequenced(0, b"a" * 200, b"b" * 200))
        assert (again.error_code, again.base_offset, log.high_watermark) == (ErrorCode.NONE, 0, 2)
        for larger in (
            sequenced(0, b"a" * 400),  # other sequences
            sequenced(2, b"c" * 400),
            sequenced(0, b"a" * 200, b"b" * 200, producer_epoch=1),
            batch_of(b"a" * 400),
        ):
            assert (await append(log, larger)).error_code is ErrorCode.MESSAGE_TOO_LARGE
        assert (await append(log, sequenced(2, b"c"))).base_offset == 2
        await owner.manager.close()

    virtual(main)


def test_a_batch_that_is_too_large_is_known_again_only_if_it_is_valid() -> None:
    """Its size is refused before anything else of it is looked at."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        large = sequenced(0, b"a" * 200, b"b" * 200)
        assert (await append(log, large)).base_offset == 0
        unsequenced = batch_of(b"c" * 400, producer_id=8, producer_epoch=0, base_sequence=-1)
        assert (await append(log, unsequenced, is_internal=True)).base_offset == 2
        owner.manager.update_config(KEY, LogConfig(max_message_bytes=200))
        damaged = bytearray(large)
        damaged[-1] ^= 1
        whole = header_of(memoryview(large))
        control = assemble_batch(whole._replace(attributes=whole.attributes | CONTROL), large[HEADER_BYTES:])
        for refused in (damaged, control, unsequenced):
            assert (await append(log, refused)).error_code is ErrorCode.MESSAGE_TOO_LARGE
        assert (await append(log, large)).base_offset == 0
        await owner.manager.close()

    virtual(main)


def test_a_batch_whose_check_fails_behind_its_size_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        assert (await append(log, sequenced(0, b"a" * 200))).base_offset == 0
        owner.manager.update_config(KEY, LogConfig(max_message_bytes=200))
        with monkeypatch.context() as patch:
            patch.setattr(ProducerStates, "check", lambda *_: 1 // 0)
            refused = await append(log, sequenced(0, b"a" * 200))
        assert refused.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await append(log, sequenced(1, b"b"))).base_offset == 1
        await owner.manager.close()

    virtual(main)


def test_after_the_end_nothing_is_served() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"a")
        pending = append(log, batch_of(b"b"))
        await owner.manager.close()
        assert (await pending).error_code is ErrorCode.NONE
        assert (await append(log, batch_of(b"c"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for call in (log.locate(0), log.read(0, 100), log.max_timestamp(), log.delete_records(0)):
            with pytest.raises(KafkaError) as caught:
                await call
            assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(FencedWriter):
            await log.prove_ownership()
        assert await read_from_store(world.owner()) == [(0, b"a"), (1, b"b")]

    virtual(main)


def test_while_it_hands_over_a_producer_is_told_of_the_move_and_of_nothing_else() -> None:
    """Else the batch behind a refused one would be out of order, which ends an idempotent producer for good."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        assert (await append(log, sequenced(0, b"a"))).base_offset == 0
        pending = append(log, sequenced(1, b"b"))
        leaving = asyncio.ensure_future(owner.manager.unassign(KEY))
        await asyncio.sleep(0)
        refused = []
        while not leaving.done():
            refused += [append(log, sequenced(2, b"c")), append(log, sequenced(3, b"d"))]
            await asyncio.sleep(0)
        assert (await pending).base_offset == 1
        answers = {(await answer).error_code for answer in refused}
        assert len(refused) > 2 and answers == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        log = await world.owner().log()
        assert (await append(log, sequenced(2, b"c"))).base_offset == 2
        await owner.manager.close()

    virtual(main)


def test_an_owner_that_was_replaced_does_not_call_a_sequence_out_of_order() -> None:
    async def main() -> None:
        world = World()
        zombie = await world.owner().log()
        await append(zombie, sequenced(0, b"a"))
        owner = world.owner()
        log = await owner.log()
        await append(log, sequenced(1, b"b"))
        late = await append(zombie, sequenced(2, b"c"))
        assert late.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await append(log, sequenced(2, b"c"))).base_offset == 2
        await owner.manager.close()

    virtual(main)
