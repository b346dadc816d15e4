"""Ends the intervals of lanes without consumers, and has their unread records copied for the base group.

One task watches all lanes of a shard. It ends when no lane is taken and nothing waits for its copy. What fails is tried again, each time
after twice as long a pause: the topic of copies may be missing, or refuse a record, until an operator comes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, NamedTuple

import structlog

from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.lanes.lane_states import is_copied, place_of
from bmq.coordinator.lanes.marks import grace_ms
from bmq.coordinator.lanes.ports import LaneCalls, LaneCopies, ProvenBounds
from bmq.log.lanes.copying import CopyJob
from bmq.log.lanes.intervals import NO_END, Interval, closed
from bmq.log.lanes.names import LaneGroup
from bmq.protocol.errors import BmqError
from bmq.protocol.lane_messages import UNKNOWN, CommittedPartition, LaneGroupRequest
from bmq.protocol.lane_records import LaneIntervalKey, LaneIntervalValue, encode_key, encode_value

LOOK_S: Final = 1.0
"""So often a shard with lanes looks whether one has gone."""
PAUSE_S_MAX: Final = 30.0
"""Between two tries of what fails."""
TRIES_AT_ONCE: Final = 8
"""Intervals of a shard: one whose partition or topic of copies does not answer keeps others waiting for seconds."""
COPIES_PER_LOOK_MAX: Final = 100
"""Batches of one interval that are copied before the next one has its turn."""

_log = structlog.get_logger("bmq.coordinator")


class Pause(NamedTuple):
    """No try until `until_s` of the loop's clock, as the last one failed. `length_s`: of this pause."""

    until_s: float
    length_s: float

    @classmethod
    def after(cls, last: Pause | None, now_s: float) -> Pause:
        """Behind one more try that failed. `last`: the pause before it; None: the try before it did not fail."""
        length_s = LOOK_S if last is None else min(2 * last.length_s, PAUSE_S_MAX)
        return cls(now_s + length_s, length_s)


