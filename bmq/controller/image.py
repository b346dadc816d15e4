"""What the cluster looks like at one offset of the metadata log: an immutable picture everybody reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from bmq.log.config import LogConfig

NO_LEADER = -1
METADATA_TOPIC_NAME = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
OFFSETS_TOPIC_NAME = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC_NAME, "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class Node:
    """A node that clients may connect to. The id is stable for its address (KIP-1242)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """`replicas`: the nodes that may own it, preferred first; none holds data. `isr`: the live ones."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """`configs` holds only what was set for the topic; `log_config` is the outcome with all defaults."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]
    log_config: LogConfig
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Topics by name and by id, live nodes by id, at metadata-log offset `offset` (exclusive).

    `broker_configs`: what was set dynamically, by node id as text; "" holds for all nodes. `deleted_topics`: ids of
    topics that are gone and whose files are still being removed. `features`: finalized levels.
    """

    offset: int = 0
    cluster_id: str = ""
    controller_id: int = NO_LEADER
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    deleted_topics: frozenset[UUID] = frozenset()
    next_producer_id: int = 0
    partition_count: int = 0
