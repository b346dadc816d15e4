"""The bytes of Hadoop's RPC: what is sent, and whatever arrives."""

from __future__ import annotations

import io
import struct

import pytest
from google.protobuf import proto
from hypothesis import example, given
from hypothesis.strategies import binary, integers, lists

from bmq.hdfs.proto.namenode_pb2 import (
    CompleteResponse,
    DeleteRequest,
    FsyncResponse,
    GetListingResponse,
)
from bmq.hdfs.proto.rpc_pb2 import (
    RPC_PROTOCOL_BUFFER,
    IpcConnectionContext,
    RequestHeader,
    RpcRequestHeader,
    RpcResponseHeader,
    UserInformation,
)
from bmq.hdfs.rpc_codec import (
    RESPONSE_BYTES_MAX,
    AnswerSplitter,
    MalformedAnswer,
    call_frame,
    context_frame,
    first_bytes,
    parse_answer,
    parse_body,
)
from tests.fakes.hadoop_ipc import frame

pytestmark = pytest.mark.unit

CLIENT_ID = bytes(range(16))


def test_a_connection_begins_with_the_version_and_the_way_to_authenticate() -> None:
    assert first_bytes(0) == b"hrpc\x09\x00\x00"
    assert first_bytes(0xDF) == b"hrpc\x09\x00\xdf"


def test_the_context_names_the_user_and_the_protocol() -> None:
    received = io.BytesIO(context_frame(CLIENT_ID, "a.b.ClientProtocol", UserInformation(effective_user="ann")))
    assert struct.unpack(">i", received.read(4))[0] == len(received.getvalue()) - 4
    header = proto.parse_length_prefixed(RpcRequestHeader, received)
    context = proto.parse_length_prefixed(IpcConnectionContext, received)
    assert header is not None
    assert (header.call_id, header.client_id, header.rpc_kind) == (-3, CLIENT_ID, RPC_PROTOCOL_BUFFER)
    assert context == IpcConnectionContext(
        user_info=UserInformation(effective_user="ann"), protocol="a.b.ClientProtocol"
    )
    assert not received.read()


@given(integers(0, (1 << 31) - 1), integers(0, 1000), binary(min_size=1, max_size=300))
def test_a_call_is_a_header_a_method_and_a_request(call_id: int, retry_count: int, path: bytes) -> None:
    request = DeleteRequest(src=path.hex(), recursive=True)
    received = io.BytesIO(
        call_frame(
            call_id=call_id,
            retry_count=retry_count,
            client_id=CLIENT_ID,
            protocol_name="a.b.ClientProtocol",
            method="delete",
            request=request,
        )
    )
    assert struct.unpack(">i", received.read(4))[0] == len(received.getvalue()) - 4
    header = proto.parse_length_prefixed(RpcRequestHeader, received)
    assert header == RpcRequestHeader(
        rpc_kind=RPC_PROTOCOL_BUFFER,
        rpc_op=RpcRequestHeader.RPC_FINAL_PACKET,
        call_id=call_id,
        client_id=CLIENT_ID,
        retry_count=retry_count,
    )
    assert proto.parse_length_prefixed(RequestHeader, received) == RequestHeader(
        method_name="delete", declaring_class_protocol_name="a.b.ClientProtocol", client_protocol_version=1
    )
    assert proto.parse_length_prefixed(DeleteRequest, received) == request
    assert not received.read()


@given(lists(binary(min_size=1, max_size=50), max_size=6), lists(integers(1, 40), max_size=20))
def test_however_the_bytes_are_cut_the_frames_are_the_same(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(struct.pack(">i", len(content)) + content for content in frames)
    splitter = AnswerSplitter()
    found = []
    for cut in cuts:
        found += splitter.feed(data[:cut])
        data = data[cut:]
    assert found + splitter.feed(data) == frames


@pytest.mark.parametrize("length", [0, -1, -(1 << 31), RESPONSE_BYTES_MAX + 1, (1 << 31) - 1])
def test_a_length_that_cannot_be_is_refused_before_anything_is_kept(length: int) -> None:
    with pytest.raises(MalformedAnswer, match=f"an answer of {length} bytes, where 1 to 16777216 are possible"):
        AnswerSplitter().feed(struct.pack(">i", length))


def test_the_longest_answer_allowed_is_taken() -> None:
    splitter = AnswerSplitter()
    assert splitter.feed(struct.pack(">i", RESPONSE_BYTES_MAX)) == []
    assert [len(answer) for answer in splitter.feed(bytes(RESPONSE_BYTES_MAX))] == [RESPONSE_BYTES_MAX]


def test_a_web_server_is_recognized() -> None:
    with pytest.raises(MalformedAnswer, match="HTTP: this is a web port, not the port of Hadoop's RPC"):
        AnswerSplitter().feed(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@given(binary(min_size=1, max_size=200))
@example(b"\x00")  # a header of no bytes: its required fields are missing
@example(b"\x04\x08\x01\x10\x09")  # a status that does not exist
@example(b"\xff" * 20)
def test_no_bytes_are_worse_than_malformed(data: bytes) -> None:
    try:
        answer = parse_answer(data)
    except MalformedAnswer as error:
        assert "that cannot be read" in str(error)
    else:
        assert answer.header.IsInitialized()


@pytest.mark.parametrize("call_id", [0, 7, (1 << 31) - 1, -1, -3, -33])
def test_ids_below_zero_come_as_large_numbers(call_id: int) -> None:
    header = RpcResponseHeader(call_id=call_id % (1 << 32), status=RpcResponseHeader.SUCCESS)
    answer = parse_answer(frame(header, CompleteResponse(result=True))[4:])
    assert (answer.call_id, parse_body(answer.body, CompleteResponse).result) == (call_id, True)


def test_an_answer_without_a_body_is_an_empty_one() -> None:
    header = RpcResponseHeader(call_id=1, status=RpcResponseHeader.SUCCESS)
    assert parse_body(parse_answer(frame(header)[4:]).body, FsyncResponse) == FsyncResponse()


@pytest.mark.parametrize("body", [b"", b"\x08", b"\x0a\x05abc"])
def test_an_answer_of_another_type_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer, match="an answer that is no CompleteResponse"):
        parse_body(body, CompleteResponse)


def test_required_fields_are_looked_for_inside_too() -> None:
    with pytest.raises(MalformedAnswer, match="an answer that is no GetListingResponse"):
        parse_body(b"\x0a\x00", GetListingResponse)
    assert parse_body(b"", GetListingResponse) == GetListingResponse()  # the directory is not there
