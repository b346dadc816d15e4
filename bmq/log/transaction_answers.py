"""What a produced batch answers to checks of open transactions, by the headers of its records. Pure.

`bmq-transaction-answer` is `commit` or `rollback`. The others are those of the check's record: `bmq-transaction-id`,
`bmq-transaction-producer` (`<producer id>,<epoch>`) and `bmq-transaction-started` (ms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bmq.log.opened_batch import opened_body, require_few_headers, require_few_records
from bmq.protocol.record_batch import BatchHeader
from bmq.protocol.transaction_decisions import TransactionDecideRequest
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import headers_of, record_places

ID: Final = "bmq-transaction-id"
PRODUCER: Final = "bmq-transaction-producer"
STARTED: Final = "bmq-transaction-started"
NUMBER: Final = "bmq-transaction-number"
ANSWER: Final = "bmq-transaction-answer"
ANSWERS_MAX: Final = 500
_OUTCOMES: Final = {b"commit": True, b"rollback": False}
_PRODUCER: Final = re.compile(rb"([0-9]{1,18}),([0-9]{1,5})")
_TIME: Final = re.compile(rb"[0-9]{1,18}")
_EPOCH_MAX: Final = 2**15 - 1
_ID_BYTES_MAX: Final = 2**15 - 1


class AnswerRefused(ValueError):
    """A record that answers nothing. The message says why, for the producer."""


def answers_in(batch: memoryview, header: BatchHeader) -> list[TransactionDecideRequest | AnswerRefused]:
    """The answer of each record, or why it is none. Raises BatchTooLong, Damage, UnknownCompression."""
    require_few_records(header, "with answers", ANSWERS_MAX)
    body = opened_body(batch, header, "with answers")
    require_few_headers(body, header)
    found: list[TransactionDecideRequest | AnswerRefused] = []
    for record in record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS):
        try:
            found.append(answer_of(headers_of(body, record)))
        except AnswerRefused as error:
            found.append(error)
    return found


def answer_of(headers: Iterable[tuple[bytes, bytes | None]]) -> TransactionDecideRequest:
    """Raises AnswerRefused."""
    said: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in said and name.startswith(b"bmq-transaction-"):
            raise AnswerRefused(f"the header {name.decode(errors='replace')} is in the record more than once")
        said[name] = value or b""
    is_commit = _OUTCOMES.get(_required(said, ANSWER))
    if is_commit is None:
        raise AnswerRefused(f"the header {ANSWER} is neither commit nor rollback")
    producer = _PRODUCER.fullmatch(_required(said, PRODUCER))
    if producer is None or int(producer[2]) > _EPOCH_MAX:
        raise AnswerRefused(f"the header {PRODUCER} is no producer id and epoch: two numbers with a comma between them")
    started = _TIME.fullmatch(_required(said, STARTED))
    if started is None:
        raise AnswerRefused(f"the header {STARTED} is no time in ms")
    return TransactionDecideRequest(
        transactional_id=_id(_required(said, ID)),
        producer_id=int(producer[1]),
        producer_epoch=int(producer[2]),
        start_ms=int(started[0]),
        is_commit=is_commit,
    )


def _required(said: dict[bytes, bytes], name: str) -> bytes:
    value = said.get(name.encode())
    if value is None:
        raise AnswerRefused(f"a record without the header {name}, in a topic of answers")
    return value


def _id(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or len(value) > _ID_BYTES_MAX:
        raise AnswerRefused(f"the header {ID} is no transactional id")
    return text
