"""How one node connects to another by TLS, and why it does not."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from bmq.dataclass import dataclass
from bmq.security.handshake_failures import node_dial_failure
from bmq.security.internode import why_no_node


@dataclass(frozen=True, slots=True)
class LinkTls:
    """`context`: with this node's certificate, and the authorities of other nodes. `falls_back`: connect in plaintext where TLS
    fails, for the time in which a cluster changes to it. `needs_node`: the peer has to prove that it is a node; False for a
    listener of clients, of which the context alone decides.
    """

    context: ssl.SSLContext
    falls_back: bool = False
    needs_node: bool = True


class NotEncrypted(Exception):
    """There is no TLS with that node; the message says what to change."""


async def connect(
    loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol, host: str, port: int, tls: LinkTls | None
) -> None:
    """Connect `protocol`, by TLS if asked for, and then only to a node. Raises OSError: no connection; NotEncrypted."""
    if tls is None:
        await loop.create_connection(lambda: protocol, host, port)
        return
    try:
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=tls.context, server_hostname=host)
    except ssl.SSLError as error:
        raise NotEncrypted(node_dial_failure(error.reason, getattr(error, "verify_message", ""))) from None
    except (ConnectionResetError, ConnectionAbortedError):
        raise NotEncrypted(_ENDED) from None
    if tls.needs_node and (why := why_no_node(transport.get_extra_info("peercert"), allows_plaintext=False)):
        transport.abort()
        raise NotEncrypted(why)


def loss(error: Exception | None) -> str:
    """Why a connection was lost."""
    if isinstance(error, ssl.SSLError):
        return node_dial_failure(error.reason, getattr(error, "verify_message", ""))
    return "the connection was closed" if error is None else f"the connection broke ({error})"


REFUSED_AFTERWARDS: Final = "right after the TLS handshake: if it refuses this node's certificate, its log says why"
"""A node looks at our certificate after our side of the handshake is done."""
_ENDED: Final = "it ended the TLS handshake: it may not speak TLS (internode_security there), or be on its way out"
