"""The last turn of GSSAPI in SASL (RFC 4752): which protection both sides use from then on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.hdfs.errors import AuthenticationRequired
from bmq.hdfs.security import Protection

BUFFER_BYTES: Final = 0xFFFFFF  # most bytes of a wrapped message that we take
_MESSAGE_BYTES: Final = 4


def chosen_layer(offer: bytes, wanted: Sequence[Protection], server: str) -> tuple[Protection, int]:
    """The first wanted protection that is offered, and the most bytes the server takes at once.

    `offer`: one byte of bits, three of a size. Raises AuthenticationRequired.
    """
    if len(offer) != _MESSAGE_BYTES:
        raise AuthenticationRequired(f"{server} offers its protections in {len(offer)} bytes, where 4 are right")
    for protection in wanted:
        if offer[0] & protection.bit:
            return protection, int.from_bytes(offer[1:], "big")
    offered = ", ".join(one for one in Protection if offer[0] & one.bit) or "nothing"
    raise AuthenticationRequired(
        f"{server} offers {offered}, and hadoop.rpc.protection here demands {' or '.join(wanted)}:"
        " set it as in the server's core-site.xml"
    )


def layer_answer(protection: Protection) -> bytes:
    """No other user is named behind it: we act for nobody else."""
    size_bytes = 0 if protection is Protection.AUTHENTICATION else BUFFER_BYTES
    return bytes((protection.bit,)) + size_bytes.to_bytes(3, "big")
