"""The bytes of Hadoop IPC version 9: how a connection begins, calls and answers. Pure.

A connection begins with `hrpc`, the version, a service class and a byte for the authentication. Everything behind is
frames: `int32 length`, then messages each behind its own length: a header, and for calls the method's name and the request.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from bmq.hdfs.authentication import CONTEXT_CALL_ID, SASL_CALL_ID, MessageLayer
from bmq.hdfs.delimited import delimited, read_delimited
from bmq.hdfs.proto.rpc_pb2 import (
    RPC_PROTOCOL_BUFFER,
    IpcConnectionContext,
    RequestHeader,
    RpcRequestHeader,
    RpcResponseHeader,
    RpcSasl,
    UserInformation,
)

RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024  # a page of 1,000 directory entries with their locations is about 1 MB
NO_RETRY_COUNT: Final = -1  # of frames that are no calls

_IPC_VERSION: Final = 9
_SERVICE_CLASS: Final = 0
_PROTOCOL_VERSION: Final = 1
_LENGTH: Final = Struct(">i")

M = TypeVar("M", bound=Message)


class MalformedAnswer(ValueError):
    """Bytes that no Hadoop IPC server sends. The message describes them."""


class Answer(NamedTuple):
    """One frame of a server: `body` is the answer to a call, or a SASL message, still encoded."""

    call_id: int
    header: RpcResponseHeader
    body: bytes


def first_bytes(authentication_byte: int) -> bytes:
    return b"hrpc" + bytes((_IPC_VERSION, _SERVICE_CLASS, authentication_byte))


def context_frame(client_id: bytes, protocol_name: str, user: UserInformation) -> bytes:
    """The frame that names the protocol and the user. A server answers it only to refuse it."""
    context = IpcConnectionContext(user_info=user, protocol=protocol_name)
    return _frame(_header(CONTEXT_CALL_ID, client_id, NO_RETRY_COUNT) + delimited(context))


def sasl_frame(client_id: bytes, message: RpcSasl) -> bytes:
    return _frame(_header(SASL_CALL_ID, client_id, NO_RETRY_COUNT) + delimited(message))


def protected_frames(client_id: bytes, layer: MessageLayer, data: bytes) -> bytes:
    """The frames that carry `data` over a connection that a layer protects."""
    size_bytes = layer.bytes_max
    parts = (data[start : start + size_bytes] for start in range(0, len(data), size_bytes))
    return b"".join(sasl_frame(client_id, RpcSasl(state=RpcSasl.WRAP, token=layer.wrap(part))) for part in parts)


def call_frame(
    *, call_id: int, retry_count: int, client_id: bytes, protocol_name: str, method: str, request: Message
) -> bytes:
    method_header = RequestHeader(
        method_name=method, declaring_class_protocol_name=protocol_name, client_protocol_version=_PROTOCOL_VERSION
    )
    return _frame(_header(call_id, client_id, retry_count) + delimited(method_header) + delimited(request))


def parse_answer(frame: bytes) -> Answer:
    """The decoded frame. Raises MalformedAnswer."""
    try:
        encoded, position = read_delimited(frame, 0)
        header = _parsed(encoded, RpcResponseHeader)
        body = read_delimited(frame, position)[0] if position < len(frame) else b""
    except (ValueError, DecodeError) as error:
        raise MalformedAnswer(f"an answer of {len(frame)} bytes that cannot be read ({error})") from error
    call_id = header.call_id
    if call_id >= 1 << 31:  # the field is unsigned, but an id can be negative
        call_id -= 1 << 32
    return Answer(call_id, header, body)


def parse_body(body: bytes, response_type: type[M]) -> M:
    """The decoded body of an answer. Raises MalformedAnswer."""
    try:
        return _parsed(body, response_type)
    except DecodeError as error:
        raise MalformedAnswer(f"an answer that is no {response_type.DESCRIPTOR.name} ({error})") from error


class AnswerSplitter:
    """Cuts received bytes into frames. Keeps at most one incomplete frame, of at most RESPONSE_BYTES_MAX."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now. Raises MalformedAnswer; then no more bytes can be read."""
        received = self._received
        received += data
        frames: list[bytes] = []
        position = 0
        while len(received) - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, position)
            if not 0 < length <= RESPONSE_BYTES_MAX:
                raise MalformedAnswer(_wrong_length(bytes(received[position : position + 4]), length))
            end = position + _LENGTH.size + length
            if end > len(received):
                break
            frames.append(bytes(received[position + _LENGTH.size : end]))
            position = end
        del received[:position]
        return frames


def _parsed(encoded: bytes, message_type: type[M]) -> M:
    message = message_type.FromString(encoded)
    if not message.IsInitialized():  # parsing alone accepts messages without their required fields
        raise DecodeError("required fields are missing")
    return message


def _wrong_length(head: bytes, length: int) -> str:
    if head == b"HTTP":
        return "HTTP: this is a web port, not the port of Hadoop's RPC"
    return f"an answer of {length} bytes, where 1 to {RESPONSE_BYTES_MAX} are possible"


def _frame(messages: bytes) -> bytes:
    return _LENGTH.pack(len(messages)) + messages


def _header(call_id: int, client_id: bytes, retry_count: int) -> bytes:
    return delimited(
        RpcRequestHeader(
            rpc_kind=RPC_PROTOCOL_BUFFER,
            rpc_op=RpcRequestHeader.RPC_FINAL_PACKET,
            call_id=call_id,
            client_id=client_id,
            retry_count=retry_count,
        )
    )
