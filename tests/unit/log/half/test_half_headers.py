"""What a record says about half messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.half.half_headers import (
    CHECK_ID_BYTES_MAX,
    COMMIT,
    COMMON_PREFIX,
    HALF,
    OFFSET,
    ROLLBACK,
    AskedDecision,
    HalfRefused,
    Outcome,
    asked_by,
)

pytestmark = pytest.mark.unit


def test_records_without_the_headers_are_ordinary() -> None:
    assert asked_by([(b"other", b"1"), (OFFSET, b"7"), (b"bmq-halfway", None)]) is None
    assert all(name.startswith(COMMON_PREFIX) for name in (HALF, COMMIT, ROLLBACK))


def test_half_message_and_decisions() -> None:
    assert asked_by([(b"a", b"b"), (HALF, "order 47, é".encode())]) == "order 47, é"
    assert asked_by([(COMMIT, b"0")]) == AskedDecision(Outcome.COMMIT, 0)
    assert asked_by([(ROLLBACK, b"9223372036854775807")]) == AskedDecision(Outcome.ROLLBACK, 2**63 - 1)


@pytest.mark.parametrize("name", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    "value", [None, b"", b"-1", b" 1", b"1 ", b"x", "١".encode(), b"1" * 20, b"9223372036854775808"]
)
def test_what_is_no_offset_is_refused(name: bytes, value: bytes | None) -> None:
    with pytest.raises(HalfRefused, match="is no offset"):
        asked_by([(name, value)])


@pytest.mark.parametrize("value", [None, b"", b"x" * (CHECK_ID_BYTES_MAX + 1), b"\xff", b"a\nb", b"\0"])
def test_what_is_no_check_id_is_refused(value: bytes | None) -> None:
    with pytest.raises(HalfRefused, match="is no check id"):
        asked_by([(HALF, value)])


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (HALF, HALF, "bmq-half is in the record more than once"),
        (COMMIT, ROLLBACK, "bmq-half-rollback is in the record beside bmq-half-commit"),
        (HALF, COMMIT, "bmq-half-commit is in the record beside bmq-half"),
    ],
)
def test_two_meanings_are_refused(first: bytes, second: bytes, words: str) -> None:
    with pytest.raises(HalfRefused, match=words):
        asked_by([(first, b"1"), (b"between", None), (second, b"1")])


@given(st.lists(st.tuples(st.sampled_from([HALF, COMMIT, ROLLBACK, b"x"]), st.none() | st.binary(max_size=140))))
def test_anything_is_understood_or_refused(headers: list[tuple[bytes, bytes | None]]) -> None:
    try:
        asked = asked_by(headers)
    except HalfRefused as error:
        assert str(error)
    else:
        named = [name for name, _ in headers if name != b"x"]
        assert len(named) == (asked is not None)
