"""What records say that answer checks of open transactions, and what they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.opened_batch import BatchTooLong
from bmq.log.transaction_answers import ANSWERS_MAX, AnswerRefused, answer_of, answers_in
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import BatchHeader
from bmq.protocol.transaction_decisions import TransactionDecideRequest

pytestmark = pytest.mark.unit

HEADERS: dict[bytes, bytes | None] = {
    b"bmq-transaction-id": "shop-é".encode(),
    b"bmq-transaction-producer": b"7,3",
    b"bmq-transaction-started": b"1790000000000",
    b"bmq-transaction-number": b"2",
    b"bmq-transaction-answer": b"commit",
}
SAID = TransactionDecideRequest(
    transactional_id="shop-é", producer_id=7, producer_epoch=3, start_ms=1_790_000_000_000, is_commit=True
)


def test_the_headers_of_the_check_and_the_answer() -> None:
    assert answer_of(HEADERS.items()) == SAID
    rolled_back = answer_of({**HEADERS, b"bmq-transaction-answer": b"rollback", b"other": None}.items())
    assert not rolled_back.is_commit and rolled_back.transactional_id == "shop-é"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (b"bmq-transaction-answer", b"yes", "neither commit nor rollback"),
        (b"bmq-transaction-answer", None, "neither commit nor rollback"),
        (b"bmq-transaction-producer", b"7", "no producer id and epoch"),
        (b"bmq-transaction-producer", b"7,32768", "no producer id and epoch"),
        (b"bmq-transaction-producer", b"-1,3", "no producer id and epoch"),
        (b"bmq-transaction-producer", b"9" * 19 + b",3", "no producer id and epoch"),
        (b"bmq-transaction-started", b"soon", "no time in ms"),
        (b"bmq-transaction-started", b"9" * 19, "no time in ms"),
        (b"bmq-transaction-id", b"", "no transactional id"),
        (b"bmq-transaction-id", b"\xff", "no transactional id"),
        (b"bmq-transaction-id", b"x" * 32_768, "no transactional id"),
    ],
)
def test_what_answers_nothing(name: bytes, value: bytes | None, words: str) -> None:
    with pytest.raises(AnswerRefused, match=words):
        answer_of({**HEADERS, name: value}.items())


@pytest.mark.parametrize("name", [name for name in HEADERS if name != b"bmq-transaction-number"])
def test_a_header_that_is_missing_or_there_twice(name: bytes) -> None:
    with pytest.raises(AnswerRefused, match=f"without the header {name.decode()}"):
        answer_of((one, value) for one, value in HEADERS.items() if one != name)
    with pytest.raises(AnswerRefused, match="more than once"):
        answer_of([*HEADERS.items(), (name, HEADERS[name])])


@given(st.lists(st.tuples(st.sampled_from([*HEADERS, b"other"]), st.one_of(st.none(), st.binary(max_size=12)))))
def test_any_headers_are_an_answer_or_refused(headers: list[tuple[bytes, bytes | None]]) -> None:
    try:
        answer_of(headers)
    except AnswerRefused as error:
        assert str(error)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_each_record_of_a_batch_answers(codec: Compression) -> None:
    headers = tuple((name.decode(), value) for name, value in HEADERS.items())
    batch = encode_batch([Record(b"k", None, headers), Record(b"k", b"v", headers[:-1])], compression=codec)
    first, second = answers_in(memoryview(batch), BatchHeader.parse(batch))
    assert first == SAID and isinstance(second, AnswerRefused)


def test_no_more_answers_than_the_bound() -> None:
    batch = encode_batch([Record(b"k", None, ())] * (ANSWERS_MAX + 1))
    with pytest.raises(BatchTooLong, match=f"{ANSWERS_MAX} are allowed"):
        answers_in(memoryview(batch), BatchHeader.parse(batch))
