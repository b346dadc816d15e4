"""A state machine's log: records are applied once they are durable, in order, and the same ones after a restart."""

from __future__ import annotations

import ast
import asyncio
from math import inf
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log import state_log
from bmq.log.partition_log import TopicPartition
from bmq.log.state_log import KeyValue, SnapshotPolicy, StateLog
from bmq.log.store import FencedWriter
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit


class Table:
    """The simplest state machine: a dict, and the history of what was applied."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.history: list[tuple[bytes | None, bytes | None]] = []

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        assert key is not None
        self.history.append((key, value))
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def encode(self) -> bytes:
        return repr(sorted(self.rows.items())).encode()

    def decode(self, data: bytes) -> None:
        self.rows = dict(ast.literal_eval(data.decode()))


def make_log() -> FakePartitionLog:
    return FakePartitionLog(TopicPartition(UUID(int=1), 0))


async def open_table(log: FakePartitionLog, policy: SnapshotPolicy | None = None) -> tuple[StateLog, Table, int]:
    table = Table()
    state = StateLog(log, FakeClock(), policy)
    replayed = await state.replay(table.apply, table.decode)
    return state, table, replayed


async def test_records_are_applied_only_when_durable() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.is_acknowledging = False
    done = state.append([(b"a", b"1"), (b"b", b"2")])
    await asyncio.sleep(0)
    assert log.pending_count == 1
    assert (table.rows, done.done(), state.has_unapplied) == ({}, False, True)
    log.acknowledge()
    assert await done == 2
    assert (table.rows, state.applied_offset, state.has_unapplied) == ({b"a": b"1", b"b": b"2"}, 2, False)


async def test_appends_of_one_turn_share_a_batch_and_keep_their_offsets() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    ends = await asyncio.gather(*(state.append([(b"%d" % n, b"x")] * (n + 1)) for n in range(4)))
    assert ends == [1, 3, 6, 10]
    assert len(log.batches) == 1
    assert len(table.history) == 10


async def test_a_batch_stays_below_its_limit_and_never_splits_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "BATCH_BYTES_MAX", 300)
    log = make_log()
    state, _, _ = await open_table(log)
    await asyncio.gather(
        *(state.append([(b"k", b"v" * 100)]) for _ in range(4)), state.append([(b"k", b"w" * 500)] * 2)
    )
    assert [batch.end_offset - batch.base_offset for batch in log.batches] == [2, 2, 2]


async def test_a_refused_append_changes_nothing_and_names_the_error() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError) as caught:
        await state.append([(b"a", b"1")])
    assert (caught.value.code, table.rows, state.has_unapplied) == (ErrorCode.NOT_ENOUGH_REPLICAS, {}, False)
    log.refuse_with = None
    assert await state.append([(b"a", b"2")]) == 1


async def test_what_lies_on_too_few_nodes_is_in_the_log_and_so_in_the_state() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.is_short_after = True
    appends = [state.append([(b"a", b"1"), (b"b", b"2")]), state.append([(b"c", b"3")])]
    for append in appends:
        with pytest.raises(KafkaError) as caught:
            await append
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert table.rows == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert (state.applied_offset, state.has_unapplied) == (3, False)
    log.is_short_after = False
    assert await state.append([(b"d", b"4")]) == 4
    replayed, again, _ = await open_table(log)
    assert again.rows == table.rows and replayed.applied_offset == 4


async def test_too_much_waiting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "WAITING_BYTES_MAX", 1000)
    log = make_log()
    state, _, _ = await open_table(log)
    log.is_acknowledging = False
    first = state.append([(b"a", b"x" * 900)])
    with pytest.raises(KafkaError) as caught:
        await state.append([(b"b", b"x" * 900)])
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    await asyncio.sleep(0)
    log.acknowledge()
    await first
    log.is_acknowledging = True
    assert await state.append([(b"b", b"x" * 900)]) == 2


async def test_a_cancelled_waiter_does_not_stop_the_records() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.is_acknowledging = False
    done = state.append([(b"a", b"1")])
    await asyncio.sleep(0)
    done.cancel()
    log.acknowledge()
    assert table.rows == {b"a": b"1"}


async def test_append_before_replay_is_a_mistake() -> None:
    with pytest.raises(RuntimeError):
        StateLog(make_log(), FakeClock()).append([(b"a", b"1")])


async def test_snapshot_is_saved_when_the_log_is_long_and_replay_starts_there() -> None:
    log = make_log()
    state, table, _ = await open_table(log, SnapshotPolicy(records_max=5))
    for n in range(4):
        await state.append([(b"%d" % n, b"v")])
    assert not await state.save_snapshot(table.encode)
    await state.append([(b"4", b"v")])
    assert state.is_snapshot_due
    assert await state.save_snapshot(table.encode)
    assert not state.is_snapshot_due
    await state.append([(b"0", None)])
    again, restored, replayed = await open_table(log)
    assert (replayed, again.applied_offset, restored.rows) == (1, 6, table.rows)


async def test_records_wait_until_a_snapshot_is_taken_in_turns() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    await state.append([(b"a", b"1")])
    await state.save_snapshot(table.encode, force=True)
    await state.append([(b"a", b"2"), (b"b", b"3")])
    seen: list[bytes | None] = []

    async def take(data: bytes) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(b"taken")

    assert await StateLog(log, FakeClock()).replay(lambda key, _: seen.append(key), take) == 2
    assert seen == [b"taken", b"a", b"b"]


async def test_a_failed_snapshot_is_due_again() -> None:
    log = make_log()
    state, table, _ = await open_table(log, SnapshotPolicy(records_max=1))
    await state.append([(b"a", b"1")])

    async def fail(snapshot: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    log.save_snapshot = fail  # type: ignore[method-assign]
    with pytest.raises(KafkaError):
        await state.save_snapshot(table.encode)
    assert state.is_snapshot_due


async def test_a_proof_begun_earlier_does_not_count_and_later_ones_are_shared() -> None:
    log = make_log()
    state, _, _ = await open_table(log)
    begun: list[asyncio.Future[None]] = []

    async def prove() -> None:
        begun.append(asyncio.get_running_loop().create_future())
        await begun[-1]

    log.prove_ownership = prove  # type: ignore[method-assign]
    first = asyncio.create_task(state.prove_ownership())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(state.prove_ownership()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(begun) == 1
    begun[0].set_result(None)
    await first
    await asyncio.sleep(0)
    assert len(begun) == 2
    assert not any(task.done() for task in others)
    begun[1].set_result(None)
    await asyncio.gather(*others)
    assert len(begun) == 2


async def test_a_failed_proof_reaches_everybody() -> None:
    log = make_log()
    state, _, _ = await open_table(log)
    log.is_owner = False
    results = await asyncio.gather(*(state.prove_ownership() for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [FencedWriter] * 3


async def test_ownership_is_known_from_the_beginning_of_a_proof_or_an_append_that_succeeded() -> None:
    log = make_log()
    state, _, _ = await open_table(log)
    loop = asyncio.get_running_loop()
    ends: list[asyncio.Future[None]] = []

    async def prove() -> None:
        ends.append(loop.create_future())
        await ends[-1]

    log.prove_ownership = prove  # type: ignore[method-assign]
    assert state.proven_ms == -inf
    proof = asyncio.create_task(state.prove_ownership())
    await until(lambda: len(ends) == 1)
    begun_ms = loop.time() * 1000
    ends[0].set_result(None)
    await proof
    assert -inf < state.proven_ms <= begun_ms
    before_ms = state.proven_ms
    failing = asyncio.create_task(state.prove_ownership())
    await until(lambda: len(ends) == 2)
    ends[1].set_exception(FencedWriter("another's"))
    with pytest.raises(FencedWriter):
        await failing
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        await state.append([(b"a", b"1")])
    assert state.proven_ms == before_ms
    log.refuse_with = None
    log.is_acknowledging = False
    done = state.append([(b"a", b"1")])
    await until(lambda: log.pending_count == 1)
    written_ms = loop.time() * 1000
    assert state.proven_ms == before_ms
    log.acknowledge()
    await done
    assert before_ms < state.proven_ms <= written_ms


keys = st.sampled_from([b"a", b"b", b"c", b""])
records = st.lists(st.tuples(keys, st.none() | st.binary(max_size=20)), max_size=5)


@given(st.lists(st.tuples(records, st.booleans(), st.booleans()), max_size=20))
def test_live_state_equals_replayed_state_at_any_point(steps: list[tuple[list[KeyValue], bool, bool]]) -> None:
    async def run() -> None:
        log = make_log()
        state, table, _ = await open_table(log)
        for written, is_refused, is_snapshot_wanted in steps:
            log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR if is_refused else None
            if is_refused and written:
                with pytest.raises(KafkaError):
                    await state.append(written)
            else:
                await state.append(written)
            if is_snapshot_wanted:
                await state.save_snapshot(table.encode, force=True)
            again, restored, _ = await open_table(log)
            assert restored.rows == table.rows
            assert again.applied_offset == state.applied_offset

    asyncio.run(run())


class Unlucky(Table):
    """Fails at one key, having changed half of what it should."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        super().apply(key, value)
        if key == b"bad":
            raise MemoryError("no memory for one turn")


