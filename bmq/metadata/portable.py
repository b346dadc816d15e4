"""The part of a cluster's metadata that another cluster can take over. Pure.

Left out is what concerns this cluster's nodes and files: registrations, configs of single nodes, owners of partitions and their
history, topics whose files are being deleted, tasks. Also left out are internal topics, whose content is in their logs (groups'
offsets, transactions), and delegation tokens, which are signed by a secret of the nodes' settings. Topics keep their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from bmq.metadata.image import INTERNAL_TOPICS, NO_LEADER
from bmq.metadata.state import CLUSTER_WIDE, MetadataState
from bmq.protocol.metadata_records import (
    RESOURCE_TYPE_BROKER,
    RESOURCE_TYPE_TASK,
    RESOURCE_TYPE_TOPIC,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    StateChangesRecord,
    TopicRecord,
)


def portable_records(state: MetadataState) -> Iterator[MetadataRecord]:
    """Records that lead from nothing to the part of the state that another cluster can take over."""
    internal: set[UUID] = set()
    for record in state.snapshot_records():
        match record:
            case RegisterBrokerRecord() | StateChangesRecord() | RemoveTopicRecord() | DelegationTokenRecord():
                continue
            case TopicRecord() if record.name in INTERNAL_TOPICS:
                internal.add(record.topic_id)
            case PartitionRecord():
                if record.topic_id not in internal:
                    yield _without_owner(record)
            case ConfigRecord():
                if not _is_of_this_cluster(record):
                    yield record
            case _:
                yield record


def _without_owner(record: PartitionRecord) -> PartitionRecord:
    """The partition as the controller keeps one that no node can own: it is placed anew, and its log is empty."""
    return replace(record, leader=NO_LEADER, replicas=(), isr=(), high_watermark_floor=0)


def _is_of_this_cluster(record: ConfigRecord) -> bool:
    if record.resource_type == RESOURCE_TYPE_BROKER:
        return record.resource_name != CLUSTER_WIDE
    if record.resource_type == RESOURCE_TYPE_TOPIC:
        return record.resource_name in INTERNAL_TOPICS
    return record.resource_type == RESOURCE_TYPE_TASK
