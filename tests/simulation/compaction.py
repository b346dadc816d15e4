"""A cluster whose topic is compacted under transactional and plain producers, and under readers of all kinds.

Segments are small, delays short and the map of keys is too small for some logs. Owners die, hang and move in the middle of
cleanings, which are slow and interrupted. What readers may miss is judged all the time (compaction_history.py). At the end
nothing is open, compaction is at rest, and each log has of each key the newest record, also after everybody was started anew.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Sequence
from typing import Any

from bmq.broker.runtime import PartitionRuntime
from bmq.log.compaction import is_due
from bmq.log.config import LogConfig
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.protocol.record_batch import batches
from bmq.server.node_dependencies import NodeHooks
from tests.fakes.namespace import Directory, files_below
from tests.simulation.cleaning_watch import watched_cleaning
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic
from tests.simulation.clock import SimulatedClock
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.committed_reads import end_offset, read_all, start_offset
from tests.simulation.compaction_chaos import CompactionChaos
from tests.simulation.compaction_clients import EndsAsker, KeyedProducer, KeyReader
from tests.simulation.compaction_history import CompactionHistory, CompactionTerms
from tests.simulation.fault_rates import FaultRates
from tests.simulation.history import Violation
from tests.simulation.late_requests import LATE_S
from tests.simulation.topic_life import TopicLife
from tests.simulation.transaction_crowd import TIMEOUTS_S, Habits, Succession, World, Writing
from tests.simulation.transaction_history import Place
from tests.simulation.unnamed_check import unnamed_files
from tests.simulation.until_done import until_done

PLACES: tuple[Place, ...] = tuple((TOPIC, number) for number in range(3))
LAST_EPOCHS = (1, 3, 8, 32_766)
CURSOR_AGE_MS = 200
LARGE_MAP_BYTES = 1 << 16
ROUNDS = 12
SETTLE_S = max(TIMEOUTS_S) + 20.0
REMOVAL_S = 20.0
CLEANUP_INTERVAL_S = 0.5
Records = dict[Place, list[tuple[int, bytes]]]


@dataclasses.dataclass(frozen=True, slots=True)
class CompactionKind:
    """What a seed's topics and nodes are like. `map_bytes`: 20 for each slot, of which four in five are used."""

    policy: str
    keys: int
    tombstone_rate: float
    segment_bytes: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    retention_ms: int
    map_bytes: int
    check_interval_ms: int
    tail_bytes: int
    chunk_bytes: int
    reader_pace_s: float

    @classmethod
    def of(cls, dice: random.Random) -> CompactionKind:
        policy = dice.choice(("compact", "compact,delete"))
        return cls(
            policy=policy,
            keys=dice.choice((2, 5, 12)),
            tombstone_rate=dice.choice((0.1, 0.4)),
            segment_bytes=dice.choice((600, 1_500, 6_000)),
            delete_retention_ms=dice.choice((0, 800, 3_000, 60_000)),
            file_delete_delay_ms=dice.choice((100, 800, 60_000)),
            dirty_ratio=dice.choice((0.0, 0.0, 0.3)),
            min_lag_ms=dice.choice((0, 0, 700)),
            max_lag_ms=dice.choice((1_000, 2**63 - 1)),
            retention_ms=dice.choice((-1, -1, 6_000)) if "delete" in policy else -1,
            map_bytes=dice.choice((100, 300, LARGE_MAP_BYTES)),
            check_interval_ms=dice.choice((100, 400)),
            tail_bytes=dice.choice((2_000, 100_000)),
            chunk_bytes=dice.choice((1_024, 65_536)),
            reader_pace_s=dice.choice((0.05, 0.15)),
        )

    def topic_configs(self) -> dict[str, str]:
        return {
            "cleanup.policy": self.policy,
            "delete.retention.ms": str(self.delete_retention_ms),
            "file.delete.delay.ms": str(self.file_delete_delay_ms),
            "min.cleanable.dirty.ratio": str(self.dirty_ratio),
            "min.compaction.lag.ms": str(self.min_lag_ms),
            "max.compaction.lag.ms": str(self.max_lag_ms),
            "retention.ms": str(self.retention_ms),
        }

    def terms(self) -> CompactionTerms:
        retention_s = None if self.retention_ms < 0 else self.retention_ms / 1000
        # Readers may stand where a file ended that was replaced since. A full map leaves the rest of a segment for later, and
        # as in Kafka the time of tombstones there begins all the same.
        is_map_large = self.map_bytes >= LARGE_MAP_BYTES
        tombstones_s = max(0, self.delete_retention_ms - CURSOR_AGE_MS) / 1000 if is_map_large else 0.0
        return CompactionTerms(
            self.delete_retention_ms / 1000, tombstones_s, retention_s, is_deleting="delete" in self.policy
        )


