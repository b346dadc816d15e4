"""HMAC-MD5 of the same data with the keys of several connections: by the kernel in C, or by its Python twin without one.

`signatures(keys, heads, data)` returns SIGNATURE_BYTES per key, back to back. Signature `i` signs head `i` followed by the data,
with key `i`. `keys` and `heads` are back to back, KEY_BYTES and HEAD_BYTES each. Raises ValueError if their counts differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.hdfs.sasl.signatures_twin import HEAD_BYTES, KEY_BYTES, SIGNATURE_BYTES, signatures
else:
    from bmq.hdfs.sasl.signatures_native import HEAD_BYTES, KEY_BYTES, SIGNATURE_BYTES, signatures

__all__ = ["HEAD_BYTES", "KEY_BYTES", "SIGNATURE_BYTES", "signatures"]
