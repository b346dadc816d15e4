"""A second partition of the owners, of which less and less is there: compacted, shortened by its age or size, its head
deleted.

One producer writes, two readers read through the proxy's read path, all from whichever owner they believe in. What they may
miss is said by aged_log.py. Nobody makes it again: that takes a controller (aged_topic.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Offline
from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.log.store import Durability, StoreError
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.proxy.catch_up import CatchUp
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.read_cache import ReadCache
from tests.fakes.store import Counts
from tests.simulation.aged_log import Aged, AgedLog
from tests.simulation.aged_topic import LENGTHS_BYTES, READERS, SETTLE_S, AgedKind, batch_of, records_in
from tests.simulation.chances import Chances
from tests.simulation.history import Violation
from tests.simulation.outcome import Outcome
from tests.simulation.owner import Owner
from tests.support.produced_batch import produced_batch

AGED: Final = TopicPartition(UUID(int=8), 0)
PRODUCER_ID: Final = 900_000
WAIT_S: Final = 0.3
PACE: Final = 5.0
"""So many times quicker than in a history of whole servers, which lasts longer."""
_CURSOR_AGE_MS: Final = 200


def aged_settings(settings: BrokerSettings) -> BrokerSettings:
    """An owner's, changed so that all of it happens within seconds."""
    return dataclasses.replace(
        settings, retention_check_interval_ms=60, compaction_check_interval_ms=60, compaction_map_bytes=1 << 16
    )


def log_config(kind: AgedKind, chances: Chances) -> LogConfig:
    """Synced to the disks where the power may fail: nothing acknowledged is lost then."""
    usual = chances.config
    terms = kind.terms
    return LogConfig(
        segment_bytes=usual.segment_bytes,
        segment_ms=100,
        segment_idle_close_ms=40,
        segment_index_interval_bytes=usual.segment_index_interval_bytes,
        file_delete_delay_ms=100,
        max_message_bytes=usual.max_message_bytes,
        min_insync_replicas=usual.min_insync_replicas,
        durability=Durability.HSYNC if chances.power_loss else Durability.HFLUSH,
        cleanup_policy=frozenset(kind.configs()["cleanup.policy"].split(",")),
        delete_retention_ms=int(terms.delete_retention_s * 1000),
        retention_ms=-1 if terms.retention_s is None else int(terms.retention_s * 1000),
        retention_bytes=-1 if terms.retention_bytes is None else terms.retention_bytes,
        min_cleanable_dirty_ratio=0.0,
    )


@dataclass(slots=True)
class Question:
    """Something asked of an owner; answers may come late, or never."""

    answer: Any = None
    is_answered: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, answer: Any) -> None:
        self.answer = answer
        self.is_answered.set()


