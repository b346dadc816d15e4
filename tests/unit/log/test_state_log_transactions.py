"""A state machine's log with transactions in it: told in the log's order who wrote what, live and at load alike."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.partition_log import TopicPartition
from bmq.log.state_log import KeyValue, Producer, StateLog, TransactionReplay
from bmq.log.transactions import TransactionMarker
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, parse_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, verify_crc
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog
from tests.unit.broker.world import CONFIG, World, virtual

pytestmark = pytest.mark.unit

ONE, TWO = Producer(7, 0), Producer(8, 3)


class History:
    """What a state machine is told, in order; its state is all of it."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        self.told.append(("plain", key, value))

    def apply_transactional(self, key: bytes | None, value: bytes | None, offset: int, producer: Producer) -> None:
        self.told.append(("pending", key, value, offset, tuple(producer)))

    def end(self, producer: Producer, is_commit: bool) -> None:
        self.told.append(("end", tuple(producer), is_commit))

    def encode(self) -> bytes:
        return repr(self.told).encode()

    def decode(self, data: bytes) -> None:
        self.told = list(ast.literal_eval(data.decode()))


def make_log() -> FakePartitionLog:
    return FakePartitionLog(TopicPartition(UUID(int=1), 0))


async def opened(log: Any) -> tuple[StateLog, History]:
    history = History()
    state = StateLog(log, FakeClock())
    transactions = TransactionReplay(history.apply_transactional, history.end)
    await state.replay(history.apply, history.decode, transactions)
    return state, history


def marker(producer: Producer, *, is_commit: bool = True, coordinator_epoch: int = 5) -> TransactionMarker:
    return TransactionMarker(*producer, coordinator_epoch, is_commit)


async def test_what_one_turn_appends_keeps_its_order_and_its_writers() -> None:
    log = make_log()
    state, history = await opened(log)
    ends = await asyncio.gather(
        state.append([(b"a", b"1")]),
        state.append([(b"b", b"2"), (b"c", None)], ONE),
        state.append([(b"d", b"3")], ONE),
        state.append([(b"e", b"4")], TWO),
        state.append_marker(marker(ONE)),
        state.append_marker(marker(TWO, is_commit=False)),
        state.append([(b"f", b"5")]),
        state.append([(b"g", b"6")]),
    )
    assert ends == [1, 3, 4, 5, 6, 7, 8, 9]
    assert history.told == [
        ("plain", b"a", b"1"),
        ("pending", b"b", b"2", 1, ONE),
        ("pending", b"c", None, 2, ONE),
        ("pending", b"d", b"3", 3, ONE),
        ("pending", b"e", b"4", 4, TWO),
        ("end", ONE, True),
        ("end", TWO, False),
        ("plain", b"f", b"5"),
        ("plain", b"g", b"6"),
    ]
    headers = [BatchHeader.parse(batch.data) for batch in log.batches]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence, h.record_count) for h in headers] == [
        (-1, -1, -1, 1),
        (7, 0, -1, 2 + 1),
        (8, 3, -1, 1),
        (7, 0, -1, 1),
        (8, 3, -1, 1),
        (-1, -1, -1, 2),
    ]
    assert [(h.is_transactional, h.is_control) for h in headers] == [
        (False, False),
        (True, False),
        (True, False),
        (True, True),
        (True, True),
        (False, False),
    ]
    assert parse_end_transaction_marker(log.batches[3].data) == EndTransactionMarker(ControlType.COMMIT, 5)
    assert parse_end_transaction_marker(log.batches[4].data) == EndTransactionMarker(ControlType.ABORT, 5)
    again, replayed = await opened(log)
    assert (replayed.told, again.applied_offset) == (history.told, 9)


async def test_nothing_of_a_transaction_is_applied_before_it_is_durable() -> None:
    log = make_log()
    state, history = await opened(log)
    log.is_acknowledging = False
    written, ended = state.append([(b"a", b"1")], ONE), state.append_marker(marker(ONE))
    await asyncio.sleep(0)
    assert (history.told, written.done(), state.has_unapplied) == ([], False, True)
    log.acknowledge(1)
    assert await written == 1
    assert not ended.done()
    log.acknowledge()
    assert await ended == 2
    assert (len(history.told), state.has_unapplied) == (2, False)


