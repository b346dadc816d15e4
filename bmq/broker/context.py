"""Shared by all partitions of a process: the store, clocks, random numbers, budgets, and the broker's own settings."""

from __future__ import annotations

import asyncio
from dataclasses import field
from random import Random
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from bmq.aio.backoff import Backoff
from bmq.aio.loop_turns import LoopTurns
from bmq.broker.append_batcher import AppendBatcher
from bmq.broker.append_budget import AppendBudget
from bmq.broker.broken_closes import BrokenCloses
from bmq.broker.deferred_deletes import DeferredDeletes
from bmq.broker.half_checker import HalfChecker
from bmq.broker.metrics import PartitionCounts
from bmq.broker.opener import Opener, ThreadOpener, TurnRoom
from bmq.broker.opening_room import Room
from bmq.broker.overdue_pace import OverduePace
from bmq.broker.search_pace import SearchPace
from bmq.broker.segment_size import FIRST_BYTES
from bmq.broker.start_queue import StartQueue
from bmq.broker.start_waits import StartWaits
from bmq.broker.tail_cache import TailCache
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.index_cache import INDEX_CACHE_BYTES_MAX, IndexCache
from bmq.log.store import Durability, SegmentStore
from bmq.log.timers.retry_letters import RetryLetters
from bmq.log.transactions import TransactionVerifier
from bmq.tracing.traces import NO_APPENDS, Appends


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The table `[broker]` of a server's settings. Its waits, queues and caches are of one process."""

    tail_cache_bytes_max: int = 64 * 1024 * 1024
    """Newest batches kept in memory, for readers of a fresh backlog; see `fetch.read_cache_bytes_max`."""
    append_bytes_max: int = 64 * 1024 * 1024
    """Bytes on their way into the log; a produce that would double them is refused."""
    index_cache_bytes_max: int = INDEX_CACHE_BYTES_MAX
    """Indexes of old segments kept in memory."""
    appends_outstanding_max: int = 16
    """Appends of a process that are not durable yet; every partition may have one more."""
    segment_first_bytes: int = FIRST_BYTES
    """On HDFS: size of a partition's first segment; a batch of `max.message.bytes` always fits."""
    starts_max: int = 8
    """Partitions that start at the same time; fewer while the event loop or appends are late."""
    idle_starts_max: int = 64
    """A node starts up to this many partitions without a request; `0`: none."""
    idle_start_delay_s: float = 1.0
    """How long after their assignment these start."""
    start_wait_max_s: float = 10.0
    """How long a request waits for a partition that starts."""
    index_wait_max_s: float = 30.0
    """How long rebuilt indexes wait to be written while another partition starts."""
    stop_wait_max_s: float = 4.5
    """How long partitions have to drain and seal at a stop."""
    deletions_max: int = 2
    """Files being deleted at once; the embedded store has four threads for work on directories."""
    deletions_per_s: Annotated[float, Field(gt=0)] = 200.0
    """Files of dropped segments deleted a second, two for each segment."""
    backoff_first_s: float = 0.02
    """First wait after the store failed; doubles."""
    backoff_max_s: float = 5.0
    """Longest such wait."""
    storage_wait_max_s: float = 30.0
    """How long a produced batch waits for a store that does not answer before it is refused."""
    replicas_retry_s: float = 10.0
    """How often a segment on fewer DataNodes than wanted looks for more, while it is written to."""
    quiet_replicas_retry_s: float = 300.0
    """The same while it is not written to: the metadata log, or a topic whose idle segments stay open."""
    replicas_searches_per_s: float = 4.0
    """These searches a second, of all partitions together."""
    min_insync_retry_s: float = 2.0
    """The same while `acks=all` is refused for want of replicas."""
    min_insync_searches_per_s: float = 20.0
    """The same of the partitions that refuse acks=all."""
    broken_closes_per_s: Annotated[float, Field(ge=1)] = 20.0
    """Segments that rest, and of which a DataNode was lost, closed a second by a node."""
    upkeep_interval_s: float = 1.0
    """How often a node checks for segments to roll by age and idle segments to close."""
    retention_check_interval_ms: int = 300_000
    """`log.retention.check.interval.ms`."""
    producer_id_expiration_ms: int = 86_400_000
    """`producer.id.expiration.ms`."""
    producers_max: Annotated[int, Field(ge=1, le=1_000_000)] = 100_000
    """Idempotent and transactional producers that a partition remembers, at most 1000000."""
    transaction_verification_wait_max_s: float = 10.0
    """How long the coordinator may take to answer; then the batches get a retriable error."""
    compaction_check_interval_ms: int = 15_000
    """`log.cleaner.backoff.ms`: how often a node looks for logs to compact."""
    compaction_map_bytes: int = 64 * 1024 * 1024
    """`log.cleaner.dedupe.buffer.size`: memory for a compaction's map of keys, in the process that cleans."""
    compaction_marker_retention_ms: int = 60_000
    """Least time that the marker of an aborted transaction stays after its records are compacted away.

    Proxies read replaced files for up to twice `fetch.read_cursor_age_ms`."""
    compaction_busy_share: Annotated[float, Field(gt=0, le=1)] = 0.125
    """Share of the time that a compaction runs while producers write to this node."""
    compaction_bytes_per_s_max: float = 1.7976931348623157e308
    """`log.cleaner.io.max.bytes.per.second`: how fast compacted segments are written."""


