"""A streams group played by hand: requests in, answers out; what is written is applied at once, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import StreamsConfig
from bmq.coordinator.modern.member_timers import NOBODY, Due, TimerKind
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.streams.configuration import configured
from bmq.coordinator.streams.departures import expire
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.epochs import StreamsGroupContext
from bmq.coordinator.streams.heartbeat import Answered, CheckedHeartbeat, check, heartbeat
from bmq.coordinator.streams.streams_group import StreamsGroup
from bmq.coordinator.streams.tasks import TaskId, Tasks, partitions_of
from bmq.protocol import streams_group_records as records
from bmq.protocol.group_records import UnknownKey, decode_key
from bmq.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from bmq.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from tests.unit.coordinator.cluster import FakeTopic, FakeTopics

GROUP_ID = "g"
REBALANCE_MS = 60_000


def subtopology(
    subtopology_id: str,
    sources: Sequence[str] = (),
    *,
    changelogs: Sequence[str] = (),
    sinks: Sequence[str] = (),
    repartitions: Mapping[str, int] | None = None,
    copartitions: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
    **fields: Any,
) -> Subtopology:
    """`repartitions`: source topics made for it, 0 for no number; `copartitions`: (places of sources, of those)."""
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=tuple(sources),
        state_changelog_topics=[TopicInfo(name=name) for name in changelogs],
        repartition_sink_topics=tuple(sinks),
        repartition_source_topics=[TopicInfo(name=name, partitions=n) for name, n in (repartitions or {}).items()],
        copartition_groups=[
            CopartitionGroup(source_topics=places, repartition_source_topics=made) for places, made in copartitions
        ],
        **fields,
    )


COUNT = Topology(epoch=0, subtopologies=[subtopology("0", ["t"], changelogs=["log"])])
"""One subtopology with state, which reads t."""


def ids(*tasks: tuple[str, int]) -> frozenset[TaskId]:
    return frozenset(TaskId(*task) for task in tasks)


def task_parts(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in partitions_of(tasks).items()]


def told(answer: StreamsGroupHeartbeatResponse) -> Tasks | None:
    """What the member is told to have; None: nothing new."""
    if answer.active_tasks is None or answer.standby_tasks is None or answer.warmup_tasks is None:
        assert answer.active_tasks is answer.standby_tasks is answer.warmup_tasks is None
        return None
    parts = (
        frozenset(TaskId(part.subtopology_id, number) for part in given for number in part.partitions)
        for given in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
    )
    return Tasks(*parts)


@dataclass
class Bench:
    """`topics`: name -> partition count. `log`: all records, in order. `now_ms`: moved by the test."""

    topics: dict[str, int] = field(default_factory=lambda: {"t": 2, "log": 2})
    config: StreamsConfig = field(
        default_factory=lambda: StreamsConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
    )
    topology: Topology = field(default_factory=lambda: COUNT)
    group_configs: dict[str, str] = field(default_factory=dict)
    classic: Group | None = None
    is_taken: bool = False
    now_ms: int = 1_700_000_000_000

    def __post_init__(self) -> None:
        self.group: StreamsGroup | None = None
        self.log: list[tuple[bytes, bytes | None]] = []
        self.draft: StreamsDraft | None = None
        self.is_stale = True
        self.is_delayed = False
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None
        self.creation_error = ""
        self._ids: dict[str, UUID] = {}

    @property
    def existing(self) -> StreamsGroup:
        assert self.group is not None
        return self.group

    @property
    def image(self) -> FakeTopics:
        for name in self.topics:
            self._ids.setdefault(name, UUID(int=len(self._ids) + 1))
        return FakeTopics(
            {name: FakeTopic(name, self._ids[name], tuple(range(count))) for name, count in self.topics.items()}
        )

    @property
    def context(self) -> StreamsGroupContext:
        return StreamsGroupContext(
            self.image,
            self.config,
            self.config.terms(self.group_configs),
            Moment(float(self.now_ms), self.now_ms),
            is_stale=self.is_stale,
            is_delayed=self.is_delayed,
            endpoint_epoch=self.endpoint_epoch,
            shutdown_by=self.shutdown_by,
            configure=configured,
            creation_error=self.creation_error,
        )

    def decide(self, decide: Any) -> Any:
        """`decide(draft)`; what it wrote is durable when it returns. Raises KafkaError."""
        classic = None if self.group else self.classic
        self.draft = draft = StreamsDraft(GROUP_ID, self.group, classic, 1_000_000, is_taken=self.is_taken)
        answer = decide(draft)
        for key, value in draft.records:
            self.replay(key, value)
        if draft.is_refreshed:
            self.is_stale = False
        self.endpoint_epoch += draft.bumps_endpoints
        self.shutdown_by = self.shutdown_by or draft.shutdown_by
        self.is_delayed |= any(order.kind is TimerKind.DELAY for order in draft.timers)
        return answer

    def replay(self, key: bytes, value: bytes | None) -> None:
        self.log.append((key, value))
        if not isinstance(decode_key(key), UnknownKey):
            self.classic = None
            return
        named = records.decode_key(key)
        if self.group is None:
            self.group = StreamsGroup(GROUP_ID)
        self.group.apply(named, records.decode_value(named, value))
        if isinstance(named, records.EpochKey) and value is None:
            self.group = None
            self.log.clear()

    # ---------------------------------------------------------------- members

    def ask(self, request: StreamsGroupHeartbeatRequest) -> Answered:
        """Raises KafkaError."""
        checked = CheckedHeartbeat(request, check(request), "client", "/host")
        answered: Answered = self.decide(lambda draft: heartbeat(draft, checked, self.context))
        return answered

    def join(self, member: str, process: str | None = None, /, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Each member is a process of its own unless said otherwise. Raises KafkaError."""
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP_ID,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            topology=self.topology,
            process_id=process or f"process of {member}",
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(request).response

    def beat(
        self, member_id: str, epoch: int, owned: Tasks | None = None, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        """Raises KafkaError."""
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP_ID,
            member_id=member_id,
            member_epoch=epoch,
            active_tasks=None if owned is None else task_parts(owned.active),
            standby_tasks=None if owned is None else task_parts(owned.standby),
            warmup_tasks=None if owned is None else task_parts(owned.warmup),
            client_tags=None,
            task_offsets=None,
            task_end_offsets=None,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(request).response

    def leave(self, member_id: str) -> StreamsGroupHeartbeatResponse:
        return self.beat(member_id, -1)

    def expire(self, member_id: str, kind: TimerKind = TimerKind.SESSION, epoch: int = -1) -> bool:
        """Whether it was put out."""
        if kind is TimerKind.DELAY:
            self.is_delayed = False
        done: bool = self.decide(lambda draft: expire(draft, Due(kind, member_id, epoch), self.context))
        return done

    def end_delay(self) -> None:
        self.expire(NOBODY, TimerKind.DELAY)


def endpoint(port: int) -> Endpoint:
    return Endpoint(host="localhost", port=port)


def replayed(log: Iterable[tuple[bytes, bytes | None]]) -> StreamsGroup:
    """The group that a server makes of these records."""
    group = StreamsGroup(GROUP_ID)
    for key, value in log:
        if isinstance(decode_key(key), UnknownKey):
            named = records.decode_key(key)
            group.apply(named, records.decode_value(named, value))
    group.drop_leftovers()
    return group


def picture(group: StreamsGroup | None) -> Any:
    """All that is to be seen of a group."""
    if group is None or not group.exists:
        return None
    return {
        name: value
        for name, value in vars(group.fork()).items()  # which does not change with the group
        if name not in ("group_id", "_loose")
    }