async def test_a_state_machine_without_transactions_writes_none_and_reads_them_like_others() -> None:
    log = make_log()
    state, _ = await opened(log)
    await state.append([(b"a", b"1")], ONE)
    await state.append_marker(marker(ONE))
    history = History()
    plain = StateLog(log, FakeClock())
    assert await plain.replay(history.apply, history.decode) == 1
    assert (history.told, plain.applied_offset) == ([("plain", b"a", b"1")], 2)
    with pytest.raises(RuntimeError):
        plain.append([(b"b", b"2")], ONE)
    with pytest.raises(RuntimeError):
        plain.append_marker(marker(ONE))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["plain", "one", "two", "commit one", "abort one", "commit two", "snapshot"]),
            st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.none() | st.binary(max_size=3)), max_size=3),
            st.booleans(),  # refused
            st.booleans(),  # with the next one in one turn
        ),
        max_size=25,
    )
)
def test_what_is_told_live_is_told_at_load(steps: list[tuple[str, list[KeyValue], bool, bool]]) -> None:
    async def run() -> None:
        log = make_log()
        state, history = await opened(log)
        for what, records, is_refused, is_shared in steps:
            if what == "snapshot":
                await asyncio.sleep(0)
                await state.save_snapshot(history.encode, force=True)
                continue
            producer = {"one": ONE, "two": TWO}.get(what.split()[-1])
            if what in ("plain", "one", "two"):
                done = state.append(records, producer)
            else:
                assert producer is not None
                done = state.append_marker(marker(producer, is_commit="commit" in what))
            if not is_shared:
                log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR if is_refused else None
                await asyncio.wait([done])
                done.exception()
                log.refuse_with = None
            else:
                done.add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        again, replayed = await opened(log)
        assert replayed.told == history.told
        assert again.applied_offset == state.applied_offset

    asyncio.run(run())


def test_the_log_refuses_epochs_that_are_over() -> None:
    """A real partition: what is refused is neither in the state nor in the log, and a new owner is told the same."""

    async def main() -> None:
        world = World()
        owner = world.owner(CONFIG)
        log = await owner.log()
        state, history = await opened(log)
        later = Producer(7, 1)
        await state.append([(b"a", b"1")], ONE)
        await state.append_marker(marker(later, is_commit=False, coordinator_epoch=5))
        for refused, code in (
            (state.append([(b"b", b"2")], ONE), ErrorCode.INVALID_PRODUCER_EPOCH),
            (state.append_marker(marker(ONE, coordinator_epoch=5)), ErrorCode.INVALID_PRODUCER_EPOCH),
            (state.append_marker(marker(later, coordinator_epoch=4)), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ):
            with pytest.raises(KafkaError) as caught:
                await refused
            assert caught.value.code is code
        assert not state.is_broken
        await state.append([(b"c", b"3")], later)
        await state.append([(b"d", b"4")])
        told = [
            ("pending", b"a", b"1", 0, ONE),
            ("end", later, False),
            ("pending", b"c", b"3", 2, later),
            ("plain", b"d", b"4"),
        ]
        assert history.told == told
        await state.save_snapshot(history.encode, force=True)
        await state.append_marker(marker(later))
        chunk = await log.read(4, 1 << 20)
        assert chunk is not None
        verify_crc(chunk.data, 0, BatchHeader.parse(chunk.data))
        owner.kill()
        next_log = await world.owner(CONFIG, floor=5).log()
        again, replayed = await opened(next_log)
        assert replayed.told == [*told, ("end", later, True)]
        assert again.applied_offset == 5
        with pytest.raises(KafkaError) as caught:
            await again.append([(b"e", b"5")], ONE)
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH

    virtual(main)


def test_epochs_and_open_transactions_outlive_the_segments_that_a_snapshot_replaces() -> None:
    async def main() -> None:
        world = World()
        config = replace(CONFIG, segment_bytes=2_000)
        owner = world.owner(config)
        state, history = await opened(await owner.log())
        later = Producer(7, 1)
        await state.append([(b"a", b"1")], ONE)
        await state.append_marker(marker(later, is_commit=False, coordinator_epoch=5))
        await state.append([(b"b", b"2")], TWO)  # stays open
        for _ in range(50):
            await state.append([(b"c", b"x" * 100)])
        await state.save_snapshot(history.encode, force=True)
        assert state.log.log_start_offset > 3, "what it replaces is gone"
        owner.kill()
        again, replayed = await opened(await world.owner(config, floor=53).log())
        assert replayed.told == history.told
        for refused, code in (
            (again.append([(b"d", b"3")], ONE), ErrorCode.INVALID_PRODUCER_EPOCH),
            (again.append_marker(marker(later, coordinator_epoch=4)), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            (again.append_marker(marker(Producer(TWO.producer_id, 2))), ErrorCode.INVALID_PRODUCER_EPOCH),
        ):
            with pytest.raises(KafkaError) as caught:
                await refused
            assert caught.value.code is code
        await again.append_marker(marker(TWO))
        assert replayed.told[-1] == ("end", TWO, True)

    virtual(main)
