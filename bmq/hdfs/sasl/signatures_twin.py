"""HMAC-MD5 by Python's standard library, one key after the other; native/hmac_md5.c returns the same bytes."""

from __future__ import annotations

import hmac
from typing import Final

from bmq.log.store import Buffer

KEY_BYTES: Final = 16
HEAD_BYTES: Final = 4
SIGNATURE_BYTES: Final = 16


def count_of(keys: bytes, heads: bytes) -> int:
    """The number of keys. Raises ValueError if the number of heads differs."""
    count = len(keys) // KEY_BYTES
    if (len(keys), len(heads)) != (count * KEY_BYTES, count * HEAD_BYTES):
        raise ValueError(f"keys of {len(keys)} bytes and heads of {len(heads)}")
    return count


def signatures(keys: bytes, heads: bytes, data: Buffer) -> bytes:
    """The signatures, as signatures.py specifies them. Raises ValueError."""
    found = []
    for number in range(count_of(keys, heads)):
        key = keys[number * KEY_BYTES : (number + 1) * KEY_BYTES]
        made = hmac.new(key, heads[number * HEAD_BYTES : (number + 1) * HEAD_BYTES], "md5")
        made.update(data)
        found.append(made.digest())
    return b"".join(found)
