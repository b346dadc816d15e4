"""Limits of one server on clients, or other nodes. Names and defaults are Kafka's where it has them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from bmq.dataclass import dataclass
from bmq.protocol.frames import FORWARDED_BYTES_MAX, FRAME_BYTES_MAX_BETWEEN_NODES


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of one listener. At most of them a socket is no longer read, so that no request is dropped and no memory grows."""

    request_bytes_max: Annotated[int, Field(gt=0, le=FORWARDED_BYTES_MAX)] = 100 * 1024 * 1024
    """`socket.request.max.bytes`: a longer frame closes its connection; at most 133169152."""
    other_request_bytes_max: int = 16 * 1024 * 1024
    """Longest frame of requests other than Produce; a longer one closes its connection.

    They have no records: none of Kafka's clients sends one of a tenth of that."""
    at_once_bytes_max: int = 2 * 1024
    """A longer request is answered in parts, and the next one of its connection begins after the answer.

    Produce and Fetch have their own bounds. Each turn of the event loop decodes and answers one part."""
    decoded_whole_bytes_max: int = 64 * 1024
    """A longer request, if its elements are answered independently, is decoded and answered element by element.

    This takes half as long again, and a tenth of the memory."""
    fetch_at_once_bytes_max: int = 64 * 1024
    """A longer Fetch is decoded in parts.

    A Fetch of this length has a thousand partitions or more."""
    large_request_ms: int = 20_000
    """After this time no further part of a large request is begun, and its connection is closed.

    Clients give requests up after 30 s, and the request may have waited unread before (`loop_stall_max_ms`)."""
    decoded_bytes_max: int = 64 * 1024 * 1024
    """Approximate memory of large requests and their answers, of all connections; beyond it they wait undecoded."""
    in_flight_requests_max: int = 512
    """Open requests of one connection; beyond it the socket is not read.

    librdkafka sends one request per batch, and batches that stay unread cannot
    share an append: a low limit makes many small appends for a client that writes to hundreds of partitions."""
    in_flight_bytes_max: int = 16 * 1024 * 1024
    """Bytes of the open requests of one connection; beyond it the socket is not read.

    A single larger request still passes."""
    in_flight_total_bytes_max: int = 64 * 1024 * 1024
    """Bytes of the open requests of all connections.

    At most the broker's `append_bytes_max`, so that no append is refused."""
    in_flight_reserved_bytes: int = 16 * 1024
    """Bytes that one connection may always have in flight, also when the total is at its limit."""
    unsent_bytes_max: int = 4 * 1024 * 1024
    """Answers that one client has not read; beyond it none of its requests is begun."""
    stalled_request_ms: int = 30_000
    """How long a half-sent request may hold room in a full shared budget without another byte.

    The one request that may exceed the limit to be completed has this long in all."""
    connections_max: int = 10_000
    """Connections; one more is closed at once."""
    pending_connections_max: Annotated[int, Field(ge=16)] = 1_024
    """Connections whose TLS handshake or login is not done; beyond it the oldest is closed."""
    pending_connections_per_host_max: Annotated[int, Field(ge=16)] = 256
    """Connections from one address whose TLS handshake or login is not done; beyond it the oldest is closed."""
    connections_max_idle_ms: int = 600_000
    """`connections.max.idle.ms`: silent connections are closed."""
    frames_per_turn_max: int = 64
    """Requests of one connection that are begun before other connections have their turn."""
    frame_bytes_at_first_max: int = 128 * 1024
    """Memory that is allocated for an announced request before its bytes arrive."""
    receive_buffer_bytes: int = 256 * 1024
    """Size of the buffer that all connections receive into."""


BETWEEN_NODES: Final = ProxyLimits(
    request_bytes_max=FRAME_BYTES_MAX_BETWEEN_NODES,  # a client's longest request, and what is added to it
    # One link carries the produces of all clients of a proxy, and their long polls.
    in_flight_requests_max=8_192,
    in_flight_bytes_max=64 * 1024 * 1024,
    # Produces that wait for a hung store must not keep heartbeats from being read, or nodes would be declared dead.
    in_flight_reserved_bytes=64 * 1024,
    unsent_bytes_max=16 * 1024 * 1024,
    connections_max=1_024,
    frames_per_turn_max=256,
    connections_max_idle_ms=2**31 - 1,  # idle links are monitored, not closed
)
"""Limits of the internal listener: few peers, each with much in flight, and permanent connections."""