class AgedPartition:
    """`somebody`: whom a client believes to own it; `to` and `back`: messages to an owner's process, and from it."""

    def __init__(
        self,
        kind: AgedKind,
        chances: Chances,
        somebody: Callable[[random.Random], Owner],
        to: Callable[[Owner, Callable[[], None]], None],
        back: Callable[[Callable[[], None]], None],
        dice: random.Random,
        outcome: Outcome,
    ) -> None:
        self.kind = kind
        self.config = log_config(kind, chances)
        self.log = AgedLog(kind.terms, 1)
        self._somebody = somebody
        self._to = to
        self._back = back
        self._dice = dice
        self._outcome = outcome
        self._known_end = 0  # that any reader was told of
        self._sequence = 0
        self._count = 0
        self._catch_ups: dict[int, CatchUp] = {}

    @property
    def floor(self) -> int:
        """The highest high watermark anybody can know of."""
        return max(self.log.acknowledged_end, self._known_end)

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [self._live(), *(self._read_on() for _ in range(READERS))]

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def assign(self, manager: PartitionManager, leader_epoch: int) -> None:
        manager.assign(AGED, leader_epoch, "aging", self.config, self.floor)

    def check_owner(self, owner: Owner, counts: Counts) -> None:
        """`counts`: of the store, by now."""
        runtime = None if owner.manager is None else owner.manager.runtime(AGED)
        is_harmed = counts.raised_appends > 0 or counts.damaged_reads > owner.damaged_reads_before
        if runtime is not None and isinstance(runtime.state, Offline) and not is_harmed:
            raise Violation(
                f"epoch {owner.leader_epoch} took the aging partition offline though the store lost nothing"
            )

    # --- what its writer does

    async def _live(self) -> None:
        kind, dice = self.kind, self._dice
        while True:
            await asyncio.sleep(dice.expovariate(PACE / kind.pace_s))
            if dice.random() < kind.deleting_rate:
                await self._delete_records()
            else:
                await self._write()

    async def _write(self) -> None:
        """One batch, sent until it is acknowledged."""
        log, dice, records = self.log, self._dice, []
        for _ in range(dice.randint(1, 3)):
            self._count += 1
            key, is_tombstone = b"k%d" % dice.randrange(self.kind.key_count), dice.random() < 0.2
            records.append(Aged(key, b"record %d" % self._count, self.now_s(), is_tombstone))
        data = batch_of(records, PRODUCER_ID, 0, self._sequence)
        self._sequence += len(records)
        log.send(records, len(data))
        while True:
            result = await self._ask(lambda owner, tell: self._append(owner, data, tell))
            if result is not None and result.error_code is ErrorCode.NONE:
                log.acknowledge(result.base_offset)
                self._outcome.aged_batches += 1
                return
            await asyncio.sleep(dice.expovariate(20))

    async def _ask(self, ask: Callable[[Owner, Callable[[Any], None]], None]) -> Any:
        """What an owner answers; None: nothing in time."""
        question, owner = Question(), self._somebody(self._dice)
        self._to(owner, lambda: ask(owner, lambda answer: self._back(lambda: question.tell(answer))))
        try:
            async with asyncio.timeout(WAIT_S):
                await question.is_answered.wait()
        except TimeoutError:
            return None
        return question.answer

    def _append(self, owner: Owner, data: bytes, tell: Callable[[AppendResult], None]) -> None:
        log = self._log_of(owner)
        if log is not None:
            log.append(produced_batch(log.topic_partition, memoryview(bytearray(data)), tell))

    def _log_of(self, owner: Owner) -> PartitionRuntime | None:
        """None, and a start of it, where it does not serve."""
        manager = owner.manager
        if manager is None:
            return None
        log = manager.ready(AGED)
        if log is None:
            asyncio.get_running_loop().create_task(self._start(manager))
        return log

    async def _start(self, manager: PartitionManager) -> None:
        with contextlib.suppress(KafkaError):
            await manager.leader_of(AGED)

    async def _delete_records(self) -> None:
        log = self.log
        before_offset = self._dice.randint(0, log.acknowledged_end)
        log.wanted = max(log.wanted, before_offset)

        async def delete(owner: Owner, tell: Callable[[int], None]) -> None:
            aged = self._log_of(owner)
            if aged is None:
                return
            try:
                tell(await aged.delete_records(before_offset))
            except (StoreError, BmqError):
                return

        start = await self._ask(lambda owner, tell: _run(delete(owner, tell)))
        if start is not None:
            log.begins_at(start, self.now_s(), before_offset)
            self._outcome.deletions += 1

    # --- what its readers see

    async def _read_on(self) -> None:
        dice = self._dice
        position = 0
        while True:
            await asyncio.sleep(dice.expovariate(PACE / self.kind.pace_s))
            if dice.random() < 0.05:
                position = 0
            position = await self._read_from(position, dice.choice(LENGTHS_BYTES))

    async def _read_from(self, position: int, length_bytes: int) -> int:
        """Where to go on."""
        end = await self._ask(lambda owner, tell: _run(self._read(owner, position, length_bytes, tell)))
        if end is None:
            return position
        self._outcome.aged_answers += 1
        return int(end)

    async def _read(self, owner: Owner, position: int, length_bytes: int, tell: Callable[[int], None]) -> None:
        """Tell where to go on."""
        aged = self._log_of(owner)
        if aged is None or owner.client is None:
            return
        try:
            if position < aged.log_start_offset:
                start = aged.log_start_offset
                self._back(lambda: self._begins_beyond(position, start, tell))
                return
            if position >= aged.high_watermark:
                return
            bound_offset = aged.high_watermark
            views = aged.tail_read(position, length_bytes, bound_offset)
            if views:
                data = b"".join(views)
            else:
                found = await self._catch_up(owner).read(aged, position, length_bytes, bound_offset)
                data = b"".join(bytes(view) for view in found.views)  # type: ignore[arg-type]
        except (StoreError, BmqError):
            return
        self._back(lambda: self._saw(position, data, bound_offset, tell))

    def _catch_up(self, owner: Owner) -> CatchUp:
        catch_up = self._catch_ups.get(owner.leader_epoch)
        if catch_up is None:
            assert owner.client is not None
            settings = FetchSettings(
                read_cache_bytes_max=20_000, read_chunk_bytes=1_024, read_cursor_age_ms=_CURSOR_AGE_MS
            )
            cache = ReadCache(owner.client, settings, FetchCounts())
            catch_up = self._catch_ups[owner.leader_epoch] = CatchUp(cache, settings, self.now_s, _run)
        return catch_up

    def _begins_beyond(self, position: int, start: int, tell: Callable[[int], None]) -> None:
        self._outcome.starts_raised += start > max(self.log.start, self.log.wanted)
        self.log.begins_beyond(position, self.now_s())
        self.log.begins_at(start, self.now_s())
        tell(start)

    def _saw(self, position: int, data: bytes, bound_offset: int, tell: Callable[[int], None]) -> None:
        found, end = records_in(data, position)
        if end > bound_offset:
            raise Violation(f"{end} of the aging partition was served, and its high watermark was {bound_offset}")
        gone = len(self.log.gone)
        self.log.read(position, found, end, self.now_s())
        self._known_end = max(self._known_end, end)
        self._outcome.records_gone += len(self.log.gone) - gone
        tell(end)

    # --- the end

    async def check_settled(self, owner: Owner) -> None:
        """Everything that should be there is, with the last owner; what is too old goes, also if nobody writes."""
        log, position = self.log, 0
        while position < log.acknowledged_end:
            position = await self._until_told(owner, position)
        if self.kind.terms.retention_s is None:
            return
        deadline_s = self.now_s() + self.kind.terms.retention_s + SETTLE_S
        while (aged := self._log_of(owner)) is None or aged.log_start_offset < aged.high_watermark:
            if self.now_s() > deadline_s:
                raise Violation("some of the aging partition is still there, though all of it is past its retention")
            await asyncio.sleep(0.2)
        log.begins_at(aged.log_start_offset, self.now_s())

    async def _until_told(self, owner: Owner, position: int) -> int:
        deadline_s = self.now_s() + SETTLE_S
        while self.now_s() < deadline_s:
            question = Question()
            owner.process.spawn(self._read(owner, position, max(LENGTHS_BYTES), question.tell))
            try:
                async with asyncio.timeout(WAIT_S):
                    await question.is_answered.wait()
            except TimeoutError:
                continue
            if question.answer > position:
                return int(question.answer)
        raise Violation(f"{position} of the aging partition cannot be read; it ends at {self.log.acknowledged_end}")


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.get_running_loop().create_task(work)
