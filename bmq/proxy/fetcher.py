"""The read path of a process: accepts Fetch requests, and keeps catch-up reads from slowing down produces, or their clients.

There is one Fetcher per process. fetch_job.py has one request; fetch_resources.py has the objects that all requests share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

import structlog

from bmq.aio.loop_turns import run_in_turns
from bmq.log.lanes.names import MARK, LaneRefused
from bmq.log.latency import LatencyHistogram
from bmq.log.store import SegmentStore
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, decode_request, decode_request_in_turns
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage, TooManyElements
from bmq.protocol.hot_fetch import encode_fetch_response
from bmq.proxy.access import TopicGrants
from bmq.proxy.batch_opener import RunAside
from bmq.proxy.catch_up_throttle import ADJUST_INTERVAL_S
from bmq.proxy.consumer_pace import ConsumerPaces
from bmq.proxy.fetch_job import FetchJob
from bmq.proxy.fetch_metrics import FetchCollector
from bmq.proxy.fetch_reader import Reader, ReplicaRights, Rights, is_of_replica
from bmq.proxy.fetch_refusal import ISOLATION_LEVELS, refused_fetch, throttled_fetch
from bmq.proxy.fetch_resources import FetchResources
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.lanes.lane_fetch_filter import lane_filter_of
from bmq.proxy.preferred_read_replica import PreferredReadReplicas
from bmq.security.acls import Operation

if TYPE_CHECKING:
    from bmq.protocol.request_context import RequestContext
    from bmq.proxy.reply import Reply
    from bmq.proxy.services import Services

_log = structlog.get_logger("bmq.proxy")

PARTITIONS_MAX: Final = 20_000
"""Most partitions, and most topics, of one Fetch: all are looked at in one turn of the event loop."""
ELEMENTS_MAX: Final = 5 * PARTITIONS_MAX
"""Most elements of such a Fetch: topics, partitions, forgotten topics, and two tagged fields of each partition."""
_ERROR_CODES_FROM: Final = 7
"""The first version of Fetch whose response has an error code for the whole request."""


MakeJob = Callable[..., FetchJob]


class Fetcher:
    """Implements bmq.proxy.services.FetchHandler. Created on its loop; `close` it before the partitions and the store.

    `random`, `run_aside`: see FetchResources. `produce_times`: latency histograms (with the throttle's bounds) of the produces
    that catch-up reads must not slow down.
    """

    def __init__(
        self,
        store: SegmentStore,
        config: FetchSettings,
        *,
        random: Random,
        produce_times: Sequence[LatencyHistogram] = (),
        elapsed_s: Callable[[], float] | None = None,
        run_aside: RunAside = asyncio.to_thread,
    ) -> None:
        self.shared = FetchResources(store, config, random, elapsed_s, run_aside)
        self.collector = FetchCollector(self.shared.counts, self._levels)
        self._loop = self.shared.loop
        self._preferred_read_replicas = PreferredReadReplicas(
            self.shared.counts, again_ms=config.fetch_rack_again_ms, redirects_max=config.fetch_rack_redirects_max
        )
        self.paces = ConsumerPaces()
        self._produce_times = produce_times
        self._adjusted_s = self._loop.time()
        self._produces_seen = self._produce_counts()
        self._adjust_timer = self._loop.call_later(ADJUST_INTERVAL_S, self._adjust_throttle) if produce_times else None

    def fetch(
        self, frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        """See FetchHandler."""
        self._begin(decode_request(header, frame), header, context, services, reply)

    def fetch_by(
        self,
        make_job: MakeJob,
        frame: bytearray,
        header: RequestHeader,
        context: RequestContext,
        services: Services,
        reply: Reply,
    ) -> None:
        """Answer a Fetch as `fetch` does, by a job of the caller's. Raises MalformedMessage."""
        self._begin(decode_request(header, frame), header, context, services, reply, make_job)

    async def fetch_in_turns(
        self, frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        """See FetchHandler."""
        try:
            request = await run_in_turns(decode_request_in_turns(header, frame, ELEMENTS_MAX), context.turns)
        except TooManyElements:
            request = None
        if request is None or _named(request) > PARTITIONS_MAX:
            if header.api_version < _ERROR_CODES_FROM:
                raise MalformedMessage(f"more than {PARTITIONS_MAX} partitions are named")
            services.stats.note_error(ApiKey.FETCH, ErrorCode.INVALID_REQUEST)
            code = ErrorCode.INVALID_REQUEST
            reply(encode_fetch_response(header.api_version, header.correlation_id, (), error_code=code))
            return
        self._begin(request, header, context, services, reply)

    def _begin(
        self,
        request: Any,
        header: RequestHeader,
        context: RequestContext,
        services: Services,
        reply: Reply,
        make_job: MakeJob = FetchJob,
    ) -> None:
        if request.isolation_level not in ISOLATION_LEVELS:
            services.stats.note_error(ApiKey.FETCH, ErrorCode.UNKNOWN_SERVER_ERROR)
            reply(refused_fetch(header, request, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        lane_filter = None
        if context.client_id is not None and context.client_id.startswith(MARK):
            try:
                lane_filter = lane_filter_of(context, services, self.shared.opener, self.shared.filtered)
            except LaneRefused as error:
                _log.warning("fetch_refused", client_id=context.client_id, reason=str(error))
                services.stats.note_error(ApiKey.FETCH, ErrorCode.INVALID_REQUEST)
                reply(refused_fetch(header, request, ErrorCode.INVALID_REQUEST))
                return
        scope = self.shared.sessions.resolve(request, header.api_version, int(self._loop.time() * 1000))
        throttle = context.throttle
        if throttle is not None and not scope.error_code and (wait_ms := throttle.fetch_wait_ms()):
            reply(throttled_fetch(header, self.shared.sessions.throttled(scope), wait_ms))
            return
        near = self._preferred_read_replicas.reader(request.rack_id, context, services) if request.rack_id else None
        is_replica, access = is_of_replica(request, header.api_version), services.access
        rights: Rights | TopicGrants | None = None
        if access.is_on and is_replica:
            rights = ReplicaRights(access, context)
        elif access.is_on:
            rights = access.topic_grants(context, Operation.READ, services.controller.image)
        pace = self.paces.of(context, services.controller)
        reader = Reader(near, pace, rights, throttle, lane_filter, is_replica)
        job = make_job(self.shared, services, header, request, scope, reply, reader)
        if pace is not None and pace.due_s > self._loop.time():
            self.shared.deadlines.add(job.run, pace.due_s)
        else:
            job.run()

    def stop_waiting(self) -> None:
        """Answer all waiting fetches with the records found so far, and let no fetch wait from now on; the server stops."""
        self.shared.stop_waiting()

    async def close(self) -> None:
        """Drop all waits and cancel all reads. Requests that wait are not answered."""
        if self._adjust_timer is not None:
            self._adjust_timer.cancel()
            self._adjust_timer = None
        await self.shared.close()

    def _adjust_throttle(self) -> None:
        now_s, produces = self._loop.time(), self._produce_counts()
        self.shared.throttle.adjust(
            [now - before for now, before in zip(produces, self._produces_seen, strict=True)],
            max(now_s - self._adjusted_s, ADJUST_INTERVAL_S / 2),
        )
        self._adjusted_s, self._produces_seen = now_s, produces
        self._adjust_timer = self._loop.call_later(ADJUST_INTERVAL_S, self._adjust_throttle)

    def _produce_counts(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(times.counts for times in self._produce_times), strict=True)))

    def _levels(self) -> Mapping[tuple[str, str], float]:
        shared = self.shared
        return {
            ("bmq_fetches_waiting", "Fetches that wait for records."): len(shared.deadlines),
            ("bmq_fetch_sessions", "Incremental fetch sessions."): len(shared.sessions),
            (
                "bmq_fetch_session_partitions",
                "Partitions of all incremental fetch sessions.",
            ): shared.sessions.partition_count,
            ("bmq_fetch_response_bytes", "Bytes of records in unsent responses."): shared.budget.bytes_used,
            (
                "bmq_fetch_response_max_bytes",
                "Budget of bytes of records in unsent responses.",
            ): shared.budget.bytes_max,
            ("bmq_catch_up_limit_bytes_per_second", "Limit of this process's catch-up reads; 0: no limit."): (
                0 if shared.throttle.limit_bytes_per_s == inf else shared.throttle.limit_bytes_per_s
            ),
            ("bmq_produce_calm_p99_seconds", "p99 of produces without catch-up reads; 0: not known."): (
                0 if shared.throttle.calm_p99_s == inf else shared.throttle.calm_p99_s
            ),
            ("bmq_read_cache_bytes", "Bytes of segment files in memory."): shared.read_cache.bytes_used,
            (
                "bmq_view_cache_bytes",
                "Bytes of filtered batches of views and lanes in memory.",
            ): shared.view_reads.remembered_bytes,
            ("bmq_read_cache_max_bytes", "Budget of bytes of segment files in memory."): shared.read_cache.bytes_max,
        }


def _named(request: Any) -> int:
    """How many partitions the request names, or topics if these are more."""
    partitions = sum(len(topic.partitions) for topic in request.topics)
    partitions += sum(len(topic.partitions) for topic in request.forgotten_topics_data)
    return max(partitions, len(request.topics), len(request.forgotten_topics_data))
