"""Answers to checks of open transactions that clients produce into a topic of answers, which stores nothing.

A batch is acknowledged once all of its decisions are durable. They are idempotent, so the order of batches does not matter, and a batch
that is sent again is answered alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from bmq.log.opened_batch import BatchTooLong
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.log.transaction_answers import AnswerRefused, answers_in
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.hot_produce import RecordError
from bmq.protocol.record_batch import validate_client_batch, verify_crc
from bmq.protocol.request_context import RequestContext
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse, refusal
from bmq.proxy.access import Access
from bmq.proxy.batch_opener import BatchOpener
from bmq.records.records_twin import Damage
from bmq.security.acls import Operation, ResourceType

BATCHES_MAX: Final = 64
"""Batches of answers that are worked on at the same time; further ones are refused with a retriable error."""
_DONE: Final = AppendResult(ErrorCode.NONE, base_offset=0, log_start_offset=0)
_BUSY: Final = AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, message="too many answers are on their way; send it again")
_TRANSACTIONAL: Final = AppendResult(ErrorCode.POLICY_VIOLATION, message="answers are no part of a transaction")
_NO_BATCH: Final = AppendResult(ErrorCode.CORRUPT_MESSAGE, message="not one record batch")


class TransactionDecisions(Protocol):
    """The coordinators of transactional ids: those of this process, or all of the cluster's. Errors are in the answer."""

    async def decide(self, request: TransactionDecideRequest) -> TransactionDecideResponse: ...


class TransactionAnswers:
    """One for a process. Create it inside the event loop."""

    def __init__(self, decisions: TransactionDecisions, opener: BatchOpener) -> None:
        self._decisions = decisions
        self._opener = opener
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, batch: ProducedBatch, context: RequestContext, access: Access) -> None:
        """Decide what the batch says, and complete it."""
        if len(self._tasks) >= BATCHES_MAX:
            batch.complete(_BUSY)
            return
        task = asyncio.get_running_loop().create_task(self._complete(batch, context, access))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _complete(self, batch: ProducedBatch, context: RequestContext, access: Access) -> None:
        try:
            result = await self._result(batch, context, access)
        except BatchTooLong as error:  # the code has producers send the batch again in two halves
            result = AppendResult(ErrorCode.MESSAGE_TOO_LARGE, message=str(error))
        except BmqError as error:
            result = AppendResult(error.code, message=str(error))
        except Damage as error:
            result = AppendResult(ErrorCode.CORRUPT_MESSAGE, message=str(error))
        batch.complete(result)

    async def _result(self, batch: ProducedBatch, context: RequestContext, access: Access) -> AppendResult:
        header, records = batch.header, batch.records
        if header is None or header.size_bytes != len(records):
            return _NO_BATCH
        verify_crc(records, 0, header)
        validate_client_batch(header)
        if header.is_transactional:
            return _TRANSACTIONAL
        found = await self._opener.open(header.attributes, len(records), partial(answers_in, records, header))
        asked: list[TransactionDecideRequest] = []
        errors: list[RecordError] = []
        for index, one in enumerate(found):
            if isinstance(one, AnswerRefused):
                errors.append(RecordError(index, str(one)))
            elif not _may_write(one.transactional_id, context, access):
                errors.append(RecordError(index, f"no right to WRITE on transactional id {one.transactional_id}"))
            else:
                asked.append(one)
        return _refused(errors) if errors else await self._decided(asked)

    async def _decided(self, asked: Sequence[TransactionDecideRequest]) -> AppendResult:
        errors = []
        for index, one in enumerate(asked):
            code = (await self._decisions.decide(one)).error_code
            why = refusal(code, one)
            if why is not None:
                errors.append(RecordError(index, why))
            elif code:
                name = ErrorCode(code).name
                return AppendResult(
                    ErrorCode.NOT_ENOUGH_REPLICAS, message=f"the coordinator does not serve now ({name})"
                )
        return _refused(errors) if errors else _DONE


def _refused(errors: Sequence[RecordError]) -> AppendResult:
    return AppendResult(ErrorCode.INVALID_RECORD, message=errors[0].message, record_errors=errors)


def _may_write(transactional_id: str, context: RequestContext, access: Access) -> bool:
    return not access.is_on or access.allows(
        context, ApiKey.PRODUCE, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )
