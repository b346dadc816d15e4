"""The share groups of one shard (see bmq/coordinator/modern/group_runtime.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, ClassVar, Final
from uuid import UUID

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import CoordinatorConfig, GroupTerms, ShareConfig
from bmq.coordinator.modern.cached_responses import RequestKey
from bmq.coordinator.modern.group_runtime import Counts, GroupRuntime, Host, Volatile
from bmq.coordinator.modern.member_timers import Due, TimerKind, TimerOrder
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_membership.activation import Activation
from bmq.coordinator.share_membership.assignor import Target
from bmq.coordinator.share_membership.draft import ShareDraft
from bmq.coordinator.share_membership.heartbeat import ShareContext, expire
from bmq.coordinator.share_membership.share_group import SHARE, ShareGroup, StateTopics
from bmq.coordinator.subscription_type import SubscriptionType, subscription_of
from bmq.coordinator.topics import CurrentTopics
from bmq.dataclass import dataclass
from bmq.protocol.group_terms_cache import NO_CONFIGS, GroupTermsCache
from bmq.protocol.share_group_records import RECORD_TYPES, CurrentKey

MemberExpired = Callable[[str, str, Target], None]
"""(group id, member id, what the member had): its removal is durable."""
_NONE: Final[frozenset[int]] = frozenset()


@dataclass(slots=True)
class ShareVolatile(Volatile):
    """State that is not in the log. `under_way`: partitions whose state this process initializes now.

    `subscription`: as the last decision saw it. `activation`: which members the shards of the state know.
    `expiring`: members whose removal was decided because they were silent.
    """

    under_way: dict[UUID, frozenset[int]] = field(default_factory=dict)
    subscription: SubscriptionType | None = None
    activation: Activation = field(default_factory=Activation)
    expiring: set[str] = field(default_factory=set)


class ShareGroups(GroupRuntime[ShareGroup, ShareDraft, ShareContext, ShareVolatile]):
    """See the module. `expired`: called for each member whose session has expired, durably, and that had partitions. One that
    leaves keeps its locks, as in Kafka: they end with its share sessions.
    """

    kind: ClassVar = SHARE
    record_types: ClassVar = RECORD_TYPES

    def __init__(
        self, host: Host, config: CoordinatorConfig, counts: Counts, image: CurrentTopics, expired: MemberExpired
    ) -> None:
        super().__init__(host, config, counts, image)
        self._expired = expired
        self._cached_terms = GroupTermsCache(lambda: self._config.share, ShareConfig.terms)

    def _new_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id)

    def _draft(
        self, group_id: str, group: ShareGroup | None, classic: Group | None, *, is_taken: bool, may_write: bool
    ) -> ShareDraft:
        limit = self._config.message_max_bytes
        return ShareDraft(group_id, group, classic, limit, is_taken=is_taken, may_write=may_write)

    def _group_context(self, group_id: str, volatile: ShareVolatile, now: Moment) -> ShareContext:
        subscription = self._subscription(group_id)
        if volatile.subscription is not subscription:
            volatile.subscription = subscription
            volatile.changes += 1
        return ShareContext(
            self._image(),
            self._config.share,
            self._terms(group_id),
            now,
            is_stale=volatile.changes != volatile.changes_seen,
            under_way=dict(volatile.under_way),
            subscription=subscription,
            version=volatile.changes,
        )

    def activation(self, group_id: str) -> Activation | None:
        """How far the active members of a group are named; None: its partitions are shared by all members."""
        if not self._subscription(group_id).is_single_active:
            return None
        return self._volatile_of(group_id).activation

    def cached_response(self, group_id: str, key: RequestKey) -> bytes | None:
        """None, too, while shards of the state have to learn of active members: a heartbeat that is decided informs them."""
        group = self.groups.get(group_id)
        activation = None if group is None else self.activation(group_id)
        if group is not None and activation is not None and not activation.has_begun(group.target_epoch):
            return None
        return super().cached_response(group_id, key)

    def _subscription(self, group_id: str) -> SubscriptionType:
        return subscription_of(self._image().group_configs.get(group_id, {}))

    @contextmanager
    def initializing(self, group_id: str, topics: StateTopics) -> Iterator[None]:
        """Meanwhile no other request initializes these."""
        under_way = self._volatile_of(group_id).under_way
        for topic_id, topic in topics.items():
            under_way[topic_id] = under_way.get(topic_id, _NONE) | topic.partitions
        try:
            yield
        finally:
            for topic_id, topic in topics.items():
                left = under_way.pop(topic_id, _NONE) - topic.partitions
                if left:
                    under_way[topic_id] = left

    def with_state_of(self, topics: Iterable[UUID]) -> list[str]:
        """Groups with partitions of these topics that have state."""
        wanted = frozenset(topics)
        return [
            group_id
            for group_id, group in self.groups.items()
            if any(one in group.states.initialized or one in group.states.initializing for one in wanted)
        ]

    def deleting(self) -> list[tuple[str, Mapping[UUID, str]]]:
        """Groups whose state of some topics is being deleted, and those topics."""
        return [(group_id, group.states.deleting) for group_id, group in self.groups.items() if group.states.deleting]

    def _new_volatile(self) -> ShareVolatile:
        return ShareVolatile()

    def _removing(self, group: ShareGroup, key: Any) -> None:
        member = group.members.get(key.member_id) if isinstance(key, CurrentKey) else None
        if member is None:
            return
        volatile = self._volatile.get(group.group_id)
        if volatile is not None and member.member_id in volatile.expiring:
            volatile.expiring.discard(member.member_id)
            if member.assigned:
                self._expired(group.group_id, member.member_id, member.assigned)

    def _first_timers(self, group: ShareGroup) -> Iterable[TimerOrder]:
        session_ms = self._session_timeout_ms(group.group_id)
        for member_id in group.members:
            yield TimerOrder(TimerKind.SESSION, member_id, session_ms)

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._terms(group_id).session_timeout_ms

    def _expire_due(self, draft: ShareDraft, due: Due, context: ShareContext) -> bool:
        is_removed = expire(draft, due.member_id, context)
        if is_removed:
            self._volatile_of(draft.group_id).expiring.add(due.member_id)
        return is_removed

    def _terms(self, group_id: str) -> GroupTerms:
        return self._cached_terms(group_id, self._image().group_configs.get(group_id, NO_CONFIGS))