class VerificationRetry(NamedTuple):
    """Backoff while the last transaction's markers are on their way (`add.partitions.to.txn.retry.backoff.*`)."""

    backoff_ms: int = 20
    backoff_max_ms: int = 100


class CompactionPace(NamedTuple):
    """Kafka's log.cleaner.backoff.ms, .dedupe.buffer.size (of the map of keys) and .io.max.bytes.per.second."""

    check_interval_ms: int
    map_bytes: int
    bytes_per_s_max: float


RUNS_WRITTEN_MAX: Final = 2
"""Partitions of a process that write runs of delayed records at once: each sorts some 16 MiB in memory."""
RUN_MERGES_MAX: Final = 1
USUAL_RETRY: Final = VerificationRetry()


@dataclass(slots=True)
class BrokerContext:
    """Handed to every partition. `holder` names this process incarnation in the store.

    `may_pad`: the root's format allows padding between appends (log/padding.py). `transactions`: verifies transactional
    batches; None: they are refused. `verification_retry`: how often, and for how long, verification is retried.
    `half_checker`: None: half messages are not checked.
    `retry_letters`: writes dead letters of retry topics; None: their last attempts are refused. `traced_appends`: of requests that
    are traced.
    """

    store: SegmentStore
    holder: str
    clock: Clock
    random: Random
    settings: BrokerSettings
    may_pad: bool
    transactions: TransactionVerifier | None = None
    half_checker: HalfChecker | None = None
    verification_retry: VerificationRetry = USUAL_RETRY
    retry_letters: RetryLetters | None = None
    traced_appends: Appends = field(default_factory=lambda: NO_APPENDS)
    tail_cache: TailCache = field(init=False)
    budget: AppendBudget = field(init=False)
    indexes: IndexCache = field(init=False)
    counts: PartitionCounts = field(init=False)
    deferred_deletes: DeferredDeletes = field(init=False)
    turns: AppendBatcher = field(init=False)
    starts: StartQueue = field(init=False)
    start_waits: StartWaits = field(init=False)
    turn_room: Room = field(init=False)
    opener: Opener = field(init=False)  # replaced where threads are not wanted
    searches: SearchPace = field(init=False)
    urgent_searches: SearchPace = field(init=False)
    broken_closes: BrokenCloses = field(init=False)
    producer_id_expiration_ms: int = field(init=False)  # altered live
    compaction: CompactionPace = field(init=False)  # altered live
    due_turns: LoopTurns = field(init=False)  # a delivery, or checks, of one partition in each turn of the loop
    overdue_pace: OverduePace = field(init=False)  # of deliveries while many are due
    run_room: asyncio.Semaphore = field(init=False)  # for runs of delayed records being written from the log
    merge_room: asyncio.Semaphore = field(init=False)  # and for merges of runs

    def __post_init__(self) -> None:
        self.producer_id_expiration_ms = self.settings.producer_id_expiration_ms
        self.compaction = CompactionPace(
            self.settings.compaction_check_interval_ms,
            self.settings.compaction_map_bytes,
            self.settings.compaction_bytes_per_s_max,
        )
        self.tail_cache = TailCache(self.settings.tail_cache_bytes_max)
        self.budget = AppendBudget(self.settings.append_bytes_max)
        self.indexes = IndexCache(self.settings.index_cache_bytes_max)
        self.counts = PartitionCounts()
        self.run_room, self.merge_room = asyncio.Semaphore(RUNS_WRITTEN_MAX), asyncio.Semaphore(RUN_MERGES_MAX)
        loop = asyncio.get_running_loop()
        self.turns, self.due_turns = AppendBatcher(loop), LoopTurns()
        self.overdue_pace = OverduePace(self.counts)
        self.starts = StartQueue(self.settings.starts_max, self.counts)
        self.start_waits = StartWaits(self.clock.elapsed_s)
        self.turn_room = TurnRoom(loop)
        self.opener = ThreadOpener(loop)
        self.searches = SearchPace(self.settings.replicas_searches_per_s)
        self.urgent_searches = SearchPace(self.settings.min_insync_searches_per_s)
        self.broken_closes = BrokenCloses(self.settings.broken_closes_per_s)
        self.deferred_deletes = DeferredDeletes(self.store, self.settings.deletions_max, self.settings.deletions_per_s)

    def alignment_bytes(self, durability: Durability) -> int:
        """Appends are padded to a multiple of this (rule 27); 1: no padding."""
        return self.store.append_alignment_bytes(durability) if self.may_pad else 1

    def backoff(self) -> Backoff:
        """A backoff for one sequence of tries."""
        return Backoff(self.random, first_s=self.settings.backoff_first_s, max_s=self.settings.backoff_max_s)
