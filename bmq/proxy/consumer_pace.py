"""Paces the answers to librdkafka's consumers while they read a backlog from several proxies.

librdkafka receives from each proxy in a thread of its own, and queues records until the application takes them. If proxies answer
as fast as these threads ask, the threads take the processors from the application. Soon the queue is full, and then librdkafka
asks for no records for a second (queued.max.messages.kbytes, fetch.queue.backoff.ms). So a connection gets full answers at most a
little faster than its average over the last tenth of a second, and never in bursts.
A single proxy paces no client: its clients receive in one thread, which gets no further ahead than the application lets it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bmq.proxy.live_proxies import proxies_of

if TYPE_CHECKING:
    from bmq.metadata.image import MetadataImage
    from bmq.protocol.request_context import Peer, RequestContext

FULL_BYTES: Final = 512 * 1024  # least size of an answer that is paced: smaller ones come from the end of the log
WINDOW_S: Final = 0.1  # time constant of the average rate
PAUSE_S: Final = 0.05  # longest time between two answers that counts for the rate
HEADROOM: Final = 1.15  # how much faster than its average a connection may get: e-fold in 0.7 s
CREDIT_S: Final = 0.002  # how much earlier answers may follow a late one: timers are coarse
RATE_START: Final = 7e8  # bytes/s
RATE_MIN: Final = 128 * 1024 * 1024  # bytes/s
_LIBRDKAFKA: Final = "librdkafka"


class ConsumerPace:
    """The pace of one connection's fetches. Decisions only; the caller passes the time.

    `due_s`: the time until which the next fetch waits.
    """

    __slots__ = ("_last_bytes", "_last_s", "_rate", "due_s")

    def __init__(self) -> None:
        self._rate = RATE_START
        self._last_s = 0.0  # when the last full answer was sent
        self._last_bytes = 0
        self.due_s = 0.0

    def answered(self, arrived_s: float, now_s: float, size_bytes: int) -> None:
        """Count an answer with `size_bytes` of records, sent now to a fetch that arrived at `arrived_s`.

        The time between the two (reads from the store) does not count as the client's.
        """
        if size_bytes < FULL_BYTES:
            return
        taken_s = max(0.0, min(now_s, max(arrived_s, self.due_s)) - self._last_s)
        if taken_s < PAUSE_S:
            self._rate = max(RATE_MIN, self._rate + (self._last_bytes - self._rate * taken_s) / WINDOW_S)
        self._last_s = now_s
        self._last_bytes = size_bytes
        self.due_s = max(now_s - CREDIT_S, self.due_s) + size_bytes / (self._rate * HEADROOM)


class Metadata(Protocol):
    """Where the newest image is."""

    @property
    def image(self) -> MetadataImage: ...


class ConsumerPaces:
    """The paces of all connections of this process. A pace ends with its connection."""

    def __init__(self) -> None:
        self._paces: dict[Peer, ConsumerPace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    def of(self, context: RequestContext, metadata: Metadata) -> ConsumerPace | None:
        """The pace of this connection; None if it is not paced."""
        peer = context.peer
        if peer is None or not _is_librdkafka(context) or len(proxies_of(metadata.image).by_id) < 2:
            return None
        pace = self._paces.get(peer)
        if pace is None:
            pace = self._paces[peer] = ConsumerPace()
            peer.on_lost(partial(self._end, peer))
        return pace

    def _end(self, peer: Peer) -> None:
        del self._paces[peer]


def _is_librdkafka(context: RequestContext) -> bool:
    """Whether the client is librdkafka, also behind a binding ("confluent-kafka-python", version "2.3.0-librdkafka-2.3.0")."""
    return _LIBRDKAFKA in context.client_software_name or _LIBRDKAFKA in context.client_software_version
