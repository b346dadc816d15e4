"""Reads one range of one block from whichever of its DataNodes gives all of it first.

Usually one DataNode is asked and answers. A second one is asked at once when the first fails, soon when it is late (a hedge,
see hedge.py), and in any case when it has been silent for a quarter of `read_timeout_s`. A late DataNode is still waited for:
when every disk is busy, a late answer is better than none. The first good answer wins, and the other connections are closed.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_cache import BlockRange, FileExtents
from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.hedge import HedgeBudget, HedgeDelay
from bmq.hdfs.read_connections import ReadConnection, ReadConnections
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.read_packets import (
    BlockReceiver,
    ReplicaCorrupt,
    ReplicaError,
    ReplicaLost,
    ReplicaRefused,
    ReplicaShort,
    read_request,
)
from bmq.log.store import StoreError

log = structlog.get_logger("bmq.hdfs")

SLOWEST_BYTES_PER_S: Final = 1024 * 1024  # bytes that came earn a read this much more time
SILENCE_SHARE: Final = 0.25  # of read_timeout_s
SLOW_NODE_S: Final = 2.0
BLOCK_BYTES_MAX: Final = (1 << 63) - 1


class VisibleLengths(Protocol):
    """Asks a DataNode how long its replica of an open block is."""

    async def visible_length(self, node: DataNode, block: Block) -> int: ...


class ReplicaKey(NamedTuple):
    node_uuid: str
    block_id: int
    generation_stamp: int


class ReplicasFailed(Exception):
    """No replica gave the range. `failures`: the reason of each one. `is_timed_out`: no time is left for another try.

    `corrupt`: the replicas with bad checksums, known ones included.
    """

    def __init__(
        self,
        failures: Sequence[tuple[DataNode, ReplicaError]],
        *,
        corrupt: frozenset[ReplicaKey] = frozenset(),
        is_timed_out: bool = False,
    ) -> None:
        super().__init__("; ".join(f"{node.transfer}: {error}" for node, error in failures))
        self.failures = failures
        self.corrupt = corrupt
        self.is_timed_out = is_timed_out


class ReplicaReads:
    """Shared by all races: connections, latencies, which nodes were late."""

    def __init__(
        self,
        config: HdfsConfig,
        *,
        client_name: str,
        lengths: VisibleLengths,
        bad_nodes: BadNodes,
        counts: ReadCounts,
    ) -> None:
        self.client_name = client_name
        self.lengths = lengths
        self.bad_nodes = bad_nodes
        self.counts = counts
        self.connections = ReadConnections(config, counts)
        self.delay = HedgeDelay(config.hedge_least_s)
        self.budget = HedgeBudget()
        self.read_timeout_s = config.read_timeout_s
        self.silence_s = config.read_timeout_s * SILENCE_SHARE
        self._slow_until_s: dict[str, float] = {}

    async def read(
        self,
        wanted: BlockRange,
        extents: FileExtents | None,
        *,
        timeout_s: float,
        corrupt: frozenset[ReplicaKey] = frozenset(),
    ) -> bytearray | memoryview:
        """The range, verified. `corrupt`: replicas not to ask again. Raises ReplicasFailed."""
        nodes, block = wanted.located.nodes, wanted.located.block
        known = [node for node in nodes if corrupt and _key(node, block) in corrupt]
        self.budget.note_read()
        race = _Race(self, wanted, extents, self._in_order([node for node in nodes if node not in known]), timeout_s)
        try:
            return await race.run()
        except ReplicasFailed as failed:
            failures = [(node, ReplicaCorrupt("its checksums were wrong before")) for node in known]
            found = frozenset(_key(node, block) for node, error in failed.failures if isinstance(error, ReplicaCorrupt))
            raise ReplicasFailed(
                [*failed.failures, *failures], corrupt=corrupt | found, is_timed_out=failed.is_timed_out
            ) from None

    def note_slow(self, node: DataNode, now_s: float) -> None:
        """Ask other nodes first for a while."""
        self._slow_until_s[node.uuid] = now_s + SLOW_NODE_S

    def _in_order(self, nodes: Sequence[DataNode]) -> list[DataNode]:
        """The NameNode's order (nearest first), but late ones and bad ones last."""
        slow = self._slow_until_s
        if slow:
            now_s = asyncio.get_running_loop().time()
            slow = self._slow_until_s = {uuid: until_s for uuid, until_s in slow.items() if until_s > now_s}
        is_bad = self.bad_nodes.is_bad
        return sorted(nodes, key=lambda node: 2 * is_bad(node) + (node.uuid in slow))


def _key(node: DataNode, block: Block) -> ReplicaKey:
    return ReplicaKey(node.uuid, block.block_id, block.generation_stamp)


