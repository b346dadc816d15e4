"""The small part of ZooKeeper's protocol that makes, resumes, logs in and closes a session, without a client library. Pure.

Each request and each answer is a jute record behind its length.
"""

from __future__ import annotations

import struct
from dataclasses import field
from typing import Final

from bmq.dataclass import dataclass

ANSWER_BYTES_MAX: Final = 4096
LENGTH: Final = struct.Struct(">i")

# Protocol version, last zxid seen, timeout in ms, session id, length of the password behind it.
_CONNECT: Final = struct.Struct(">iqiqi")
_CONNECTED: Final = struct.Struct(">iiq")
_NO_READ_ONLY_SERVER: Final = b"\0"
_XID: Final = 1
_CLOSE_SESSION: Final = -11
_SASL: Final = 102
_REPLY: Final = struct.Struct(">iqi")
# The length of bytes that are not there.
_NOTHING: Final = -1


class NoZooKeeper(Exception):
    """An answer that is not ZooKeeper's."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Identifies a session to resume it. The password is a secret: no log and no command line may show it."""

    id: int
    password: bytes = field(repr=False)


NEW_SESSION: Final = SessionKey(0, bytes(16))


def connect_request(key: SessionKey, timeout_ms: int) -> bytes:
    """The first request of a connection. The server adjusts `timeout_ms` to its own limits."""
    return _framed(_CONNECT.pack(0, 0, timeout_ms, key.id, len(key.password)) + key.password + _NO_READ_ONLY_SERVER)


def close_request() -> bytes:
    return _framed(struct.pack(">ii", _XID, _CLOSE_SESSION))


def sasl_request(message: bytes) -> bytes:
    """The next message of our login."""
    return _framed(struct.pack(">iii", _XID, _SASL, len(message)) + message)


def answer_bytes(length: bytes) -> int:
    """The length of the answer that follows. Raises NoZooKeeper."""
    (count,) = LENGTH.unpack(length)
    if not 0 <= count <= ANSWER_BYTES_MAX:
        raise NoZooKeeper("it speaks another protocol")
    return int(count)


def is_session_given(answer: bytes) -> bool:
    """Parse the answer to `connect_request`; False: the session is over, or the password wrong. Raises NoZooKeeper."""
    if len(answer) < _CONNECTED.size:
        raise NoZooKeeper("it speaks another protocol")
    _, timeout_ms, session_id = _CONNECTED.unpack_from(answer)
    return bool(timeout_ms > 0 and session_id != 0)


def sasl_message(answer: bytes) -> bytes:
    """Parse the answer to `sasl_request`: the server's message, empty when it is content. Raises NoZooKeeper."""
    if not _is_done(answer):
        raise NoZooKeeper("it does not accept our login")
    rest = answer[_REPLY.size :]
    if len(rest) < LENGTH.size:
        raise NoZooKeeper("it speaks another protocol")
    message = rest[LENGTH.size :]
    (count,) = LENGTH.unpack_from(rest)
    if count != len(message) and (message or count != _NOTHING):
        raise NoZooKeeper("it speaks another protocol")
    return message


def is_closed(answer: bytes) -> bool:
    """Parse the answer to `close_request`. Raises NoZooKeeper."""
    return _is_done(answer)


def _is_done(answer: bytes) -> bool:
    if len(answer) < _REPLY.size:
        raise NoZooKeeper("it speaks another protocol")
    xid, _, error = _REPLY.unpack_from(answer)
    return bool(xid == _XID and error == 0)


def _framed(record: bytes) -> bytes:
    return LENGTH.pack(len(record)) + record