class Compaction(Cluster):
    name = "compaction"
    may_age = False  # its own topics do

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        self.compaction_kind = self._compaction_kind(random.Random(f"{self.name} {seed} compaction"))
        super().__init__(seed, rates, is_looking_inside)
        kind = self.compaction_kind
        keys = [f"k{number}" for number in range(kind.keys)]
        self.seen = self._new_history(keys)
        self.seen.on_acknowledge = self._check_acknowledged
        self._habits = _habits_of(self._dice("habits"))
        self._progress: dict[TopicPartition, tuple[int, int]] = {}  # first dirty offset, log start offset
        self._progress_epoch: dict[TopicPartition, int] = {}

    def _compaction_kind(self, dice: random.Random) -> CompactionKind:
        return CompactionKind.of(dice)

    def _new_history(self, keys: Sequence[str]) -> CompactionHistory:
        kind = self.compaction_kind
        return CompactionHistory(kind.terms(), keys, kind.tombstone_rate, self.loop.time, self._dice("keys"))

    def _kind(self) -> ClusterKind:
        last_epoch = self._dice("epochs").choice(LAST_EPOCHS)
        between_s = self._dice("pace").choice((0.8, 1.5))
        is_deleting = "delete" in self.compaction_kind.policy
        return dataclasses.replace(
            super()._kind(), is_deleting=is_deleting, last_producer_epoch=last_epoch, rounds=ROUNDS, between_s=between_s
        )

    def _server_settings(self) -> dict[str, Any]:
        settings, kind = super()._server_settings(), self.compaction_kind
        settings["kafka"] |= {
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_INTERVAL_S * 1000)),
        }
        settings["broker"] |= {
            "tail_cache_bytes_max": kind.tail_bytes,
            "compaction_check_interval_ms": kind.check_interval_ms,
            "compaction_map_bytes": kind.map_bytes,
            "compaction_marker_retention_ms": 3 * CURSOR_AGE_MS,
            "retention_check_interval_ms": 500,
        }
        settings["fetch"] |= {"read_chunk_bytes": kind.chunk_bytes, "read_cursor_age_ms": CURSOR_AGE_MS}
        settings["router"] = {"tail_cache_bytes_max": kind.tail_bytes}
        return settings

    def _hooks(self, node: NodeProcess, dice: random.Random) -> NodeHooks:
        cleaning = watched_cleaning(
            node, node.client, self.watch_of_cleaning, self._cleaning_habits, dice, self.compaction_kind.chunk_bytes
        )
        return dataclasses.replace(super()._hooks(node, dice), cleaning=cleaning, log_config=self._log_config)

    def _log_config(self, config: LogConfig) -> LogConfig:
        """Segments smaller than a topic may ask for."""
        if config.is_state_log:
            return config
        return dataclasses.replace(config, segment_bytes=self.compaction_kind.segment_bytes)

    # --- the run

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        configs = self.kind.topic_configs() | self.compaction_kind.topic_configs()
        await create_topic(admin, len(PLACES), configs)
        is_ending = asyncio.Event()
        world = World(
            self.client, self.seen, self._habits, self._dice("crowd"), self.loop.create_future(), is_ending.set,
            self.kind.last_producer_epoch,
        )  # fmt: skip
        asker = self.client("asker", EndsAsker, self.seen, PLACES)
        successions = [Succession(world, f"w{number}", Writing(world, PLACES).live) for number in range(2)]
        others = [watching, *(self.loop.create_task(one.run()) for one in (*successions, asker, *self._clients()))]
        if self.kind.is_making_topics:
            kept = configs | {"cleanup.policy": "compact"}  # its records are old
            life = TopicLife(self.client("topics"), self._dice("topics"), self.outcome, kept, key_count=2)
            others.append(self.loop.create_task(life.run()))
        chaos = CompactionChaos(self, self._dice("chaos"), is_ending, self.watch_of_cleaning, self.seen, PLACES)
        running = self.loop.create_task(chaos.run())
        await until_done((running,), (world.failure, *others))
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_settled(admin))
        await until_done((checking,), (watching, world.failure))
        watching.cancel()
        world.count(self.outcome)
        self.outcome.answers = asker.answer_count
        self.outcome.acknowledged_batches = self.seen.acknowledged_batches
        self.outcome.moves = self.rules.moves
        self.outcome.records_gone = self.seen.gone_count
        self.outcome.tombstones_gone = self.seen.tombstones_gone_count

    def _clients(self) -> list[Any]:
        pace_s = self.compaction_kind.reader_pace_s
        readers = [
            self.client(f"reader{number}", KeyReader, self.seen, PLACES, number < 3, pace_s) for number in range(4)
        ]
        return [self.client("plain", KeyedProducer, self.seen, PLACES, self._habits.pace_s), *readers]

    # --- what must hold all the time

    def check_now(self) -> None:
        super().check_now()
        for node in (*self.past, *self.nodes.values()):
            if not self.rules.is_looking_inside or node.roles is None or not node.process.is_alive:
                continue
            if node.roles.manager.counts.uncleanable and not self.store.counts.raised_appends:
                raise Violation(f"{node.process.name} refused to compact a log")
        if self.rules.is_looking_inside:
            for runtime in self._owners():
                self._check_progress(runtime)

    def _check_acknowledged(self, values: list[bytes]) -> None:
        """What was deleted by its offset or its age may be answered however few nodes have it still."""
        try:
            super()._check_acknowledged(values)
        except Violation:
            if not self._is_below_a_start(values[-1]):
                raise

    def _is_below_a_start(self, value: bytes) -> bool:
        for runtime in self._owners():
            directory = self.store.namespace.find(partition_directory(runtime.topic_partition))
            if not isinstance(directory, Directory):
                continue
            for path, file in files_below(directory, ""):
                if path.endswith(".log") and (place := file.data.find(value)) >= 0:
                    offsets = [header.base_offset for position, header in batches(file.data) if position <= place]
                    return offsets[-1] < runtime.log_start_offset
        return False

    def _owners(self) -> list[PartitionRuntime]:
        """Whoever owns a partition of the topic at its newest epoch."""
        newest: dict[TopicPartition, PartitionRuntime] = {}
        topic = self.newest_image().topics.get(TOPIC)
        for node in (*self.past, *self.nodes.values()):
            if node.roles is None or not node.process.is_alive:
                continue
            for runtime in node.roles.manager.owned():
                key = runtime.topic_partition
                if topic is None or key.topic_id != topic.topic_id or runtime.inspect().files is None:
                    continue
                if key not in newest or newest[key].leader_epoch < runtime.leader_epoch:
                    newest[key] = runtime
        return list(newest.values())

    def _check_progress(self, runtime: PartitionRuntime) -> None:
        """Neither compaction nor the start of the log goes back; but an owner may believe for a while that it still is one."""
        files, key = runtime.inspect().files, runtime.topic_partition
        if files is None or runtime.leader_epoch < self._progress_epoch.get(key, 0):
            return
        now = files.first_dirty_offset, files.log_start_offset
        before = self._progress.get(key, (0, 0))
        if now[0] < before[0] or now[1] < before[1]:
            raise Violation(
                f"{key} was compacted up to {before[0]} from {before[1]} on, and now up to {now[0]} from {now[1]}"
            )
        self._progress[key] = now
        self._progress_epoch[key] = runtime.leader_epoch

    # --- the end

    async def _check_settled(self, admin: Client) -> None:
        await asyncio.sleep(max(LATE_S))  # what is late begins a transaction, too
        deadline_s = self.loop.time() + SETTLE_S
        for place in PLACES:
            await self._until_closed(admin, place, deadline_s)
        everything, committed = await self._check_compacted(admin, deadline_s)
        self._calm()
        again = await self._check_compacted(admin, deadline_s)
        for place in PLACES:
            start = self.seen.starts[place]
            for before, after in zip((everything, committed), again, strict=True):
                kept = [record for record in before[place] if record[0] >= start]
                if not _is_part_of(after[place], kept):
                    raise Violation(f"{place} has {after[place]} after a restart, it had {kept}")
        self.check_now()
        if self.rules.is_looking_inside:
            await self._check_nothing_left_behind()

    async def _check_nothing_left_behind(self) -> None:
        """Owners that started when all faults were over remove what others had not swapped in, after the delay.

        Deletions are paced, so many files take longer: it is a violation when files are left and for so long none was removed.
        """
        wait_s = self.compaction_kind.file_delete_delay_ms / 1000 + REMOVAL_S
        since_s: dict[str, float] = {}  # a compaction while we wait replaces more
        removed_s = self.loop.time()
        while left := [path for runtime in self._owners() for path in unnamed_files(self.store.namespace, runtime)]:
            now_s = self.loop.time()
            if not since_s.keys() <= set(left):
                removed_s = now_s
            since_s = {path: since_s.get(path, now_s) for path in left}
            if late := [path for path, began_s in since_s.items() if now_s - max(began_s, removed_s) > wait_s]:
                raise Violation(f"no manifest names {', '.join(late)}, and nobody removes them")
            await asyncio.sleep(0.5)

    async def _check_compacted(self, admin: Client, deadline_s: float) -> tuple[Records, Records]:
        """What is in the logs, read while they were at rest."""
        while True:
            before = await self._until_at_rest(admin, deadline_s)
            everything, committed = await self._read(admin)
            if before == await self._until_at_rest(admin, deadline_s):
                self.seen.check_compacted(everything, committed, before)
                return everything, committed

    async def _read(self, admin: Client) -> tuple[Records, Records]:
        """(all records, those that are committed) from where each log begins."""
        for place in PLACES:
            known = self.seen.starts[place]
            self.seen.begins_at(place, await admin.until_done(lambda p=place: start_offset(admin, p)), known)  # type: ignore[misc]
        everything = {place: await read_all(admin, self.seen, place, is_committed=False) for place in PLACES}
        return everything, {place: await read_all(admin, self.seen, place, is_committed=True) for place in PLACES}

    async def _until_closed(self, admin: Client, place: Place, deadline_s: float) -> None:
        """No transaction stays open in a partition once nobody writes any more."""

        async def attempt() -> None:
            stable = await end_offset(admin, place, is_stable=True)
            end = await end_offset(admin, place, is_stable=False)
            if stable < end:
                if self.loop.time() > deadline_s:
                    raise Violation(f"{place} is stable up to {stable} only, and ends at {end}: a transaction hangs")
                await asyncio.sleep(0.5)
                raise Unhappy("a transaction is open")

        await admin.until_done(attempt)

    async def _until_at_rest(self, admin: Client, deadline_s: float) -> dict[Place, tuple[int, int]]:
        """Every log has an owner that finds nothing to compact now: (offset up to which it is compacted, first offset).

        Late is what is not at rest by the deadline and has not come any further for `SETTLE_S` either: where few keys fit
        into memory, and with much to compact, there are many compactions, one after the other.
        """
        clock = SimulatedClock(self.loop)
        reached: dict[int, int] = {}

        async def attempt() -> dict[Place, tuple[int, int]]:
            nonlocal deadline_s
            for place in PLACES:
                await end_offset(admin, place, is_stable=False)  # so that each is owned
            found: dict[Place, tuple[int, int]] = {}
            for runtime in self._owners():
                files, cleanable = runtime.inspect().files, runtime.compaction.cleanable(clock.now_ms())
                number = runtime.topic_partition.partition
                if files is not None and files.first_dirty_offset > reached.get(number, 0):
                    reached[number] = files.first_dirty_offset
                    deadline_s = max(deadline_s, self.loop.time() + SETTLE_S)
                is_at_rest = cleanable is not None and not is_due(
                    cleanable, runtime.config, now_ms=clock.now_ms(), first_dirty_timestamp_ms=None
                )
                if files is not None and is_at_rest:
                    place = TOPIC, number
                    found[place] = files.first_dirty_offset, files.log_start_offset
            if len(found) < len(PLACES):
                if self.loop.time() > deadline_s:
                    raise Violation(f"compaction does not come to an end: {sorted(found)} of {PLACES}")
                await asyncio.sleep(0.3)
                raise Unhappy("a log is due")
            return found

        return await admin.until_done(attempt)


def _habits_of(dice: random.Random) -> Habits:
    """Transactions are short, many are aborted, and none stays open for long: only what lies below them is compacted."""
    return dataclasses.replace(
        Habits.of(dice),
        pause_s=dice.choice((0.3, 2.0)),
        commit_rate=dice.choice((0.4, 0.7, 1.0)),
        pace_s=dice.choice((0.05, 0.1, 0.2)),
        timeouts_s=dice.choice((TIMEOUTS_S[:1], TIMEOUTS_S[:2])),
    )


def _is_part_of(part: list[tuple[int, bytes]], whole: list[tuple[int, bytes]]) -> bool:
    """Whether it is the same, but for what is not there: compaction may have gone on."""
    return set(part) <= set(whole)
