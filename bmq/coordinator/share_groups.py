"""The share groups of one shard (see bmq/coordinator/modern/group_runtime.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import GroupTerms
from bmq.coordinator.modern.group_runtime import GroupRuntime, Volatile
from bmq.coordinator.modern.member_timers import Due, TimerKind, TimerOrder
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share.draft import ShareDraft
from bmq.coordinator.share.heartbeat import ShareContext, expire
from bmq.coordinator.share.share_group import SHARE, ShareGroup
from bmq.protocol.share_group_records import RECORD_TYPES


class ShareGroups(GroupRuntime[ShareGroup, ShareDraft, ShareContext, Volatile]):
    """See the module."""

    kind: ClassVar = SHARE
    record_types: ClassVar = RECORD_TYPES

    def _new_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id)

    def _draft(
        self, group_id: str, group: ShareGroup | None, classic: Group | None, *, is_taken: bool, may_write: bool
    ) -> ShareDraft:
        limit = self._config.message_max_bytes
        return ShareDraft(group_id, group, classic, limit, is_taken=is_taken, may_write=may_write)

    def _group_context(self, group_id: str, volatile: Volatile, now: Moment) -> ShareContext:
        return ShareContext(
            self._image(),
            self._config.share,
            self._terms(group_id),
            now,
            is_stale=volatile.changes != volatile.looked,
        )

    def _new_volatile(self) -> Volatile:
        return Volatile()

    def _first_timers(self, group: ShareGroup) -> Iterable[TimerOrder]:
        session_ms = self._session_timeout_ms(group.group_id)
        for member_id in group.members:
            yield TimerOrder(TimerKind.SESSION, member_id, session_ms)

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._terms(group_id).session_timeout_ms

    def _expire_due(self, draft: ShareDraft, due: Due, context: ShareContext) -> bool:
        return expire(draft, due.member_id, context)

    def _terms(self, group_id: str) -> GroupTerms:
        return self._config.share.terms(self._image().group_configs.get(group_id, {}))
