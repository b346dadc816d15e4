"""The last messages of a GSSAPI login (RFC 4752, section 3.1): both sides agree on the protection of later messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.hdfs.errors import AuthenticationRequired
from bmq.hdfs.security import Protection

BUFFER_BYTES: Final = 0xFFFFFF  # the longest wrapped message that we accept
_MESSAGE_BYTES: Final = 4


def chosen_layer(offer: bytes, wanted: Sequence[Protection], server: str) -> tuple[Protection, int]:
    """(the first wanted protection that the server offers, the longest message in bytes that it accepts).

    `offer`: the server's unwrapped message, a byte with a bit per protection and a 3-byte size. Raises AuthenticationRequired.
    """
    if len(offer) != _MESSAGE_BYTES:
        raise AuthenticationRequired(f"{server} offers its protections in {len(offer)} bytes, but 4 are expected")
    for protection in wanted:
        if offer[0] & protection.bit:
            return protection, int.from_bytes(offer[1:], "big")
    offered = ", ".join(one for one in Protection if offer[0] & one.bit) or "nothing"
    raise AuthenticationRequired(
        f"{server} offers {offered}, and hadoop.rpc.protection here demands {' or '.join(wanted)}:"
        " set it as in the server's core-site.xml"
    )


def layer_answer(protection: Protection) -> bytes:
    """Our answer: the protection's bit and our 3-byte size. No authorization identity follows: we act for no other user."""
    size_bytes = 0 if protection is Protection.AUTHENTICATION else BUFFER_BYTES
    return bytes((protection.bit,)) + size_bytes.to_bytes(3, "big")
