"""Messages behind their lengths, compared with protobuf's own."""

from __future__ import annotations

import io

import pytest
from google.protobuf import proto
from hypothesis import given
from hypothesis.strategies import binary, integers

from bmq.hdfs.delimited import VARINT_BYTES_MAX, delimited, read_delimited, varint
from bmq.hdfs.proto.rpc_pb2 import RpcSasl

pytestmark = pytest.mark.unit


@given(binary(max_size=400))
def test_is_written_as_protobuf_writes_it(token: bytes) -> None:
    message = RpcSasl(state=RpcSasl.CHALLENGE, token=token)
    expected = io.BytesIO()
    proto.serialize_length_prefixed(message, expected)
    assert delimited(message) == expected.getvalue()


@given(binary(max_size=400), binary(max_size=20), binary(max_size=20))
def test_what_was_written_is_read_back(content: bytes, before: bytes, after: bytes) -> None:
    data = before + varint(len(content)) + content + after
    assert read_delimited(data, len(before)) == (content, len(data) - len(after))


@given(integers(1, (1 << 35) - 1))
def test_a_length_takes_five_bytes_at_most(length: int) -> None:
    assert len(varint(length)) <= VARINT_BYTES_MAX
    with pytest.raises(ValueError, match=f"a message of {length} bytes in 0"):
        read_delimited(varint(length), 0)


@given(binary(max_size=300), integers(0, 299))
def test_less_than_all_of_it_is_refused(content: bytes, kept: int) -> None:
    data = delimited(RpcSasl(state=RpcSasl.WRAP, token=content))
    kept = min(kept, len(data) - 1)
    with pytest.raises(ValueError, match=r"the data ends within a length|a message of \d+ bytes in \d+"):
        read_delimited(data[:kept], 0)


def test_a_length_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="a length of more than 5 bytes"):
        read_delimited(b"\xff" * 100, 0)


def test_an_empty_message_is_one() -> None:
    assert read_delimited(b"\x00", 0) == (b"", 1)
