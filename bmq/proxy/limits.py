"""How much clients, or other nodes, may ask of one server at once. Names and defaults follow Kafka's where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """At each limit a socket stops being read; nothing is dropped and nothing grows."""

    request_bytes_max: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`: a longer frame closes its connection."""
    in_flight_requests_max: int = 512
    """Requests of one connection that are not answered yet. librdkafka sends a request for each batch: what more of them wait
    unread could share an append, so few make many small ones of a client that writes to hundreds of partitions."""
    in_flight_bytes_max: int = 16 * 1024 * 1024
    """Their bytes, of one connection; a single larger request still passes."""
    in_flight_total_bytes_max: int = 64 * 1024 * 1024
    """Their bytes, of all connections together; not above the broker's `append_bytes_max`, so that no append is refused."""
    in_flight_reserved_bytes: int = 16 * 1024
    """What one connection may have in flight even when all together are at their limit: heartbeats go on then."""
    unsent_bytes_max: int = 4 * 1024 * 1024
    """Answers of one connection the client has not taken: beyond it no further request of it is begun."""
    stalled_request_ms: int = 30_000
    """A half-sent request may sit on a full shared budget for so long without another byte; the one that may go past the
    limit to be received has as long in all."""
    connections_max: int = 10_000
    connections_max_idle_ms: int = 600_000
    """`connections.max.idle.ms`: a connection on which nothing moves is closed."""
    frames_per_turn_max: int = 64
    """Requests of one connection that are begun before the others have their turn."""
    frame_bytes_at_first_max: int = 128 * 1024
    """What an announced frame gets before its bytes are there."""
    receive_buffer_bytes: int = 256 * 1024


BETWEEN_NODES: Final = ProxyLimits(
    # One link carries the produces of all clients of a proxy, and long polls beside them.
    in_flight_requests_max=8_192,
    in_flight_bytes_max=64 * 1024 * 1024,
    # Produces that wait for a store that hangs must not keep heartbeats from being read: nodes would be thought dead.
    in_flight_reserved_bytes=64 * 1024,
    unsent_bytes_max=16 * 1024 * 1024,
    connections_max=1_024,
    frames_per_turn_max=256,
    connections_max_idle_ms=2**31 - 1,  # an idle link is watched, not closed
)
"""The internal listener's: few peers, each with much under way, and connections that are kept."""
