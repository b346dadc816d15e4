"""The read path as a whole: what all fetches share, and who starts partitions that fetches wait for.

One object per process: sessions, read cache, waits, deadlines and the budget of unsent responses. fetch_job.py takes one
request through it.
"""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Coroutine, Mapping, Sequence
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

import structlog

from bmq.log.latency import LatencyHistogram
from bmq.log.partition_log import TopicPartition
from bmq.log.store import SegmentStore
from bmq.protocol.codec import RequestHeader, decode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.proxy.catch_up import CatchUp
from bmq.proxy.catch_up_governor import LOOK_INTERVAL_S, CatchUpGovernor
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.fetch_config import FetchConfig
from bmq.proxy.fetch_job import FetchJob
from bmq.proxy.fetch_metrics import FetchCollector, FetchCounts
from bmq.proxy.fetch_session import SessionCache
from bmq.proxy.fetch_wait import Deadlines, PartitionWaits
from bmq.proxy.near_replica import NearReplicas
from bmq.proxy.read_cache import ReadCache

if TYPE_CHECKING:
    from bmq.protocol.request_context import RequestContext
    from bmq.proxy.appender import Partitions
    from bmq.proxy.dispatch import Reply
    from bmq.proxy.services import Services

_SESSION_ID_MAX: Final = 2**31 - 1
_log = structlog.get_logger("bmq.proxy")


class Fetcher:
    """Made on the loop it runs on; `close` it before the partitions and the store.

    `random` gives the numbers of sessions: a restarted server must not give the same ones again, or a consumer that did
    not notice the restart could go on in the session of another one. `produce_times`, with the governor's bounds: of the
    produces that catch-up reads must not slow down.
    """

    def __init__(
        self,
        store: SegmentStore,
        config: FetchConfig,
        *,
        random: Random,
        produce_times: Sequence[LatencyHistogram] = (),
    ) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.counts = FetchCounts()
        self.sessions = SessionCache(
            slots_max=config.fetch_session_slots_max,
            partitions_max=config.fetch_session_partitions_max,
            eviction_ms=config.fetch_session_eviction_ms,
            new_id=lambda: random.randint(1, _SESSION_ID_MAX),
        )
        self.waits = PartitionWaits()
        self.deadlines = Deadlines(self.loop)
        self.budget = ResponseBudget(config.fetch_response_bytes_max)
        self.read_cache = ReadCache(store, config, self.counts)
        self.catch_up = CatchUp(self.read_cache, config)
        self.governor = CatchUpGovernor(
            ratio_max=config.catch_up_slowdown_max,
            bytes_per_s_min=config.catch_up_bytes_per_s_min,
            slice_bytes=config.catch_up_slice_bytes,
        )
        self.collector = FetchCollector(self.counts, self._levels)
        self.near_replicas = NearReplicas(
            self.counts, again_ms=config.fetch_rack_again_ms, told_max=config.fetch_rack_told_max
        )
        self.is_stopping = False
        self._starting: dict[TopicPartition, dict[FetchJob, None]] = {}
        self._tasks: dict[Task[None], None] = {}  # ended in this order
        self._produce_times = produce_times
        self._looked_s = self.loop.time()
        self._produces_seen = self._produce_counts()
        self._look = self.loop.call_later(LOOK_INTERVAL_S, self._look_at_produces) if produce_times else None

    def fetch(
        self, frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        """Answer a Fetch (4-18), at once if nothing has to be waited for. Raises MalformedMessage."""
        request = decode_request(header, frame)
        scope = self.sessions.resolve(request, header.api_version, int(self.loop.time() * 1000))
        near = self.near_replicas.reader(request.rack_id, context, services) if request.rack_id else None
        FetchJob(self, services, header, request, scope, reply, near).run()

    def stop_waiting(self) -> None:
        """The server stops: answer everybody who waits with what there is, and let nobody wait any more."""
        self.is_stopping = True
        self.deadlines.expire_all()

    async def close(self) -> None:
        """Forget who waits and stop what is being read. Requests that still wait are not answered."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self.deadlines.close()
        self.waits.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.read_cache.close()

    def start(self, partitions: Partitions, topic_partition: TopicPartition, job: FetchJob) -> None:
        """Have a partition started, once for all who ask, and tell the job how that ended."""
        jobs = self._starting.get(topic_partition)
        if jobs is None:
            jobs = self._starting[topic_partition] = {}
            self.spawn(self._start(partitions, topic_partition))
        jobs[job] = None

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it as a task that `close` ends."""
        task = self.loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _start(self, partitions: Partitions, topic_partition: TopicPartition) -> None:
        code = ErrorCode.NONE
        try:
            await partitions.leader_of(topic_partition)
        except BmqError as error:
            code = error.code
        except Exception:
            _log.exception(
                "partition_start_failed", topic_id=str(topic_partition.topic_id), partition=topic_partition.partition
            )
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        finally:
            jobs = self._starting.pop(topic_partition)
        for job in jobs:
            job.started(topic_partition, code)

    def _look_at_produces(self) -> None:
        now_s, produces = self.loop.time(), self._produce_counts()
        self.governor.look(
            [now - before for now, before in zip(produces, self._produces_seen, strict=True)],
            max(now_s - self._looked_s, LOOK_INTERVAL_S / 2),
        )
        self._looked_s, self._produces_seen = now_s, produces
        self._look = self.loop.call_later(LOOK_INTERVAL_S, self._look_at_produces)

    def _produce_counts(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(times.counts for times in self._produce_times), strict=True)))

    def _levels(self) -> Mapping[tuple[str, str], float]:
        return {
            ("bmq_fetches_waiting", "Fetches that wait for records."): len(self.deadlines),
            ("bmq_fetch_sessions", "Incremental fetch sessions."): len(self.sessions),
            ("bmq_fetch_session_partitions", "Partitions they remember."): self.sessions.partition_count,
            ("bmq_fetch_response_bytes", "Bytes of records in unsent responses."): self.budget.bytes_used,
            ("bmq_fetch_response_max_bytes", "Budget of the same."): self.budget.bytes_max,
            ("bmq_catch_up_limit_bytes_per_s", "What catch-up reads may take of this process; 0: all they can."): (
                0 if self.governor.limit_bytes_per_s == inf else self.governor.limit_bytes_per_s
            ),
            ("bmq_produce_calm_p99_seconds", "Produces without catch-up reads; 0: not known."): (
                0 if self.governor.calm_p99_s == inf else self.governor.calm_p99_s
            ),
            ("bmq_read_cache_bytes", "Bytes of segment files in memory."): self.read_cache.bytes_used,
            ("bmq_read_cache_max_bytes", "Budget of the same."): self.read_cache.bytes_max,
        }
