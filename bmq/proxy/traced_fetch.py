"""A traced Fetch: notes when it reads from memory, when it reads from the store, and when it waits."""

from __future__ import annotations

from functools import partial
from typing import Any

from bmq.protocol.codec import RequestHeader
from bmq.protocol.request_context import RequestContext
from bmq.proxy.fetch_job import FetchJob
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.pending_read import PendingRead
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services
from bmq.tracing.trace import Attribute, Span, Trace


class TracedFetchJob(FetchJob):
    """The job of one traced request."""

    __slots__ = ("_root", "_waiting")

    def __init__(self, trace: Trace, *given: Any) -> None:
        super().__init__(*given)
        self._root = trace.root
        self._waiting: Span | None = None

    def _read_partitions(self) -> None:
        span = self._root.begin("read from memory", self._shared.loop.time())
        super()._read_partitions()
        # Bytes that are not from the tail of a log are from the read cache, or are sent out of a local file.
        tail_bytes, cached_bytes = self._tail_bytes, self._total_bytes - self._tail_bytes
        about = {"bmq.tail_bytes": tail_bytes, "bmq.cached_bytes": cached_bytes, "bmq.partitions": len(self._logs)}
        span.attributes.update(about)
        span.end(self._shared.loop.time())

    def _wait(self, due_s: float) -> None:
        self._waiting = self._root.begin("wait", self._shared.loop.time())
        super()._wait(due_s)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.end(self._shared.loop.time())
            self._waiting = None
        super()._stop_waiting()

    async def _settle_one(self, pending: PendingRead) -> bool:
        name = "confirm the owner" if pending.length_bytes_max is None else "read from the store"
        interest, before_bytes = pending.interest, self._total_bytes
        about: dict[str, Attribute] = {
            "messaging.destination.name": interest.topic_name or "",
            "messaging.destination.partition.id": str(interest.partition),
            "messaging.kafka.offset": interest.fetch_offset,
        }
        span = self._root.begin(name, self._shared.loop.time(), about)
        try:
            return await super()._settle_one(pending)
        finally:
            span.end(self._shared.loop.time(), bmq__bytes=self._total_bytes - before_bytes)


class TracedFetcher:
    """The FetchHandler of one traced request."""

    def __init__(self, fetcher: Fetcher, trace: Trace) -> None:
        self._fetcher = fetcher
        self._make_job = partial(TracedFetchJob, trace)

    def fetch(
        self, frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        """See FetchHandler."""
        self._fetcher.fetch_by(self._make_job, frame, header, context, services, reply)