async def test_a_record_that_cannot_be_applied_ends_the_state() -> None:
    """What was appended before it, on its way or not, is not applied to a state that nobody knows."""
    log = make_log()
    table = Unlucky()
    state = StateLog(log, FakeClock())
    await state.replay(table.apply, table.decode)
    assert await state.append([(b"a", b"1")]) == 1
    log.is_acknowledging = False
    appends = [state.append([(b"b", b"2")]), state.append([(b"bad", b"3")]), state.append([(b"c", b"4")])]
    await asyncio.sleep(0)
    appends.append(state.append([(b"d", b"5")]))  # in a batch of its own, on its way as well
    await asyncio.sleep(0)
    log.acknowledge()
    assert await appends[0] == 2
    for append in (*appends[1:], state.append([(b"e", b"6")])):
        with pytest.raises(KafkaError) as caught:
            await append
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [key for key, _ in table.history] == [b"a", b"b", b"bad"]
    assert (state.is_broken, state.has_unapplied, state.applied_offset) == (True, False, 2)
    with pytest.raises(FencedWriter):
        await state.prove_ownership()
    with pytest.raises(KafkaError):
        await state.save_snapshot(table.encode, force=True)
    assert not log.snapshots
    again, whole, _ = await open_table(log)
    assert (whole.rows, again.applied_offset) == (
        {b"a": b"1", b"b": b"2", b"bad": b"3", b"c": b"4", b"d": b"5"},
        5,
    )


async def test_records_that_cannot_be_encoded_are_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    with monkeypatch.context() as patch:

        def fail(records: object) -> bytes:
            raise MemoryError("no memory for one turn")

        patch.setattr(state_log, "encode_records", fail)
        with pytest.raises(KafkaError) as caught:
            await state.append([(b"a", b"1")])
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (state.is_broken, state.has_unapplied, table.rows) == (False, False, {})
    assert await state.append([(b"b", b"2")]) == 1


async def test_a_proof_that_fails_in_any_way_is_told_to_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    state, _, _ = await open_table(log)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise MemoryError("no memory for one turn")

    monkeypatch.setattr(log, "prove_ownership", fail)
    first = asyncio.ensure_future(state.prove_ownership())
    await asyncio.sleep(0)
    outcomes = await asyncio.gather(first, state.prove_ownership(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [MemoryError, MemoryError]
