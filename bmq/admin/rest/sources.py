"""The sources of the REST API, and the objects it controls; functions, so that each request sees the present."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from bmq.admin.channel_watch import ChannelWatch
from bmq.admin.delayed_records import DelayedRecords
from bmq.admin.group_explainer import GroupExplainer
from bmq.admin.health import HealthFacts
from bmq.admin.index_queries import IndexQueries
from bmq.admin.operations import Operations
from bmq.admin.ports import KafkaRequests, NodeLoad, StateChanges, TableController
from bmq.admin.recent_logs import RecentLogs
from bmq.admin.redrives import Redrives
from bmq.admin.rest.principals import PrincipalOf, authenticated
from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.log.store import SegmentStore
from bmq.metadata.image import MetadataImage
from bmq.protocol.request_context import RequestMethod
from bmq.proxy.access import OPEN, Access
from bmq.proxy.services import LaneDecisions

if TYPE_CHECKING:
    from bmq.broker.manager import PartitionManager
    from bmq.coordinator.transactions.coordinator import TransactionCoordinator


async def nothing_to_refresh() -> None:
    """All metrics are computed when they are collected."""


@dataclass(frozen=True, slots=True)
class RestSources:
    """A source left out is unknown: its values are shown as null or left out, or the request is refused with a
    sentence.

    `store`: None while it is not open. `history`: past leaders of partitions; None while there is none yet. `loads`: by
    node id, on the active controller, where they are measured; None elsewhere. `high_watermark`: of a partition this
    process owns or follows, else None. `now_ms`: the wall clock. `operations`: None in a process that is the whole cluster. `node_id`: of the
    node that answers. `table_controller`: the active controller if it is in this process. `redrives`: of this
    process; None until it serves. `partitions`: those of this process; None until they can be asked. `groups`:
    explains groups; None until this node serves, as `delayed`, which asks about delayed records,
    `lanes`, which asks the shards of groups, `transactions`, the coordinator of this process, `create_topics`, which sends
    CreateTopics to the active controller, and `kafka`, which answers Kafka requests for a client of REST. `health`: what
    this process knows of itself. `refresh_metrics`: what has to be asked before a scrape. `access`: what clients may do;
    `principal_of`: who sent a request. `channel_watch` is told each new image of this process.
    `scheme`: of this process's REST address, and of all others of the cluster. `index_queries`: forwards queries on indexes. `logs`: the last lines of this process.
    `why_no_requests`: why Kafka requests of REST's clients are refused; empty: they are not.
    """

    is_ready: Callable[[], bool]
    image: Callable[[], MetadataImage]
    partition_states: Callable[[], Mapping[str, int]]
    registry: CollectorRegistry
    node_id: int = -1
    store: Callable[[], SegmentStore | None] = lambda: None
    history: Callable[[], StateChanges | None] = lambda: None
    loads: Callable[[], Mapping[int, NodeLoad] | None] = lambda: None
    high_watermark: Callable[[TopicPartition], int | None] = lambda _: None
    now_ms: Callable[[], int | None] = lambda: None
    operations: Callable[[], Operations | None] = lambda: None
    table_controller: Callable[[], TableController | None] = lambda: None
    redrives: Callable[[], Redrives | None] = lambda: None
    partitions: Callable[[], PartitionManager | None] = lambda: None
    groups: Callable[[], GroupExplainer | None] = lambda: None
    delayed: Callable[[], DelayedRecords | None] = lambda: None
    lanes: Callable[[], LaneDecisions | None] = lambda: None
    transactions: Callable[[], TransactionCoordinator | None] = lambda: None
    create_topics: Callable[[], RequestMethod | None] = lambda: None
    kafka: Callable[[], KafkaRequests | None] = lambda: None
    health: Callable[[], HealthFacts] = HealthFacts
    refresh_metrics: Callable[[], Awaitable[None]] = nothing_to_refresh
    access: Access = OPEN
    principal_of: PrincipalOf = authenticated
    scheme: str = "http"
    channel_watch: Callable[[], ChannelWatch] = ChannelWatch
    index_queries: Callable[[], IndexQueries | None] = lambda: None
    logs: Callable[[], RecentLogs | None] = lambda: None
    why_no_requests: str = ""
