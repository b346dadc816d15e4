"""What a worker tells its supervisor through their pipe. Pure.

`.` is a heartbeat; `s`, a session's id in ZooKeeper and its password: the session this worker has from now on. Each fits
into one write that a pipe takes whole or not at all.
"""

from __future__ import annotations

import struct
from typing import Final

from bmq.election.zookeeper_wire import SessionKey

BEAT: Final = b"."
# ZooKeeper's have 16.
PASSWORD_BYTES_MAX: Final = 256
_SESSION: Final = struct.Struct(">cq")
_SESSION_KIND: Final = b"s"


def session_message(key: SessionKey) -> bytes:
    """`key.password` has no more than PASSWORD_BYTES_MAX."""
    return _SESSION.pack(_SESSION_KIND, key.id) + key.password


def session_of(message: bytes) -> SessionKey | None:
    """None when it tells of none."""
    if len(message) < _SESSION.size or not message.startswith(_SESSION_KIND):
        return None
    return SessionKey(_SESSION.unpack_from(message)[1], message[_SESSION.size :])
