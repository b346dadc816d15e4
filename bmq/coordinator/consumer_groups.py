"""The consumer groups of one shard (see group_runtime.py), and the resolution of their regular expressions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import ClassVar, Final

import structlog

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import ConsumerConfig, CoordinatorConfig, GroupTerms
from bmq.coordinator.consumer.consumer_group import CONSUMER, ConsumerGroup
from bmq.coordinator.consumer.departures import expire
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext
from bmq.coordinator.consumer.member import MemberState
from bmq.coordinator.consumer.patterns import Matches, compiled
from bmq.coordinator.consumer.resolution import ResolutionTimes, is_due, resolve
from bmq.coordinator.modern.group_runtime import Counts, GroupRuntime, Host, Volatile
from bmq.coordinator.modern.member_timers import Due, TimerKind, TimerOrder
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.topics import CurrentTopics, MayDescribe, TopicChanges
from bmq.dataclass import dataclass
from bmq.protocol.consumer_group_records import RECORD_TYPES
from bmq.protocol.errors import KafkaError
from bmq.protocol.group_terms_cache import NO_CONFIGS, GroupTermsCache
from bmq.protocol.request_context import RequestContext

_log = structlog.get_logger("bmq.coordinator")

_CHARS_PER_TURN_MAX: Final = 1_000
"""Characters of topic names matched in one turn of the event loop. The slowest patterns take 30 microseconds for each."""


@dataclass(slots=True)
class _Volatile(Volatile):
    """State that is not in the log."""

    times: ResolutionTimes = field(default_factory=ResolutionTimes)
    is_resolving: bool = False


class ConsumerGroups(GroupRuntime[ConsumerGroup, Draft, GroupContext, _Volatile]):
    """See the module."""

    kind: ClassVar = CONSUMER
    record_types: ClassVar = RECORD_TYPES

    def __init__(
        self,
        host: Host,
        config: CoordinatorConfig,
        counts: Counts,
        image: CurrentTopics,
        may_describe: MayDescribe,
    ) -> None:
        super().__init__(host, config, counts, image)
        self._may_describe = may_describe
        self._cached_terms = GroupTermsCache(lambda: self._config.consumer, ConsumerConfig.terms)

    # ---------------------------------------------------------------- for the runtime

    def _new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id)

    def _draft(
        self, group_id: str, group: ConsumerGroup | None, classic: Group | None, *, is_taken: bool, may_write: bool
    ) -> Draft:
        limit = self._config.message_max_bytes
        return Draft(group_id, group, classic, limit, is_taken=is_taken, may_write=may_write)

    def _group_context(self, group_id: str, volatile: _Volatile, now: Moment) -> GroupContext:
        topics = self._image()
        return GroupContext(
            topics,
            self._config.consumer,
            self._terms(group_id),
            now,
            volatile.changes != volatile.changes_seen,
            self._config.group_max_size,
        )

    def _new_volatile(self) -> _Volatile:
        return _Volatile()

    def _first_timers(self, group: ConsumerGroup) -> Iterable[TimerOrder]:
        session_ms = self._session_timeout_ms(group.group_id)
        for member in group.members.values():
            timeout_ms = session_ms if member.classic is None else member.classic.session_timeout_ms
            yield TimerOrder(TimerKind.SESSION, member.member_id, timeout_ms)
            if member.classic is None and member.state is MemberState.UNREVOKED:
                wait_ms = max(member.rebalance_timeout_ms, 0)
                yield TimerOrder(TimerKind.REBALANCE, member.member_id, wait_ms, member.epoch)

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._terms(group_id).session_timeout_ms

    def _expire_due(self, draft: Draft, due: Due, context: GroupContext) -> bool:
        return expire(draft, due, context)

    # ---------------------------------------------------------------- topics

    def resolution(self, group_id: str) -> tuple[bool, ResolutionTimes]:
        """Whether the group's regular expressions are being resolved now, and the times of that."""
        volatile = self._volatile.get(group_id)
        return (False, ResolutionTimes()) if volatile is None else (volatile.is_resolving, volatile.times)

    def topics_changed(self, changes: TopicChanges) -> None:
        for group_id, group in self.groups.items():
            if changes.created and group.subscribed_regexes:
                volatile = self._volatile_of(group_id)
                volatile.times = volatile.times._replace(has_new_topics=True)
        super().topics_changed(changes)

    def resolve_if_due(self, group_id: str, context: RequestContext) -> None:
        """Resolve the group's regular expressions in the background, if that is due.

        `context`: of a member's heartbeat. As in Kafka, the expressions of all members match what its client may describe.
        """
        group = self.find(group_id)
        if group is None or not group.subscribed_regexes or self._host.is_lost:
            return
        volatile = self._volatile_of(group_id)
        now = self._host.now()
        if not volatile.is_resolving and is_due(group, volatile.times, self._config.consumer, now.wall_ms):
            volatile.is_resolving = True
            volatile.times = ResolutionTimes(now.wall_ms, has_new_topics=False)
            self._host.spawn(self._resolve(group, volatile, context))

    async def _resolve(self, group: ConsumerGroup, volatile: _Volatile, asked: RequestContext) -> None:
        try:
            topics = self._image()
            names = tuple(topics.topics)
            matches = {}
            for regex in sorted(group.subscribed_regexes):
                matches[regex] = await _matching(regex, names, partial(self._may_describe, asked))
            await self.decide(group.group_id, lambda draft, context: resolve(draft, matches, topics.offset, context))
        except KafkaError as error:
            volatile.times = volatile.times._replace(has_new_topics=True)
            _log.warning("regexes_not_resolved", group=group.group_id, error=str(error))
        finally:
            volatile.is_resolving = False

    def _terms(self, group_id: str) -> GroupTerms:
        return self._cached_terms(group_id, self._image().group_configs.get(group_id, NO_CONFIGS))


async def _matching(regex: str, names: Sequence[str], may_describe: Callable[[str], bool]) -> frozenset[str]:
    try:
        matches: Matches = compiled(regex)
    except KafkaError as error:  # accepted by another server
        _log.warning("regex_not_compiled", error=str(error))
        return frozenset()
    found: set[str] = set()
    count = 0
    for name in names:
        if matches(name) and may_describe(name):
            found.add(name)
        count += len(name)
        if count >= _CHARS_PER_TURN_MAX:
            count = 0
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    return frozenset(found)
