"""Shared by all partitions of a process: the store, clocks, random numbers, budgets, and the broker's own settings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from bmq.aio.backoff import Backoff
from bmq.broker.append_batcher import AppendBatcher
from bmq.broker.append_budget import AppendBudget
from bmq.broker.metrics import PartitionCounts
from bmq.broker.opener import Opener, ThreadOpener, TurnRoom
from bmq.broker.opening_room import Room
from bmq.broker.search_pace import SearchPace
from bmq.broker.segment_size import FIRST_BYTES
from bmq.broker.start_queue import StartQueue
from bmq.broker.tail_cache import TailCache
from bmq.broker.trash import Trash
from bmq.log.clock import Clock
from bmq.log.index_cache import INDEX_CACHE_BYTES_MAX, IndexCache
from bmq.log.store import Durability, SegmentStore
from bmq.log.transactions import TransactionVerifier


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`starts_max`: partitions being started at once, at most (broker/start_pace). `start_wait_max_s`: how long a caller waits for
    one of them. `index_wait_max_s`: how long a partition's rebuilt indexes wait, to be written, for the start of others.

    `backoff_first_s` doubles up to `backoff_max_s` while the store fails. `storage_wait_max_s`: how long a batch waits for
    a store that does not answer before it is refused. `replicas_retry_s`: how often a segment on fewer nodes than the store
    wants looks for more of them while it is written to; `min_insync_retry_s` instead when acks=all is refused for it.
    `deletions_per_s`: files and directories of dropped segments; a segment has two files.
    `appends_outstanding_max`: of all partitions together; each may have one beyond that.
    `idle_starts_max`: a node starts partitions that nobody has asked for until so many are started, `idle_start_delay_s` after
    they were assigned; 0: only retention starts them.
    `segment_first_bytes`: a partition's first segment, if open segments reserve space in the store.
    `*_searches_per_s`: how many searches for replicas all partitions together may begin.
    `compaction_map_bytes`: of the map of keys, one compaction at a time; `compaction_bytes_per_s_max`: that it writes.
    `compaction_busy_share`: of the time, that a cleaning runs beside producers (broker/compaction_share).
    `compaction_marker_retention_ms`: markers of aborted transactions stay at least so long after the records are gone, since
    proxies read replaced files for up to twice `fetch.read_cursor_age_ms`.
    `producers_max`: producers that a partition remembers (broker/producer_limit).
    `transaction_verification_wait_max_s`: how long a transaction coordinator may take to answer.
    """

    tail_cache_bytes_max: int = 64 * 1024 * 1024
    append_bytes_max: int = 64 * 1024 * 1024
    index_cache_bytes_max: int = INDEX_CACHE_BYTES_MAX
    appends_outstanding_max: int = 16
    segment_first_bytes: int = FIRST_BYTES
    starts_max: int = 8
    idle_starts_max: int = 64
    idle_start_delay_s: float = 1.0
    start_wait_max_s: float = 10.0
    index_wait_max_s: float = 30.0
    stop_wait_max_s: float = 4.5
    deletions_max: int = 2
    deletions_per_s: Annotated[float, Field(gt=0)] = 200.0
    backoff_first_s: float = 0.02
    backoff_max_s: float = 5.0
    storage_wait_max_s: float = 30.0
    replicas_retry_s: float = 10.0
    replicas_searches_per_s: float = 4.0
    min_insync_retry_s: float = 2.0
    min_insync_searches_per_s: float = 20.0
    upkeep_interval_s: float = 1.0
    retention_check_interval_ms: int = 300_000
    producer_id_expiration_ms: int = 86_400_000
    producers_max: Annotated[int, Field(ge=1, le=1_000_000)] = 100_000
    transaction_verification_wait_max_s: float = 10.0
    compaction_check_interval_ms: int = 15_000
    compaction_map_bytes: int = 64 * 1024 * 1024
    compaction_marker_retention_ms: int = 60_000
    compaction_busy_share: Annotated[float, Field(gt=0, le=1)] = 0.125
    compaction_bytes_per_s_max: float = 1.7976931348623157e308


class VerificationRetry(NamedTuple):
    """Backoff while the last transaction's markers are on their way (`add.partitions.to.txn.retry.backoff.*`)."""

    backoff_ms: int = 20
    backoff_max_ms: int = 100


class CompactionPace(NamedTuple):
    """Kafka's log.cleaner.backoff.ms, .dedupe.buffer.size (of the map of keys) and .io.max.bytes.per.second."""

    check_interval_ms: int
    map_bytes: int
    bytes_per_s_max: float


USUAL_RETRY: Final = VerificationRetry()


@dataclass(slots=True)
class Surroundings:
    """Handed to every partition. `holder` names this process incarnation in the store.

    `may_pad`: the root's format allows padding between appends (log/padding.py). `transactions`: verifies transactional
    batches; None: they are refused. `verification_retry`: how often, and for how long, verification is retried.
    """

    store: SegmentStore
    holder: str
    clock: Clock
    random: Random
    settings: BrokerSettings
    may_pad: bool
    transactions: TransactionVerifier | None = None
    verification_retry: VerificationRetry = USUAL_RETRY
    tail_cache: TailCache = field(init=False)
    budget: AppendBudget = field(init=False)
    indexes: IndexCache = field(init=False)
    counts: PartitionCounts = field(init=False)
    trash: Trash = field(init=False)
    turns: AppendBatcher = field(init=False)
    starts: StartQueue = field(init=False)
    turn_room: Room = field(init=False)
    opener: Opener = field(init=False)  # replaced where threads are not wanted
    searches: SearchPace = field(init=False)
    urgent_searches: SearchPace = field(init=False)
    producer_id_expiration_ms: int = field(init=False)  # altered live
    compaction: CompactionPace = field(init=False)  # altered live

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
        loop = asyncio.get_running_loop()
        self.turns = AppendBatcher(loop)
        self.starts = StartQueue(self.settings.starts_max, self.counts)
        self.turn_room = TurnRoom(loop)
        self.opener = ThreadOpener(loop)
        self.searches = SearchPace(self.settings.replicas_searches_per_s)
        self.urgent_searches = SearchPace(self.settings.min_insync_searches_per_s)
        self.trash = Trash(self.store, self.settings.deletions_max, self.settings.deletions_per_s)

    def alignment_bytes(self, durability: Durability) -> int:
        """Appends are padded to a multiple of this (rule 27); 1: no padding."""
        return self.store.append_alignment_bytes(durability) if self.may_pad else 1

    def backoff(self) -> Backoff:
        """A backoff for one sequence of tries."""
        return Backoff(self.random, first_s=self.settings.backoff_first_s, max_s=self.settings.backoff_max_s)
