"""How the consumer groups that a topic names hold its retention back, and the size of their backlogs. Pure.

Committed offsets come by group id. -1 means that the group has committed none; a missing group's coordinator did not answer.
Because of an unknown offset more records are kept, but no produce is refused.

Source: Pulsar's durable subscriptions, which keep what is not acknowledged, and its backlog quotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent


class SlowestGroup(NamedTuple):
    """The group with the lowest committed offset. `consumed_offset`: that offset; 0 if the group has committed none."""

    group_id: str
    consumed_offset: int


class BacklogSize(NamedTuple):
    """A group's backlog. `oldest_ms`: timestamp of its oldest record, or a later one; -1 if not known."""

    size_bytes: int
    oldest_ms: int


def excess_of(backlog: BacklogSize, config: LogConfig, now_ms: int) -> str | None:
    """A clause for a message that says which quota the backlog exceeds, and by how much; None if it exceeds none."""
    if 0 <= config.backlog_quota_bytes < backlog.size_bytes:
        return (
            f"{backlog.size_bytes} bytes left to consume, bmq.backlog.quota.bytes allows {config.backlog_quota_bytes}"
        )
    age_ms = now_ms - backlog.oldest_ms
    if backlog.oldest_ms >= 0 and 0 <= config.backlog_quota_ms < age_ms:
        return f"records of {age_ms} ms ago left to consume, bmq.backlog.quota.ms allows {config.backlog_quota_ms}"
    return None


def slowest_group(committed: Mapping[str, int], group_ids: Sequence[str]) -> SlowestGroup | None:
    """The group that has consumed least; None without groups, and while the offset of one of them is not known."""
    if not group_ids or any(group_id not in committed for group_id in group_ids):
        return None
    group_id = min(group_ids, key=committed.__getitem__)
    return SlowestGroup(group_id, max(0, committed[group_id]))


def consumed_by_all(committed: Mapping[str, int], group_ids: Sequence[str]) -> int:
    """The offset up to which all groups have certainly consumed. A group without a committed or known offset counts as 0."""
    return min((max(0, committed.get(group_id, 0)) for group_id in group_ids), default=0)


def held_back(
    extents: Sequence[Extent],
    wanted_offset: int,
    config: LogConfig,
    *,
    consumed_offset: int,
    now_ms: int,
    log_start_offset: int,
) -> int:
    """The log start offset that the groups allow if retention asks for `wanted_offset`; never below the present one.

    An extent may be dropped if the groups have consumed all of it, or if its newest record is older than
    bmq.retention.groups.max.ms. The first one that has to stay keeps all behind it. An extent without a timestamp has no age.
    """
    allowed_offset = log_start_offset
    for extent in extents:
        if extent.end_offset > wanted_offset:
            break
        if extent.end_offset > consumed_offset and not _is_past_limit(extent, config, now_ms):
            break
        allowed_offset = extent.end_offset
    return max(log_start_offset, allowed_offset)


def bytes_of_extent_from(extent: Extent, offset: int) -> int:
    """The extent's bytes at or past this offset, estimated from the offset's share of the extent's offsets."""
    if offset <= extent.base_offset:
        return extent.length
    if offset >= extent.end_offset:
        return 0
    return extent.length * (extent.end_offset - offset) // (extent.end_offset - extent.base_offset)


def evicted_to(
    extents: Sequence[Extent],
    config: LogConfig,
    *,
    backlog_bytes: int,
    consumed_offset: int,
    log_start_offset: int,
    now_ms: int,
) -> int:
    """The log start offset that brings a backlog down to its quotas; never below the present one. Drops whole extents only.

    `backlog_bytes`: bytes of all segments at or past `consumed_offset`. An open segment is never dropped.
    """
    evicted_offset = log_start_offset
    from_offset = max(consumed_offset, log_start_offset)
    for extent in extents:
        if extent.end_offset > from_offset:
            if excess_of(BacklogSize(backlog_bytes, extent.max_timestamp_ms), config, now_ms) is None:
                break
            backlog_bytes -= bytes_of_extent_from(extent, from_offset)
            evicted_offset = extent.end_offset
    return evicted_offset


def _is_past_limit(extent: Extent, config: LogConfig, now_ms: int) -> bool:
    limit_ms = config.retention_groups_max_ms
    return 0 <= limit_ms < now_ms - extent.max_timestamp_ms and extent.max_timestamp_ms >= 0
