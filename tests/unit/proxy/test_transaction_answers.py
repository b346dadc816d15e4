"""Batches of answers to checks of open transactions: decided, refused record by record, tried again; never stored."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.log.partition_log import AppendResult, ProducedBatch, TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import TRANSACTIONAL, parsed_header
from bmq.protocol.request_context import RequestContext
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse
from bmq.proxy import transaction_answers
from bmq.proxy.access import OPEN, Access
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.transaction_answers import TransactionAnswers
from tests.unit.log.test_transaction_answers import HEADERS

pytestmark = pytest.mark.unit

CONTEXT = RequestContext(9, "client", "192.0.2.7")


class Coordinators:
    """`codes`: by transactional id. `gate`: answers wait for it."""

    def __init__(self) -> None:
        self.codes: dict[str, ErrorCode] = {}
        self.decided: list[tuple[str, bool]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def decide(self, request: TransactionDecideRequest) -> TransactionDecideResponse:
        await self.gate.wait()
        code = self.codes.get(request.transactional_id, ErrorCode.NONE)
        if not code:
            self.decided.append((request.transactional_id, request.is_commit))
        return TransactionDecideResponse(error_code=code)


class OnlyFor(Access):
    """Lets its client write with these ids."""

    def __init__(self, *ids: str) -> None:
        super().__init__(None, dict)
        self.is_on = True
        self._ids = ids

    def allows(self, *arguments: Any, **_: Any) -> bool:
        return arguments[4] in self._ids


class Request:
    is_acks_all = True

    def __init__(self) -> None:
        self.done: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()

    def answered(self, batch: ProducedBatch, result: AppendResult) -> None:
        self.done.set_result(result)


class World:
    def __init__(self) -> None:
        self.coordinators = Coordinators()
        self.answers = TransactionAnswers(self.coordinators, BatchOpener(cast(Any, None)))

    def take(
        self, *said: tuple[str, bytes], access: Access = OPEN, attributes: int = 0
    ) -> asyncio.Future[AppendResult]:
        records = [
            Record(
                None,
                None,
                tuple(
                    (name.decode(), value)
                    for name, value in {
                        **HEADERS,
                        b"bmq-transaction-id": one.encode(),
                        b"bmq-transaction-answer": outcome,
                    }.items()
                ),
            )
            for one, outcome in said
        ]
        is_numbered = bool(attributes)
        batch = encode_batch(
            records,
            attributes=attributes,
            producer_id=5 if is_numbered else -1,
            producer_epoch=0 if is_numbered else -1,
            base_sequence=0 if is_numbered else -1,
        )
        return self.send(batch, access)

    def send(self, data: bytes | bytearray, access: Access = OPEN) -> asyncio.Future[AppendResult]:
        request, records = Request(), memoryview(bytearray(data))
        place = TopicPartition(UUID(int=1), 0)
        self.answers.take(ProducedBatch(cast(Any, request), place, records, parsed_header(records)), CONTEXT, access)
        return request.done


async def test_a_batch_is_acknowledged_once_all_of_it_is_decided() -> None:
    world = World()
    world.coordinators.gate.clear()
    done = world.take(("a", b"commit"), ("b", b"rollback"))
    await asyncio.sleep(0)
    assert not done.done()
    world.coordinators.gate.set()
    assert (await done).error_code is ErrorCode.NONE
    assert world.coordinators.decided == [("a", True), ("b", False)]


async def test_records_that_say_nothing_are_named_and_nothing_is_decided() -> None:
    world = World()
    result = await world.take(("a", b"commit"), ("b", b"maybe"), ("c", b"commit"), ("d", b""))
    assert result.error_code is ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in result.record_errors] == [1, 3]
    assert world.coordinators.decided == []


async def test_who_may_not_write_with_the_id_decides_nothing() -> None:
    world = World()
    result = await world.take(("mine", b"commit"), ("yours", b"commit"), access=OnlyFor("mine"))
    assert result.error_code is ErrorCode.INVALID_RECORD
    (error,) = result.record_errors
    assert (error.batch_index, error.message) == (1, "no right to WRITE on transactional id yours")
    assert world.coordinators.decided == []
    assert (await world.take(("mine", b"commit"), access=OnlyFor("mine"))).error_code is ErrorCode.NONE


async def test_decisions_that_are_refused_are_named() -> None:
    world = World()
    world.coordinators.codes = {
        "other": ErrorCode.INVALID_REQUEST,
        "ended": ErrorCode.INVALID_TXN_STATE,
        "later": ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
    result = await world.take(("other", b"commit"), ("a", b"commit"), ("ended", b"commit"), ("later", b"rollback"))
    assert result.error_code is ErrorCode.INVALID_RECORD
    said = {one.batch_index: one.message or "" for one in result.record_errors}
    assert "has not opted in" in said[0] and "rolled back before" in said[2] and "no such transaction" in said[3]
    assert world.coordinators.decided == [("a", True)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS])
async def test_a_coordinator_that_moves_is_asked_again_by_the_client(code: ErrorCode) -> None:
    world = World()
    world.coordinators.codes = {"a": code}
    result = await world.take(("a", b"commit"))
    assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS and code.name in (result.message or "")


async def test_batches_that_are_none() -> None:
    world = World()
    assert (await world.take(("a", b"commit"), attributes=TRANSACTIONAL)).error_code is ErrorCode.POLICY_VIOLATION
    good = encode_batch([Record(None, None, ())])
    assert (await world.send(good[:-1])).error_code is ErrorCode.CORRUPT_MESSAGE
    assert (await world.send(good[:-1] + b"\x7f")).error_code is ErrorCode.CORRUPT_MESSAGE
    assert world.coordinators.decided == []


async def test_no_more_batches_at_a_time_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_answers, "BATCHES_MAX", 2)
    world = World()
    world.coordinators.gate.clear()
    first, second = (world.take((one, b"commit")) for one in ("a", "b"))
    assert (await world.take(("c", b"commit"))).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    world.coordinators.gate.set()
    assert [one.error_code for one in await asyncio.gather(first, second)] == [ErrorCode.NONE] * 2
    assert (await world.take(("c", b"commit"))).error_code is ErrorCode.NONE
