"""Runs of records beside other appends: one batch, in order, applied once durable, and the same after a restart."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.state_log import KeyValue, StateLog
from bmq.protocol.batch_records import Record, encode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.unit.log.test_state_log import Table, make_log, open_table

pytestmark = pytest.mark.unit


class Run:
    """A RecordRun of a Table. `told`: what `finished` was called with; `failure`: raised by `apply`."""

    def __init__(self, table: Table, records: list[KeyValue], failure: Exception | None = None) -> None:
        self.record_count = len(records)
        self.size_bytes = sum(len(key) + len(value or b"") for key, value in records)
        self.told: list[ErrorCode] = []
        self._table = table
        self._records = records
        self._failure = failure

    def encoded(self, first_delta: int) -> bytearray:
        return encode_records([Record(key, value) for key, value in self._records], first_delta)

    def apply(self) -> None:
        if self._failure is not None:
            raise self._failure
        for key, value in self._records:
            self._table.apply(key, value)

    def finished(self, error: KafkaError | None) -> None:
        self.told.append(ErrorCode.NONE if error is None else error.code)


RECORDS = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), min_size=1, max_size=4)


@given(turns=st.lists(st.lists(st.tuples(st.booleans(), RECORDS), max_size=5), max_size=4))
def test_runs_and_appends_are_one_log(turns: list[list[tuple[bool, list[KeyValue]]]]) -> None:
    async def story() -> None:
        log = make_log()
        state, table, _ = await open_table(log)
        for turn in turns:
            runs = []
            appends = []
            for is_run, records in turn:
                if is_run:
                    runs.append(Run(table, records))
                    state.append_run(runs[-1])
                else:
                    appends.append(state.append(records))
            await asyncio.gather(*appends)
            for _ in range(4):
                await asyncio.sleep(0)
            assert [run.told for run in runs] == [[ErrorCode.NONE]] * len(runs)
        assert table.history == [record for turn in turns for _, records in turn for record in records]
        assert len(log.batches) == sum(1 for turn in turns if turn)
        again, replayed, count = await open_table(log)
        assert (replayed.history, count) == (table.history, len(table.history))
        assert (again.applied_offset, again.records_since_snapshot) == (state.applied_offset, count)
        assert not state.has_unapplied

    asyncio.run(story())


async def turns_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_nothing_is_applied_or_told_before_it_is_durable() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.is_acknowledging = False
    run = Run(table, [(b"a", b"1")])
    state.append_run(run)
    await turns_of_the_loop()
    assert (table.rows, run.told, state.has_unapplied) == ({}, [], True)
    log.acknowledge()
    assert (table.rows, run.told, state.has_unapplied) == ({b"a": b"1"}, [ErrorCode.NONE], False)


async def test_a_refused_run_changes_nothing() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    run = Run(table, [(b"a", b"1")])
    state.append_run(run)
    await turns_of_the_loop()
    assert (table.rows, run.told, state.has_unapplied) == ({}, [ErrorCode.NOT_ENOUGH_REPLICAS], False)


async def test_records_on_too_few_replicas_are_applied_and_not_confirmed() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    log.is_short_after = True
    run = Run(table, [(b"a", b"1")])
    state.append_run(run)
    await turns_of_the_loop()
    assert (table.rows, run.told) == ({b"a": b"1"}, [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])


async def test_a_run_that_cannot_be_applied_ends_the_state() -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    runs = [Run(table, [(b"a", b"1")]), Run(table, [(b"b", b"2")], RuntimeError("half")), Run(table, [(b"c", b"3")])]
    for run in runs:
        state.append_run(run)
    await turns_of_the_loop()
    lost = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [run.told for run in runs] == [[ErrorCode.NONE], [lost], [lost]]
    assert (state.is_broken, table.rows) == (True, {b"a": b"1"})
    late = Run(table, [(b"d", b"4")])
    state.append_run(late)
    assert late.told == [lost]


async def test_a_run_that_fails_when_it_is_told_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    state, table, _ = await open_table(log)
    rude, other = Run(table, [(b"a", b"1")]), Run(table, [(b"b", b"2")])

    def fail(error: KafkaError | None) -> None:
        raise RuntimeError("not now")

    monkeypatch.setattr(rude, "finished", fail)
    state.append_run(rude)
    state.append_run(other)
    assert await state.append([(b"c", b"3")]) == 3
    assert (other.told, state.is_broken) == ([ErrorCode.NONE], False)


async def test_a_run_before_the_replay_is_a_mistake() -> None:
    _, table, _ = await open_table(make_log())
    with pytest.raises(RuntimeError):
        StateLog(make_log(), table).append_run(Run(table, [(b"a", b"1")]))  # type: ignore[arg-type]
