"""The cluster's metadata at one offset of the metadata log: an immutable image that everybody reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.log.config import LogConfig
from bmq.metadata.credentials import Tokens, Users
from bmq.security.acls import Acl
from bmq.security.quotas.entities import Quotas

NO_LEADER = -1
METADATA_TOPIC_NAME = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
OFFSETS_TOPIC_NAME = "__consumer_offsets"
TRANSACTIONS_TOPIC_NAME = "__transaction_state"
SHARE_STATE_TOPIC_NAME = "__share_group_state"
INTERNAL_TOPIC_CONFIGS = {
    OFFSETS_TOPIC_NAME: "offsets.topic",
    TRANSACTIONS_TOPIC_NAME: "transaction.state.log",
    SHARE_STATE_TOPIC_NAME: "share.coordinator.state.topic",
}
"""Prefixes of the broker configs that define how each internal topic is created."""
INTERNAL_TOPICS = frozenset(INTERNAL_TOPIC_CONFIGS)


ROLE_PROXY = "proxy"
ROLE_BROKER = "broker"
ROLE_COORDINATOR = "coordinator"
ROLE_CONTROLLER = "controller"
ALL_ROLES = frozenset({ROLE_PROXY, ROLE_BROKER, ROLE_COORDINATOR, ROLE_CONTROLLER})


@dataclass(frozen=True, slots=True)
class Node:
    """A live node. The id is stable for its address (KIP-1242). `host`, `port`: where clients reach its proxy.

    `internal` is where other nodes reach it, `rest` where operators do; None in a process that is the whole cluster.
    `epoch` goes up with each incarnation (the broker epoch of KRaft). `is_draining`: it accepts no partitions and gives
    its own away. `is_returning`: it was restarted a moment ago; set only in a proxy's own view, not in the log.
    `listeners`: name, host and port of further ones for clients.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None
    internal: tuple[str, int] | None = None
    rest: tuple[str, int] | None = None
    roles: frozenset[str] = ALL_ROLES
    epoch: int = -1
    is_draining: bool = False
    is_returning: bool = False
    listeners: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """`replicas`: the nodes that may own it, preferred first; none holds data. `isr`: the live ones.

    `high_watermark_floor`: acknowledged up to here, as far as known when the leader was named (rule 5).
    `was_in_use`: clients used it then. A hint for the moment of the change: snapshots do not have it.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    high_watermark_floor: int = 0
    was_in_use: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ViewImage:
    """What makes a topic a view: the topic whose records it shows, None if there is none, and which of them."""

    base_name: str
    base_id: UUID | None
    filter: str


@dataclass(frozen=True, slots=True)
class TopicImage:
    """`configs` has only the configs set for the topic; `log_config` includes all defaults.

    `view`: the topic has no log of its own; its partitions are those of another topic, with that one's owners.
    """

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]
    log_config: LogConfig
    is_internal: bool = False
    view: ViewImage | None = None

    @property
    def log_id(self) -> UUID:
        """The id of the topic whose log has the records."""
        view = self.view
        return self.topic_id if view is None or view.base_id is None else view.base_id

    def partition(self, number: int) -> PartitionImage | None:
        """The partition with this number, or None."""
        return self.partitions[number] if 0 <= number < len(self.partitions) else None


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Topics by name and by id, live nodes by id, at metadata-log offset `offset` (exclusive).

    `views`: those of the topics that are views, by id. `partition_count`: of the topics that have a log.
    `fenced_nodes`: registered ones that do not take part, by id: they died, are being started, or are gone for good.
    `broker_configs`: dynamic configs, by node id as text; "" is for all nodes. `group_configs`: configs set for groups,
    by group id. `client_metrics`: configs of subscriptions to clients' metrics, by name. `tables`: made of topics, by
    name, as bmq.table_definitions.stored writes them. `channels`: of Databus, by name, as bmq.channels.stored writes
    them; `channels_version` grows with each change of any. `tasks`: of operators, by id, as bmq.admin.stored_tasks writes
    them. `deleted_topics`: ids of deleted topics whose files are still
    being removed.
    `features`: finalized levels. `acls`: by their ids; the same object while none changes.
    `users`, `delegation_tokens`: what clients log in with; secrets. `client_quotas`: limits of users, client ids
    and addresses; the same object until one changes.
    """

    offset: int = 0
    cluster_id: str = ""
    controller_id: int = NO_LEADER
    nodes: Mapping[int, Node] = field(default_factory=dict)
    fenced_nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    views: Mapping[UUID, TopicImage] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    channels_version: int = 0
    tasks: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    acls: Mapping[UUID, Acl] = field(default_factory=dict)
    deleted_topics: frozenset[UUID] = frozenset()
    next_producer_id: int = 0
    partition_count: int = 0
    users: Users = field(default_factory=dict, repr=False)
    delegation_tokens: Tokens = field(default_factory=dict, repr=False)
    client_quotas: Quotas = field(default_factory=dict)

    def logs(self) -> Iterable[TopicImage]:
        """Topics that have a log of their own: those whose partitions have owners, are moved and counted."""
        topics = self.topics_by_id.values()
        return (topic for topic in topics if topic.view is None) if self.views else topics

    def views_of(self, base_name: str) -> list[TopicImage]:
        """The views that show a topic's records."""
        return [topic for topic in self.views.values() if topic.view and topic.view.base_name == base_name]

    def view_ids(self, base_id: UUID) -> list[UUID]:
        """The ids of the views that show this topic's records."""
        return [one for one, topic in self.views.items() if topic.view and topic.view.base_id == base_id]

    def partition(self, topic_id: UUID, number: int) -> PartitionImage | None:
        """The partition of a log, or None if it does not exist or the topic has another incarnation."""
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None or topic.view is not None else topic.partition(number)
