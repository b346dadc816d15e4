"""A worker's messages to its supervisor through their pipe. Pure.

`.` is a heartbeat; `s` with an id and a password names the worker's ZooKeeper session from now on. Each message fits
into one atomic write to a pipe.
"""

from __future__ import annotations

import struct
from typing import Final

from bmq.election.zookeeper_wire import SessionKey

BEAT: Final = b"."
# ZooKeeper's passwords have 16 bytes.
PASSWORD_BYTES_MAX: Final = 256
_SESSION: Final = struct.Struct(">cq")
_SESSION_KIND: Final = b"s"


def session_message(key: SessionKey) -> bytes:
    """The message that names a session. `key.password` has at most PASSWORD_BYTES_MAX bytes."""
    return _SESSION.pack(_SESSION_KIND, key.id) + key.password


def session_of(message: bytes) -> SessionKey | None:
    """The session in the message; None if it has none."""
    if len(message) < _SESSION.size or not message.startswith(_SESSION_KIND):
        return None
    return SessionKey(_SESSION.unpack_from(message)[1], message[_SESSION.size :])
