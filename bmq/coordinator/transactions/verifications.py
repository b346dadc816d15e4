"""Batches the questions of partitions' owners to transaction coordinators: one request for each turn of the loop.

A producer that writes to many partitions of one owner begins its transaction in all of them at once: they become one
record of the coordinator instead of one after another. Ids of different coordinators go into separate requests, so that
a coordinator that hangs delays only its own ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.log.transactions import TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from bmq.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse, AddPartitionsToTxnResult

Ask = Callable[[AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]
"""Results are in the order of the request's transactions. Raises BmqError."""

TRANSACTIONS_MAX: Final = 500
"""Most transactions in one request."""

_log = structlog.get_logger("bmq.coordinator")


class _Producer(NamedTuple):
    """Partitions with the same key can be asked about together."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool


class _Question(NamedTuple):
    topic: str
    partitions: Sequence[int]
    answer: asyncio.Future[Sequence[ErrorCode]]


class Verifications:
    """Implements bmq.log.transactions.TransactionVerifier. Create it inside the event loop.

    `place_of(id)`: ids with the same place go into one request. `is_enabled()`: False to trust the partitions that a
    client has added (`transaction.partition.verification.enable`); partitions that owners add are always sent.
    """

    def __init__(self, ask: Ask, place_of: Callable[[str], int], is_enabled: Callable[[], bool]) -> None:
        self._ask = ask
        self._place_of = place_of
        self._is_enabled = is_enabled
        self._loop = asyncio.get_running_loop()
        self._queued: dict[_Producer, list[_Question]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> Sequence[ErrorCode]:
        """A code for each partition; COORDINATOR_NOT_AVAILABLE or similar when the coordinator was not reached."""
        if not claim.may_add and not self._is_enabled():
            return [ErrorCode.NONE] * len(partitions)
        if not self._queued:
            self._loop.call_soon(self._flush)
        producer = _Producer(claim.transactional_id, producer_id, producer_epoch, not claim.may_add)
        question = _Question(topic, partitions, self._loop.create_future())
        self._queued.setdefault(producer, []).append(question)
        return await question.answer

    def _flush(self) -> None:
        queued, self._queued = self._queued, {}
        by_place: dict[int, list[tuple[_Producer, list[_Question]]]] = {}
        for producer, questions in queued.items():
            by_place.setdefault(self._place_of(producer.transactional_id), []).append((producer, questions))
        for asked in by_place.values():
            for start in range(0, len(asked), TRANSACTIONS_MAX):
                self._spawn(asked[start : start + TRANSACTIONS_MAX])

    def _spawn(self, asked: Sequence[tuple[_Producer, list[_Question]]]) -> None:
        task = self._loop.create_task(self._ask_together(asked))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _ask_together(self, asked: Sequence[tuple[_Producer, list[_Question]]]) -> None:
        try:
            response = await self._ask(
                AddPartitionsToTxnRequest(transactions=[_transaction(*together) for together in asked])
            )
            results = response.results_by_transaction
            if len(results) != len(asked):
                raise ValueError(f"{len(results)} answers to {len(asked)} questions")
            answers = [_codes(result) for result in results]
        except BmqError as error:
            answers = [_Everywhere(coordinator_error(error))] * len(asked)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            _log.error("transactions_not_verified", ids=len(asked), exc_info=error)
            answers = [_Everywhere(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * len(asked)
        for (producer, questions), codes in zip(asked, answers, strict=True):
            for question in questions:
                if question.answer.done():
                    continue  # the request was cancelled
                told = [codes[question.topic, number] for number in question.partitions]
                if len(questions) > 1 and set(told) == {ErrorCode.OPERATION_NOT_ATTEMPTED}:
                    self._spawn([(producer, [question])])  # a bad partition of another question spoiled this one
                else:
                    question.answer.set_result(told)


class _Everywhere(dict[tuple[str, int], ErrorCode]):
    """The same code for each partition."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, partition: tuple[str, int]) -> ErrorCode:
        return self._code


def _transaction(producer: _Producer, questions: Iterable[_Question]) -> AddPartitionsToTxnTransaction:
    topics: dict[str, dict[int, None]] = {}
    for question in questions:
        topics.setdefault(question.topic, {}).update(dict.fromkeys(question.partitions))
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=producer.verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=list(numbers)) for name, numbers in topics.items()],
    )


def _codes(result: AddPartitionsToTxnResult) -> dict[tuple[str, int], ErrorCode]:
    """A partition missing from the answer counts as a coordinator that was not reached."""
    codes = _Everywhere(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for topic in result.topic_results:
        for one in topic.results_by_partition:
            codes[topic.name, one.partition_index] = ErrorCode(one.partition_error_code)
    return codes