class LaneEnds:
    """For all shards of a process."""

    def __init__(self, context: CoordinatorContext, calls: LaneCalls, bounds: ProvenBounds, copies: LaneCopies) -> None:
        self._context = context
        self._calls = calls
        self._bounds = bounds
        self._copies = copies
        self._watched: set[GroupShard] = set()

    def watch(self, shard: GroupShard) -> None:
        """Watch the shard's lanes until none is taken and no record waits for its copy."""
        if shard not in self._watched and _unfinished(shard):
            self._watched.add(shard)
            shard.spawn(self._watch(shard))

    async def _watch(self, shard: GroupShard) -> None:
        loop, waits = asyncio.get_running_loop(), shard.lanes.waits
        pauses: dict[LaneIntervalKey, Pause] = {}
        tries: dict[LaneIntervalKey, asyncio.Task[None]] = {}
        try:
            while not shard.is_lost and ((unfinished := _unfinished(shard)) or tries):
                for key in unfinished:
                    is_due = key not in pauses or pauses[key].until_s <= loop.time()
                    if is_due and key not in tries and len(tries) < TRIES_AT_ONCE:
                        tries[key] = loop.create_task(self._try(shard, key, pauses))
                await asyncio.sleep(LOOK_S)
                for key in [key for key, one in tries.items() if one.done()]:
                    del tries[key]
                left = set(_unfinished(shard))
                for gone in [key for key in waits if key not in left]:  # its topic was deleted
                    del waits[gone]
                    pauses.pop(gone, None)
        finally:
            for one in tries.values():
                one.cancel()
            self._watched.discard(shard)

    async def _try(self, shard: GroupShard, key: LaneIntervalKey, pauses: dict[LaneIntervalKey, Pause]) -> None:
        try:
            await self._go_on(shard, key)
            pauses.pop(key, None)
            shard.lanes.waits.pop(key, None)
        except BmqError as error:
            self._put_off(shard, pauses, key, str(error) or error.code.name)
        except Exception as error:  # noqa: BLE001 the other intervals go on
            _log.exception("lane_not_ended")
            self._put_off(shard, pauses, key, f"{type(error).__name__} (see the node's log)")

    def _put_off(
        self, shard: GroupShard, pauses: dict[LaneIntervalKey, Pause], key: LaneIntervalKey, reason: str
    ) -> None:
        _told(shard.lanes.waits, key, reason)
        pauses[key] = Pause.after(pauses.get(key), asyncio.get_running_loop().time())

    async def _go_on(self, shard: GroupShard, key: LaneIntervalKey) -> None:
        """Raises BmqError: later again."""
        value = shard.lanes.states.value(key)
        if value is not None and value.end == NO_END:
            await self._end_if_gone(shard, key)
            value = shard.lanes.states.value(key)
        for _ in range(COPIES_PER_LOOK_MAX):
            if value is None or value.end == NO_END or is_copied(value):
                return
            await self._copy(shard, key, value)
            value = shard.lanes.states.value(key)

    # ---------------------------------------------------------------- a lane goes

    async def _end_if_gone(self, shard: GroupShard, key: LaneIntervalKey) -> None:
        lanes, place = shard.lanes, place_of(key)
        now_ms = shard.now().loop_ms
        if now_ms - lanes.read_ms(place, key.lane, now_ms) < grace_ms(self._context.image(), key.group):
            return
        if await self._committed(key) is None:
            lanes.has_been_read(place, key.lane, now_ms)
            return
        await lanes.settled(place)
        with lanes.changing(place):  # a member that joins now waits with its first fetch
            await self._end(shard, key)

    async def _end(self, shard: GroupShard, key: LaneIntervalKey) -> None:
        committed = await self._committed(key)
        value = shard.lanes.states.value(key)
        if committed is None or value is None or value.end != NO_END:
            return
        _, end = await self._bounds.proven_bounds(key.topic_id, key.partition)
        ended = closed(Interval(key.lane, key.start), end, None if committed == UNKNOWN else committed)
        value = replace(value, end=ended.end, kept=ended.kept, copied=ended.kept)
        if ended.left_over:
            producer_id, partition = await self._copies.producer(key.group, key.topic_id, key.partition)
            value = replace(value, producer_id=producer_id, copy_partition=partition)
        await self._write(shard, key, None if ended.end == ended.start else value)
        shard.lanes.gone(place_of(key), key.lane)
        names = {"group": key.group, "lane": key.lane, "partition": key.partition}
        _log.info("lane_left", **names, end_offset=ended.end, left_over=len(ended.left_over))

    async def _committed(self, key: LaneIntervalKey) -> int | None:
        """What the lane's group has committed (UNKNOWN: nothing); None: it has members, or cannot be asked now."""
        asked = CommittedPartition(topic_id=key.topic_id, partition=key.partition)
        group_id = LaneGroup(key.group, key.lane).group_id
        answer = await self._calls.group(LaneGroupRequest(group_id=group_id, partitions=[asked]))
        if answer.error_code or answer.client_ids:
            return None
        return answer.partitions[0].offset

    # ---------------------------------------------------------------- what it left over

    async def _copy(self, shard: GroupShard, key: LaneIntervalKey, value: LaneIntervalValue) -> None:
        job = CopyJob(
            key.group,
            key.topic_id,
            key.partition,
            key.lane,
            value.copied,
            value.end,
            value.producer_id,
            value.copied_records,
            value.copy_partition,
        )
        await shard.prove()  # a former owner copies nothing
        step = await self._copies.copy(job)
        copied_records = value.copied_records + step.records
        await self._write(shard, key, replace(value, copied=step.next_offset, copied_records=copied_records))

    async def _write(self, shard: GroupShard, key: LaneIntervalKey, value: LaneIntervalValue | None) -> None:
        await asyncio.shield(shard.append([(encode_key(key), None if value is None else encode_value(value))]))


def _told(waits: dict[LaneIntervalKey, str], key: LaneIntervalKey, reason: str) -> None:
    """For operators; a reason is logged once."""
    if waits.get(key) != reason:
        _log.warning("lane_not_ended", group=key.group, lane=key.lane, partition=key.partition, reason=reason)
    waits[key] = reason


def _unfinished(shard: GroupShard) -> list[LaneIntervalKey]:
    return [key for key, value in shard.lanes.states.entries() if not is_copied(value)]
