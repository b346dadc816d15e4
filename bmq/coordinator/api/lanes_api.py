"""The coordinator's internal calls about lanes: which intervals concern a read, and which members a lane's group has.

See docs/decisions/0063-lanes-by-client-id-and-logged-intervals.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import Final
from uuid import UUID

import structlog

from bmq.coordinator.api.context import CoordinatorContext
from bmq.coordinator.api.lane_ends import LaneEnds
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.lanes.lane_states import LanePlace, is_copied, key_of, place_of
from bmq.coordinator.lanes.marks import ENABLE_CONFIG, are_lanes_enabled
from bmq.coordinator.lanes.ports import LaneCalls, LaneCopies, ProvenBounds
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.log.lanes.intervals import concerning, opened
from bmq.log.lanes.names import LaneGroup, copies_topic, refusal_of
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, as_message
from bmq.protocol.lane_messages import (
    CommittedPartition,
    DecidedInterval,
    DecidedPartition,
    LaneDecideRequest,
    LaneDecideResponse,
    LaneGroupRequest,
    LaneGroupResponse,
    LaneListRequest,
    LaneListResponse,
    LanePartition,
    ListedInterval,
    UntakenLane,
)
from bmq.protocol.lane_records import LaneIntervalValue, encode_key, encode_value
from bmq.protocol.request_context import RequestContext

INTERVALS_MAX: Final = 1_000
"""Intervals of a partition and base group: no lane is taken beyond, until retention has passed some."""

_log = structlog.get_logger("bmq.coordinator")


class LanesApi:
    """Before `use` is called no lane is taken."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._calls: LaneCalls | None = None
        self._bounds: ProvenBounds | None = None
        self._ends: LaneEnds | None = None

    def use(self, calls: LaneCalls, bounds: ProvenBounds, copies: LaneCopies) -> None:
        """From now on."""
        self._calls = calls
        self._bounds = bounds
        self._ends = LaneEnds(self._context, calls, bounds, copies)

    def loaded(self, shard: GroupShard) -> None:
        """Continue the work that the shard's former owner left unfinished."""
        if self._ends is not None:
            self._ends.watch(shard)

    # ---------------------------------------------------------------- members

    async def group(self, request: LaneGroupRequest, _: RequestContext) -> LaneGroupResponse:
        """LaneGroup: members and committed offsets of one moment, after a proof of ownership (rule 15)."""
        group_id = request.group_id
        try:
            shard = await self._context.existing(group_id)
            await shard.settle(group_id)
            await shard.prove()
        except KafkaError as error:
            return LaneGroupResponse(error_code=coordinator_error(error), error_message=as_message(str(error)))
        topics = self._context.image().topics_by_id
        unstable = shard.offsets.pending.partitions_of(group_id)
        committed = shard.offsets.committed(group_id)
        answers = []
        for part in request.partitions:
            topic = topics.get(part.topic_id)
            name = "" if topic is None else topic.name
            if (name, part.partition) in unstable:
                return LaneGroupResponse(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            value = committed.get(name, {}).get(part.partition)
            offset = -1 if value is None else value.offset
            answers.append(CommittedPartition(topic_id=part.topic_id, partition=part.partition, offset=offset))
        base = group_id.partition("@")[0]
        return LaneGroupResponse(
            is_mark_demanded=are_lanes_enabled(self._context.image(), base),
            client_ids=shard.client_ids(group_id),
            partitions=answers,
        )

    # ---------------------------------------------------------------- deciding

    async def decide(self, request: LaneDecideRequest, _: RequestContext) -> LaneDecideResponse:
        """LaneDecide, at the base group's shard."""
        try:
            shard = await self._context.existing(request.group_id)
            parts = await asyncio.gather(*(self._decide(shard, request, part) for part in request.partitions))
        except KafkaError as error:
            return LaneDecideResponse(error_code=coordinator_error(error), error_message=as_message(str(error)))
        return LaneDecideResponse(partitions=parts)

    async def _decide(self, shard: GroupShard, request: LaneDecideRequest, part: LanePartition) -> DecidedPartition:
        """Raises KafkaError if the shard is lost."""
        asked_ms = shard.elapsed_ms()
        lanes, place = shard.lanes, LanePlace(request.group_id, part.topic_id, part.partition)
        if request.lane:
            try:
                await self._take(shard, place, request.lane)
            except BmqError as error:
                lanes.not_taken(place, request.lane, str(error) or error.code.name)
        while True:
            await lanes.settled(place)
            await shard.prove_since(asked_ms)
            if not lanes.is_changing(place):
                break
        found = concerning(lanes.states.intervals(place), part.first, part.last)
        return DecidedPartition(
            topic_id=part.topic_id,
            partition=part.partition,
            intervals=[DecidedInterval(lane=one.lane, start=one.start, end=one.end, kept=one.kept) for one in found],
        )

    # ---------------------------------------------------------------- a lane comes

    async def _take(self, shard: GroupShard, place: LanePlace, lane: str) -> None:
        """Have the lane taken, if nothing is against it. Raises KafkaError: it is not."""
        lanes = shard.lanes
        if lanes.open_interval(place, lane) is None:
            told = asyncio.get_running_loop().create_future()
            shard.spawn(self._open_once(shard, place, lane, told))
            await shard.answer_of(told)
        lanes.has_been_read(place, lane, shard.now().loop_ms)
        lanes.taken(place, lane)

    async def _open_once(self, shard: GroupShard, place: LanePlace, lane: str, told: asyncio.Future[None]) -> None:
        """A task of the shard: questions have to wait until the append has ended, also when the asker's link is lost."""
        lanes = shard.lanes
        try:
            while lanes.open_interval(place, lane) is None:
                if lanes.is_changing(place):
                    await lanes.settled(place)
                    continue
                with lanes.changing(place):
                    await self._open(shard, place, lane)
        except BmqError as error:
            if not told.done():
                told.set_exception(error)
        else:
            if not told.done():
                told.set_result(None)

    async def _open(self, shard: GroupShard, place: LanePlace, lane: str) -> None:
        calls, bounds, ends = self._calls, self._bounds, self._ends
        if calls is None or bounds is None or ends is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this process reaches no lanes")
        self._check_base(shard, place)
        group_id = LaneGroup(place.group_id, lane).group_id
        members = await calls.group(LaneGroupRequest(group_id=group_id))
        if members.error_code:
            code = ErrorCode(members.error_code)
            raise KafkaError(code, f"the group {group_id} was not reached: {members.error_message or code.name}")
        if not members.is_mark_demanded:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {group_id} does not know the config yet"
            )
        if not members.client_ids:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"the group {group_id} has no members")
        _check_marks(group_id, members.client_ids)
        # Asked behind all decisions: at or behind every offset that was decided about before.
        log_start, end = await bounds.proven_bounds(place.topic_id, place.partition)
        self._check_base(shard, place)
        states = shard.lanes.states
        interval = opened(states.intervals(place), lane, end)
        value = LaneIntervalValue(end=interval.end, kept=interval.kept, opened_ms=self._context.clock.now_ms())
        records: list[tuple[bytes, bytes | None]] = [(encode_key(key_of(place, interval)), encode_value(value))]
        for passed, was in states.entries(place.group_id):
            if place_of(passed) == place and is_copied(was) and was.end <= log_start and passed.start != interval.start:
                records.append((encode_key(passed), None))
        await asyncio.shield(shard.append(records))
        ends.watch(shard)
        _log.info("lane_taken", group=place.group_id, lane=lane, partition=place.partition, offset=interval.start)

    def _check_base(self, shard: GroupShard, place: LanePlace) -> None:
        """Raises KafkaError when no lane of this group may be taken here."""
        topic = self._context.image().topics_by_id.get(place.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic is not known here")
        if not are_lanes_enabled(self._context.image(), place.group_id):
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"the group {place.group_id} has no {ENABLE_CONFIG}=true")
        copies = copies_topic(topic.name, place.group_id)
        if copies not in self._context.image().topics:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"there is no topic {copies} for what a lane leaves over")
        if len(shard.lanes.states.intervals(place)) >= INTERVALS_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"the partition has {INTERVALS_MAX} intervals of lanes")
        _check_marks(place.group_id, shard.client_ids(place.group_id))

    def topics_gone(self, shard: GroupShard, gone: Container[UUID]) -> None:
        """Delete the intervals of deleted topics. A shard that is not loaded deletes them with its next change."""
        records = [(encode_key(key), None) for key, _ in shard.lanes.states.entries() if key.topic_id in gone]
        if records:
            shard.append(records)

    # ---------------------------------------------------------------- for operators

    async def list(self, request: LaneListRequest, _: RequestContext) -> LaneListResponse:
        """LaneList: all intervals of a base group, and why lanes are not taken."""
        try:
            shard = await self._context.existing(request.group_id)
            await shard.prove()
        except KafkaError as error:
            return LaneListResponse(error_code=coordinator_error(error), error_message=as_message(str(error)))
        return LaneListResponse(
            intervals=[
                ListedInterval(
                    topic_id=key.topic_id,
                    partition=key.partition,
                    lane=key.lane,
                    start=key.start,
                    end=value.end,
                    kept=value.kept,
                    opened_ms=value.opened_ms,
                    copied=value.copied,
                    copied_records=value.copied_records,
                    waits=shard.lanes.waits.get(key, ""),
                )
                for key, value in shard.lanes.states.entries(request.group_id)
            ],
            untaken=[
                UntakenLane(topic_id=place.topic_id, partition=place.partition, lane=lane, reason=reason)
                for (place, lane), reason in shard.lanes.untaken.items()
                if place.group_id == request.group_id
            ],
        )


def _check_marks(group_id: str, client_ids: Sequence[str]) -> None:
    """Raises KafkaError when a member reads without the group's view."""
    for client_id in client_ids:
        if refusal_of(group_id, client_id, lambda _: True) is not None:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"a member of {group_id} has the client id {client_id[:100]!r}, without the mark",
            )