class _Attempt:
    """One DataNode's part in a race. `answer` is done when it has given the range, or has failed."""

    __slots__ = (
        "answer",
        "connection",
        "is_hedge",
        "is_reused",
        "node",
        "progress_bytes",
        "progress_s",
        "receiver",
        "started_s",
    )

    def __init__(self, node: DataNode, receiver: BlockReceiver, started_s: float, *, is_hedge: bool) -> None:
        self.node = node
        self.receiver = receiver
        self.started_s = started_s
        self.is_hedge = is_hedge
        self.is_reused = False
        self.connection: ReadConnection | None = None
        self.answer: Future[BlockReceiver]
        self.progress_bytes = 0
        self.progress_s = started_s

    def note_progress(self, now_s: float) -> None:
        received_bytes = self.receiver.received_bytes
        if received_bytes != self.progress_bytes:
            self.progress_bytes = received_bytes
            self.progress_s = now_s

    def end(self) -> None:
        """Close the connections under way. A complete read has given its connection back already."""
        if not self.answer.done():
            self.answer.cancel()
            # Its read may have completed unnoticed; then the connection may already carry another read.
            if self.connection is not None and self.connection.carries(self.receiver):
                self.connection.abort()


class _Race:
    def __init__(
        self,
        reads: ReplicaReads,
        wanted: BlockRange,
        extents: FileExtents | None,
        nodes: list[DataNode],
        timeout_s: float,
    ) -> None:
        self._reads = reads
        self._wanted = wanted
        self._extents = extents
        self._untried = nodes
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._started_s = self._loop.time()
        self._running: list[_Attempt] = []
        self._failures: list[tuple[DataNode, ReplicaError]] = []
        self._news: Future[None] | None = None
        self._ended_bytes = 0
        self._may_hedge = True

    async def run(self) -> bytearray | memoryview:
        self._start_next(self._started_s)
        try:
            while True:
                winner = self._settle()
                if winner is not None:
                    return winner.receiver.data
                if not self._running:
                    raise ReplicasFailed(self._failures)
                await self._wait(self._ask_next_if_due())
        finally:
            now_s = self._loop.time()
            for attempt in self._running:
                self._note_loser(attempt, now_s)
                self._end(attempt)

    # --- starting

    def _start_next(self, now_s: float, *, is_hedge: bool = False) -> None:
        if self._untried:
            self._start(self._untried.pop(0), now_s, is_hedge=is_hedge)

    def _start(self, node: DataNode, now_s: float, *, is_hedge: bool, is_fresh: bool = False) -> None:
        wanted = self._wanted
        attempt = _Attempt(node, BlockReceiver(wanted.position, wanted.length_bytes), now_s, is_hedge=is_hedge)
        connection = None if is_fresh or not self._is_long_enough(node) else self._reads.connections.take(node)
        if connection is not None:
            attempt.is_reused = True
            attempt.connection = connection
            attempt.answer = connection.start(self._request(), attempt.receiver)
        else:
            attempt.answer = self._loop.create_task(self._ask(attempt, is_fresh=is_fresh))
        attempt.answer.add_done_callback(self._wake)
        self._running.append(attempt)

    async def _ask(self, attempt: _Attempt, *, is_fresh: bool) -> BlockReceiver:
        if not self._is_long_enough(attempt.node):
            await self._check_length(attempt.node)
        connections = self._reads.connections
        connection = None if is_fresh else connections.take(attempt.node)
        if connection is not None:
            attempt.is_reused = True
        else:
            try:
                connection = await connections.open(attempt.node, self._wanted.located.token)
            except ReplicaLost:
                self._reads.bad_nodes.add(attempt.node)
                raise
        attempt.connection = connection
        return await connection.start(self._request(), attempt.receiver)

    def _request(self) -> bytes:
        wanted = self._wanted
        block = wanted.located.block
        if wanted.is_open:
            block = block.with_length(wanted.position + wanted.length_bytes)
        return read_request(
            block,
            wanted.located.token,
            client_name=self._reads.client_name,
            position=wanted.position,
            length_bytes=wanted.length_bytes,
        )

    def _is_long_enough(self, node: DataNode) -> bool:
        """Whether this replica is known to have the range: any replica of a block that is not being written."""
        wanted, extents = self._wanted, self._extents
        return (
            not wanted.is_open
            or extents is None
            or extents.visible_bytes(node.uuid) >= wanted.position + wanted.length_bytes
        )

    async def _check_length(self, node: DataNode) -> None:
        """Ask how long the replica is: asked for more bytes than it has, a DataNode waits 3 s and then refuses."""
        wanted = self._wanted
        end = wanted.position + wanted.length_bytes
        try:
            visible_bytes = await self._reads.lengths.visible_length(node, wanted.located.block)
        except StoreError as error:
            raise ReplicaLost(f"it does not say how long its replica is: {error}") from error
        if visible_bytes > BLOCK_BYTES_MAX:
            # -1 as an unsigned number: the DataNode was restarted, and its replica waits for the block's recovery.
            raise ReplicaRefused("its replica cannot be read before the block is recovered")
        if self._extents is not None:
            self._extents.note_visible(node.uuid, visible_bytes)
        if visible_bytes < end:
            raise ReplicaShort(f"{visible_bytes} bytes of the block are there, {end} are needed")

    # --- waiting

    def _wake(self, answer: Future[BlockReceiver]) -> None:
        if not answer.cancelled():
            answer.exception()  # marks it as retrieved, so that asyncio does not log the failure of a loser
        self._nudge()

    def _nudge(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait(self, until_s: float) -> None:
        if any(attempt.answer.done() for attempt in self._running):
            return
        self._news = self._loop.create_future()
        timer = self._loop.call_at(until_s, self._nudge)
        try:
            await self._news
        finally:
            timer.cancel()
            self._news = None

    def _ask_next_if_due(self) -> float:
        """Ask one more DataNode if it is time. Returns the time of the next check. Raises ReplicasFailed at the deadline."""
        now_s = self._loop.time()
        for attempt in self._running:
            attempt.note_progress(now_s)
        received_bytes = self._ended_bytes + sum(attempt.progress_bytes for attempt in self._running)
        deadline_s = self._started_s + self._timeout_s + received_bytes / SLOWEST_BYTES_PER_S
        if now_s >= deadline_s:
            silent = [(attempt.node, ReplicaLost("no answer in time")) for attempt in self._running]
            raise ReplicasFailed([*self._failures, *silent], is_timed_out=True)
        if not self._untried:
            return deadline_s
        newest = self._running[-1]
        silent_at_s = newest.progress_s + self._reads.silence_s
        if now_s >= silent_at_s:
            self._reads.counts.failovers += 1
            log.warning("replica_silent", datanode=str(newest.node.transfer), block=self._wanted.located.block.block_id)
            self._start_next(now_s)
            return min(deadline_s, now_s + self._reads.silence_s)
        if self._may_hedge and not newest.progress_bytes:
            hedge_at_s = newest.started_s + self._reads.delay.delay_s
            if now_s < hedge_at_s:
                return min(deadline_s, silent_at_s, hedge_at_s)
            self._may_hedge = False
            if self._reads.budget.take():
                self._reads.counts.hedges += 1
                self._start_next(now_s, is_hedge=True)
                return min(deadline_s, now_s + self._reads.silence_s)
        return min(deadline_s, silent_at_s)

    # --- ending

    def _settle(self) -> _Attempt | None:
        """Remove finished attempts. Returns the first good one. After a failure, ask the next node unless one is sending."""
        winner: _Attempt | None = None
        for attempt in tuple(self._running):
            if not attempt.answer.done():
                continue
            self._running.remove(attempt)
            self._end(attempt)
            error = (
                ReplicaLost("its connection was closed here")
                if attempt.answer.cancelled()
                else attempt.answer.exception()
            )
            if error is None:
                self._note_answered(attempt)
                winner = winner or attempt
            elif isinstance(error, ReplicaError):
                self._ended_bytes += attempt.receiver.received_bytes
                if winner is None:
                    self._go_on_after(attempt, error)
            else:
                raise error
        return winner

    def _go_on_after(self, attempt: _Attempt, error: ReplicaError) -> None:
        counts, now_s = self._reads.counts, self._loop.time()
        if attempt.is_reused and isinstance(error, ReplicaLost) and not attempt.receiver.received_bytes:
            # The DataNode closed an idle connection after its keepalive: no sign of a problem.
            counts.stale_connections += 1
            self._start(attempt.node, now_s, is_hedge=False, is_fresh=True)
            return
        block = self._wanted.located.block
        if isinstance(error, ReplicaCorrupt):
            counts.checksum_errors += 1
            log.error("replica_corrupt", datanode=str(attempt.node.transfer), block=block.block_id, reason=str(error))
        elif not isinstance(error, ReplicaShort):
            log.info("replica_failed", datanode=str(attempt.node.transfer), block=block.block_id, reason=str(error))
        self._failures.append((attempt.node, error))
        if self._untried and not any(other.receiver.received_bytes for other in self._running):
            counts.failovers += 1
            self._start_next(now_s)

    def _note_answered(self, attempt: _Attempt) -> None:
        connection = attempt.connection
        if connection is not None and connection.answered_s is not None:
            self._reads.delay.observe(connection.answered_s - attempt.started_s)
        if attempt.is_hedge:
            self._reads.counts.hedges_won += 1

    def _note_loser(self, attempt: _Attempt, now_s: float) -> None:
        attempt.note_progress(now_s)
        if now_s - attempt.progress_s >= self._reads.silence_s:
            self._reads.bad_nodes.add(attempt.node)
        elif not attempt.progress_bytes and now_s - attempt.started_s >= self._reads.delay.delay_s:
            self._reads.delay.observe(now_s - attempt.started_s)
            self._reads.note_slow(attempt.node, now_s)

    def _end(self, attempt: _Attempt) -> None:
        attempt.end()
        if attempt.is_hedge:
            self._reads.budget.end()
