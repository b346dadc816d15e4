"""HMAC-MD5 in C: calls native/hmac_md5.c. A call takes microseconds, and does not release the interpreter's lock."""

from __future__ import annotations

import ctypes
from typing import Final

from bmq.hdfs.sasl.signatures_twin import HEAD_BYTES as HEAD_BYTES
from bmq.hdfs.sasl.signatures_twin import KEY_BYTES as KEY_BYTES
from bmq.hdfs.sasl.signatures_twin import SIGNATURE_BYTES as SIGNATURE_BYTES
from bmq.hdfs.sasl.signatures_twin import count_of
from bmq.log.store import Buffer
from bmq.records.native.calls import brief_function
from bmq.records.native.memory import Pins

_Pointer: Final = ctypes.c_void_p
_Int64: Final = ctypes.c_int64

_hmac_md5 = brief_function("bmq_hmac_md5", ctypes.c_char_p, ctypes.c_char_p, _Int64, _Pointer, _Int64, ctypes.c_char_p)


def signatures(keys: bytes, heads: bytes, data: Buffer) -> bytes:
    """The signatures, as signatures.py specifies them. Raises ValueError."""
    count = count_of(keys, heads)
    found = ctypes.create_string_buffer(max(count * SIGNATURE_BYTES, 1))
    with Pins() as pins:
        _hmac_md5(keys, heads, count, pins.address(data), len(data), found)
    return found.raw[: count * SIGNATURE_BYTES]
