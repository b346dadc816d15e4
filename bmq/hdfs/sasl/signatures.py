"""HMAC-MD5 of the same data by the keys of several connections. By the kernel in C, or its twin where there is none.

`signatures(keys, heads, data)`: SIGNATURE_BYTES for each key. Signature `i` is of head `i` and the data behind it. `keys` and
`heads` have entries of KEY_BYTES and HEAD_BYTES, back to back. Raises ValueError when they are not as many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.hdfs.sasl.signatures_twin import HEAD_BYTES, KEY_BYTES, SIGNATURE_BYTES, signatures
else:
    from bmq.hdfs.sasl.signatures_native import HEAD_BYTES, KEY_BYTES, SIGNATURE_BYTES, signatures

__all__ = ["HEAD_BYTES", "KEY_BYTES", "SIGNATURE_BYTES", "signatures"]
