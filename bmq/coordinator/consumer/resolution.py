"""Resolving the regular expressions of a group's members: when it is due, and its result. Decisions only.

All of a group's expressions are resolved together, in the background: the heartbeat that triggers it is answered
without the result, the next one sees it. Source: KIP-848; GroupMetadataManager of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from bmq.coordinator.consumer.draft import Draft
from bmq.coordinator.consumer.epochs import GroupContext, bump_if_needed
from bmq.protocol import consumer_group_records as records

NEVER_RESOLVED_MS: Final = -(2**62)


class ResolutionTimes(NamedTuple):
    """`last_ms`: wall clock time when the last resolution began; `has_new_topics`: topics were created since."""

    last_ms: int = NEVER_RESOLVED_MS
    has_new_topics: bool = True


def is_due(group: ConsumerGroup, times: ResolutionTimes, config: ConsumerConfig, now_ms: int) -> bool:
    """Whether to resolve now, `now_ms` by the wall clock; not called while a resolution is under way."""
    regexes = group.subscribed_regexes
    if not regexes:
        return False
    found = [group.regexes[regex].timestamp_ms for regex in regexes if regex in group.regexes]
    last_ms = max((times.last_ms, *found))
    if 0 <= now_ms - last_ms < config.regex_pause_ms:
        return False
    if len(found) < len(regexes) or times.has_new_topics:
        return True
    return not 0 <= now_ms - min(found) < config.regex_refresh_interval_ms


def resolve(draft: Draft, matches: Mapping[str, frozenset[str]], version: int, context: GroupContext) -> None:
    """Write `matches`, found in the metadata of `version`; raise the group's epoch if any of them changed."""
    group = draft.group
    if group is None:
        return
    is_news = False
    for regex in sorted(matches.keys() & group.subscribed_regexes):
        is_news |= group.matches(regex) != matches[regex]
        found = ResolvedRegex(matches[regex], version, context.now.wall_ms)
        draft.write(records.RegexKey(group=group.group_id, regex=regex), found.record())
    if is_news:
        bump_if_needed(draft, context, must=True)
