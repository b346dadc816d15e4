"""Makes the records of a shard of share partitions."""

from __future__ import annotations

from collections.abc import Iterator

from bmq.coordinator.share_state.decisions import Given, Span
from bmq.coordinator.share_state.holder import Holder
from bmq.coordinator.share_state.partition import PartitionKey
from bmq.coordinator.share_state.window import AVAILABLE, Window
from bmq.protocol.share_state_records import LockedRecords, SnapshotKey, StateBatch, UpdateKey


def update_key(key: PartitionKey) -> UpdateKey:
    return UpdateKey(group=key.group_id, topic_id=key.topic_id, partition=key.partition)


def snapshot_key(key: PartitionKey) -> SnapshotKey:
    return SnapshotKey(group=key.group_id, topic_id=key.topic_id, partition=key.partition)


def counted(given: Given) -> StateBatch:
    return StateBatch(
        first_offset=given.first, last_offset=given.last, delivery_state=AVAILABLE, delivery_count=given.delivery_count
    )


def locked(given: Given, holder: Holder, deadline_ms: int) -> LockedRecords:
    return LockedRecords(
        first_offset=given.first,
        last_offset=given.last,
        deadline_ms=deadline_ms,
        member_id=holder.member_id,
        node_id=holder.node_id,
        node_epoch=holder.node_epoch,
        session=holder.session,
    )


def renewed(window: Window, span: Span, deadline_ms: int) -> Iterator[LockedRecords]:
    """The same records, with a later deadline; each part stays with the session that acquired it."""
    for first, last, holder in window.locked_by(span.first, span.last):
        yield LockedRecords(
            first_offset=first,
            last_offset=last,
            deadline_ms=deadline_ms,
            member_id=holder.member_id,
            node_id=holder.node_id,
            node_epoch=holder.node_epoch,
            session=holder.session,
        )
