"""What stands before a registry's Protobuf values: in both directions, and whatever bytes are there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.table_definitions.protobuf_framing import INDEX_MAX, INDEXES_MAX, NotFramed, framing, message_bytes, unframed

pytestmark = pytest.mark.unit


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, INDEX_MAX), min_size=1, max_size=INDEXES_MAX),
    st.binary(max_size=20),
)
def test_both_directions(schema_id: int, indexes: list[int], message: bytes) -> None:
    assert unframed(framing(schema_id, indexes) + message) == (schema_id, tuple(indexes), message)


def test_the_first_message_is_one_byte_and_may_be_written_out() -> None:
    """Bytes of Confluent's serializers: the first message, the second one, and the first one within the first."""
    assert framing(258, (0,)) == b"\0\0\0\1\2\0"
    assert framing(258, (1,)) == b"\0\0\0\1\2\2\2"
    assert framing(258, (0, 0)) == b"\0\0\0\1\2\4\0\0"
    assert unframed(b"\0\0\0\1\2\2\0x") == (258, (0,), b"x")


@given(st.binary(max_size=16))
def test_any_bytes_are_read_or_refused_with_a_sentence(value: bytes) -> None:
    try:
        schema_id, indexes, message = unframed(value)
    except NotFramed as error:
        assert str(error).startswith("the value has no ")
    else:
        assert value.endswith(message)
        assert unframed(framing(schema_id, indexes) + message) == (schema_id, indexes, message)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"", "no schema id"),
        (b"\0\0\0\0\7", "no schema id"),
        (b"\1\0\0\0\7\0", "no schema id"),
        (b"\0\0\0\0\7\1", "no indexes"),
        (b"\0\0\0\0\7\x80", "no indexes"),
        (b"\0\0\0\0\7\x80\x80\x80\x80\x80\0", "no indexes"),
        (b"\0\0\0\0\7\xfe\xff\xff\xff\x0f", "no indexes"),
        (b"\0\0\0\0\7\2\1", "no indexes"),
        (b"\0\0\0\0\7\4\0", "no indexes"),
        (b"\0\0\0\0\x08\0", "the table has no schema with id 8"),
        (b"\0\0\0\0\7\2\2", "another message of the schema with id 7"),
    ],
)
def test_what_does_not_fit_says_why(value: bytes, sentence: str) -> None:
    with pytest.raises(NotFramed, match=sentence):
        message_bytes(value, {7: (0,)})
