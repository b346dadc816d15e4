"""The streams groups of one shard (see bmq/coordinator/modern/group_runtime.py), and the creation of their topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import ClassVar, Final

import structlog

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import CoordinatorConfig, StreamsTerms
from bmq.coordinator.modern.group_runtime import Counts, GroupRuntime, Host, Volatile
from bmq.coordinator.modern.member_timers import NOBODY, Due, TimerKind, TimerOrder
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.streams.configuration import ConfiguredTopology, configured
from bmq.coordinator.streams.departures import expire
from bmq.coordinator.streams.draft import StreamsDraft
from bmq.coordinator.streams.epochs import StreamsGroupContext
from bmq.coordinator.streams.member import MemberState
from bmq.coordinator.streams.streams_group import STREAMS, StreamsGroup
from bmq.coordinator.streams.topology_description import DESCRIPTION_BYTES_MAX, DESCRIPTIONS_BYTES_MAX, KnownDescription
from bmq.coordinator.topics import CurrentTopics, Topics
from bmq.dataclass import dataclass
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.protocol.messages.streams_group_describe_response import TopologyDescription
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from bmq.protocol.request_context import RequestMethod, by_itself
from bmq.protocol.streams_group_records import RECORD_TYPES, TopologyValue

_log = structlog.get_logger("bmq.coordinator")

_CREATION_WAIT_MS: Final = 15_000
_ERROR_CHARACTERS_MAX: Final = 1_000
_NOT_FAILED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class _LastConfigured:
    """configured() with its last result cached: heartbeats ask for the same until topics change."""

    def __init__(self) -> None:
        self._asked: tuple[TopologyValue, object] | None = None
        self._answer: ConfiguredTopology | None = None

    def __call__(self, topology: TopologyValue, topics: Topics) -> ConfiguredTopology:
        by_id = topics.topics_by_id
        if self._answer is None or self._asked is None or self._asked[0] is not topology or self._asked[1] is not by_id:
            self._answer = configured(topology, topics)
            self._asked = topology, by_id
        return self._answer


@dataclass(slots=True)
class _Volatile(Volatile):
    """State that is not in the log. `endpoint_epoch`: rises when partitions served to interactive queries change."""

    endpoint_epoch: int = 0
    shutdown_by: str | None = None
    configure: _LastConfigured = field(default_factory=_LastConfigured)
    is_creating: bool = False
    creation_error: str = ""
    description: KnownDescription = field(default_factory=KnownDescription)


class StreamsGroups(GroupRuntime[StreamsGroup, StreamsDraft, StreamsGroupContext, _Volatile]):
    """See the module. `create_topics`: answers CreateTopics; None: this process cannot create topics."""

    kind: ClassVar = STREAMS
    record_types: ClassVar = RECORD_TYPES

    def __init__(
        self,
        host: Host,
        config: CoordinatorConfig,
        counts: Counts,
        image: CurrentTopics,
        create_topics: RequestMethod | None,
    ) -> None:
        super().__init__(host, config, counts, image)
        self._create_topics = create_topics

    # ---------------------------------------------------------------- for the runtime

    def _new_group(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id)

    def _draft(
        self, group_id: str, group: StreamsGroup | None, classic: Group | None, *, is_taken: bool, may_write: bool
    ) -> StreamsDraft:
        limit = self._config.message_max_bytes
        return StreamsDraft(group_id, group, classic, limit, is_taken=is_taken, may_write=may_write)

    def _group_context(self, group_id: str, volatile: _Volatile, now: Moment) -> StreamsGroupContext:
        return StreamsGroupContext(
            self._image(),
            self._config.streams,
            self._terms(group_id),
            now,
            is_stale=volatile.changes != volatile.changes_seen,
            is_delayed=volatile.timers.is_running(TimerKind.DELAY, NOBODY),
            endpoint_epoch=volatile.endpoint_epoch,
            shutdown_by=volatile.shutdown_by,
            configure=volatile.configure,
            creation_error=volatile.creation_error,
        )

    def _new_volatile(self) -> _Volatile:
        return _Volatile()

    def _first_timers(self, group: StreamsGroup) -> Iterable[TimerOrder]:
        session_ms = self._session_timeout_ms(group.group_id)
        for member in group.members.values():
            yield TimerOrder(TimerKind.SESSION, member.member_id, session_ms)
            if member.state is MemberState.UNREVOKED:
                wait_ms = max(member.rebalance_timeout_ms, 0)
                yield TimerOrder(TimerKind.REBALANCE, member.member_id, wait_ms, member.epoch)

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._terms(group_id).session_timeout_ms

    def _expire_due(self, draft: StreamsDraft, due: Due, context: StreamsGroupContext) -> bool:
        return expire(draft, due, context)

    def _decided_on(self, draft: StreamsDraft, volatile: _Volatile) -> None:
        volatile.endpoint_epoch += draft.bumps_endpoints
        if draft.group is None or not draft.group.members:
            volatile.shutdown_by = None  # the next members start without it
        elif volatile.shutdown_by is None:
            volatile.shutdown_by = draft.shutdown_by

    # ---------------------------------------------------------------- topics

    def configured(self, group: StreamsGroup) -> ConfiguredTopology | None:
        """Its topology on the existing topics; None: it has none. Raises KafkaError STREAMS_INVALID_TOPOLOGY."""
        return None if group.topology is None else configured(group.topology, self._image())

    def create_missing(self, group_id: str, topics: Sequence[CreatableTopic]) -> None:
        """Create topics in the background; a later heartbeat finds them, or reports why not."""
        if not topics or self._create_topics is None or group_id not in self.groups or self._host.is_lost:
            return
        volatile = self._volatile_of(group_id)
        if not volatile.is_creating:
            volatile.is_creating = True
            self._host.spawn(self._create(group_id, topics, self._create_topics, volatile))

    async def _create(
        self, group_id: str, topics: Sequence[CreatableTopic], create_topics: RequestMethod, volatile: _Volatile
    ) -> None:
        try:
            request = CreateTopicsRequest(topics=topics, timeout_ms=_CREATION_WAIT_MS)
            response: CreateTopicsResponse = await create_topics(request, by_itself(ApiKey.CREATE_TOPICS))
            failures = [
                f"{topic.name}: {topic.error_message or ErrorCode(topic.error_code).name}"
                for topic in response.topics
                if topic.error_code not in _NOT_FAILED
            ]
            volatile.creation_error = ", ".join(failures)[:_ERROR_CHARACTERS_MAX]
        except BmqError as error:
            volatile.creation_error = str(error) or error.code.name
        finally:
            volatile.is_creating = False
        if volatile.creation_error:
            _log.warning("internal_topics_not_created", group=group_id, error=volatile.creation_error)

    # ---------------------------------------------------------------- the topology's description

    def ask_for_description(self, group_id: str, member_id: str) -> bool:
        """Whether to ask the member, whose heartbeat is being answered, for it; then no other is asked for a while."""
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or group.topology is None or member.topology_epoch != group.topology.epoch:
            return False
        volatile = self._volatile_of(group_id)
        known, now_ms = volatile.description.of(group.topology.epoch), self._host.now().loop_ms
        if not known.is_wanted(now_ms):
            return False
        volatile.description = known.asked_at(now_ms)
        return True

    def keep_description(self, update: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
        """Keep a member's description. Raises KafkaError UNKNOWN_MEMBER_ID, INVALID_REQUEST and
        STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED.
        """
        group = self.find(update.group_id)
        if group is None or update.member_id not in group.members:
            why = f"Member {update.member_id} is not a member of group {update.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)
        if group.topology is None or update.topology_epoch != group.topology.epoch:
            why = f"Topology epoch {update.topology_epoch} is not that of the group's topology."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        volatile = self._volatile_of(update.group_id)
        brought = volatile.description.of(group.topology.epoch).brought(update)
        kept_bytes = sum(one.description.size_bytes for one in self._volatile.values() if one is not volatile)
        if kept_bytes + brought.size_bytes > DESCRIPTIONS_BYTES_MAX:
            why = f"The descriptions of all groups here have more than {DESCRIPTIONS_BYTES_MAX} bytes."
            raise KafkaError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, why)
        volatile.description = brought
        if volatile.description.is_refused:
            why = f"The description has more than {DESCRIPTION_BYTES_MAX} bytes."
            raise KafkaError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, why)

    def description(self, group: StreamsGroup) -> TopologyDescription | None:
        """The description of its topology; None: no member has sent one."""
        volatile = self._volatile.get(group.group_id)
        if volatile is None or group.topology is None:
            return None
        return volatile.description.of(group.topology.epoch).described()

    def _terms(self, group_id: str) -> StreamsTerms:
        return self._config.streams.terms(self._image().group_configs.get(group_id, {}))
