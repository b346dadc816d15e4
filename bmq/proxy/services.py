"""The services that handlers use: the roles behind the proxy, as small protocols. bmq/server passes real ones, tests fakes."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from typing import Any, Final, Protocol

from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import ProducedBatch, TopicPartition
from bmq.log.refused_sequences import RefusedSequences
from bmq.log.store import Buffer, SegmentStore
from bmq.log.transactions import TransactionMarker
from bmq.metadata.connection_limits import ConnectionLimits
from bmq.metadata.image import MetadataImage, Node, PartitionImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_commit import PlainCommit, PlainCommits
from bmq.protocol.lane_messages import LaneDecideRequest, LaneDecideResponse, LaneListRequest, LaneListResponse
from bmq.protocol.request_context import Peer, RequestContext
from bmq.protocol.topic_names import NAME_LENGTH_MAX
from bmq.proxy.access import OPEN, Access
from bmq.proxy.appender import Appender
from bmq.proxy.client_telemetry import ClientTelemetry
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.log_levels import LogLevels
from bmq.proxy.partitions import Partitions
from bmq.proxy.produce_deadlines import ProduceDeadlines
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.reply import Reply
from bmq.proxy.sasl_logins import SaslLogins
from bmq.proxy.stats import ProxyStats
from bmq.proxy.throttles import Throttles
from bmq.security.delegation_tokens import TokenMacs
from bmq.security.listener_security import ListenerSecurity

DESCRIBED_PARTITIONS_MAX: Final = 2_000
"""Most partitions of one DescribeTopicPartitions response: the default of max.request.partition.size.limit."""


_NO_LIMIT: Final = 2**63 - 1


class RequestHandler(Protocol):
    """Answers the requests of one route (apis.Route)."""

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Answer a request, a message of bmq.protocol.messages, with the API's response. `context`: its sender and version."""


class Controller(RequestHandler, Protocol):
    """The active controller, on this node or another."""

    @property
    def image(self) -> MetadataImage: ...

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic with the defaults, as Metadata with allow_auto_topic_creation does. Raises KafkaError."""

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that were never given out before, which is durable. Raises KafkaError."""


class Groups(RequestHandler, Protocol):
    """The group coordinators: the one of this process, or all of the cluster."""

    async def prepare(self, group_id: str) -> Node | None:
        """Make the group's coordinator ready. Returns the node for clients, None for this node. Raises KafkaError."""

    def commit_at_once(
        self,
        asked: PlainCommit,
        context: RequestContext,
        received_s: float,
        done: Callable[[ErrorCode, bytes], None],
        /,
    ) -> bool:
        """Carry out an OffsetCommit if this process has the group's coordinator and need not wait. Returns False if not.

        `done` is called when the offsets are durable or the write has failed, perhaps before this returns: with NONE or the error
        of the partitions, and the answer's body.
        """

    def repeated_heartbeat(
        self, frame: Buffer, header: RequestHeader, context: RequestContext, received_s: float
    ) -> bytes | None:
        """The answer's body for a heartbeat of a consumer or share group that repeats an earlier one; None if it is not one.

        A heartbeat without an answer here has to go to `handle`.
        """


class Transactions(RequestHandler, Protocol):
    """The transaction coordinators: the one of this process, or all of the cluster."""

    async def prepare(self, transactional_id: str, /) -> Node | None:
        """Make the id's coordinator ready. Returns the node for clients, None for this node. Raises KafkaError."""


class ShareCoordinators(Protocol):
    """The shards with share partitions' state: those of this process, or all of the cluster."""

    async def prepare(self, key: str, /) -> Node | None:
        """Make the key's shard ready. Returns the node for clients, None for this node. Raises KafkaError."""


class Markers(Protocol):
    """Writes the markers that end transactions, at the partitions' owners."""

    async def write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> None:
        """Write the marker durably. Raises KafkaError."""


class OwnLog(Protocol):
    """This node's part of the shared store, for requests about log directories."""

    @property
    def directory(self) -> str:
        """The root of the store, as configured on this node. It is the same on all nodes."""

    def sizes(self) -> Iterable[tuple[TopicPartition, int]]:
        """(partition, bytes of its records) for each partition owned here, without those that were not started yet."""


@dataclass(frozen=True, slots=True)
class NoLog:
    """The OwnLog of a node that owns no partitions."""

    directory: str = ""

    def sizes(self) -> Iterable[tuple[TopicPartition, int]]:
        return ()


class FetchHandler(Protocol):
    """The read path; one for all listeners of a process."""

    def fetch(
        self, frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        """Answer a Fetch (4-18), at once if it need not wait. Raises MalformedMessage."""

    async def fetch_in_turns(
        self, frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        """Answer a Fetch with a large frame, decoded in turns; returns once it is decoded.

        INVALID_REQUEST for too many partitions. Raises MalformedMessage.
        """


class ClientLeaders(Protocol):
    """The leaders that clients with share sessions are sent (bmq.proxy.share.former_leaders.FormerLeaders)."""

    def leader(self, image: MetadataImage, key: TopicPartition, partition: PartitionImage) -> tuple[int, int]:
        """(leader, leader epoch) for the client. `image`: has the nodes as the client's listener shows them."""


class ShareHandler(Protocol):
    """Answers share groups' fetches and acknowledgements; one for all listeners of a process."""

    def leaders(self, connection: Peer | None) -> ClientLeaders | None:
        """The leaders to send on this connection; None for the present ones, if it has no share session."""

    async def fetch(self, request: Any, context: RequestContext, services: Services) -> Any:
        """The encoded answer to a ShareFetch (1-2). Raises KafkaError if the whole request is refused."""

    async def acknowledge(self, request: Any, context: RequestContext, services: Services) -> Any:
        """The answer to a ShareAcknowledge (1-2). Raises KafkaError if the whole request is refused."""


class LaneDecisions(Protocol):
    """The shards that decide which lanes are taken: those of this process, or all of the cluster. Errors are in the answers."""

    async def decide(self, request: LaneDecideRequest) -> LaneDecideResponse: ...

    async def list(self, request: LaneListRequest) -> LaneListResponse: ...


class AnswerTaker(Protocol):
    """bmq.proxy.transaction_answers.TransactionAnswers implements this."""

    def take(self, batch: ProducedBatch, context: RequestContext, access: Access) -> None:
        """Complete a batch of answers to checks of open transactions."""


def _has_valid_name(partition: Hashable) -> bool:
    """Whether the name in (topic name or id, partition) is a possible topic's: others are not to be kept in memory."""
    named = partition[0] if isinstance(partition, tuple) else partition
    return not isinstance(named, str) or len(named) <= NAME_LENGTH_MAX


@dataclass(slots=True)
class Services:
    """The services that are passed to every handler. `loop`: gives the time. `node`: this server as clients see it.

    `departed`: nodes that were in the image until a moment ago; the same object while they are the same. `refused_unknown`:
    refused batches for partitions that this process does not know yet, by (topic name or id, partition) as the client names them.
    `connection_limits`: returns the limits in force; None for the listener's own. `access`: clients' rights.
    """

    node: Node
    store: SegmentStore
    partitions: Partitions
    controller: Controller
    groups: Groups
    transactions: Transactions
    markers: Markers
    clock: Clock
    appender: Appender
    fetcher: FetchHandler
    producer_ids: ProducerIds
    stats: ProxyStats
    loop: AbstractEventLoop
    is_auto_create_enabled: bool = True
    departed: Callable[[], tuple[Node, ...]] = tuple
    produce_deadlines: ProduceDeadlines = field(default_factory=ProduceDeadlines)
    refused_unknown: RefusedSequences = field(default_factory=lambda: RefusedSequences(_has_valid_name))
    own_log: OwnLog = field(default_factory=NoLog)
    telemetry: ClientTelemetry = field(default_factory=ClientTelemetry)
    connection_limits: Callable[[], ConnectionLimits] | None = None
    log_levels: LogLevels = field(default_factory=LogLevels)
    described_partitions_max: int = DESCRIBED_PARTITIONS_MAX
    access: Access = OPEN
    plain_commits: PlainCommits = field(default_factory=PlainCommits)
    logins: SaslLogins | None = None  # set if a listener demands a login
    security: ListenerSecurity = field(default_factory=ListenerSecurity)  # what the listener demands
    token_macs: TokenMacs | None = None  # set if delegation tokens are possible
    throttles: Throttles = field(default_factory=Throttles)
    response_budget: ResponseBudget = field(default_factory=lambda: ResponseBudget(_NO_LIMIT))  # that of the fetches
    share: ShareHandler | None = None  # None: share groups are not served
    share_states: ShareCoordinators | None = None  # None: share groups are not served
    lanes: LaneDecisions | None = None  # None: fetches with a mark of lanes are refused
    answers: AnswerTaker | None = None  # None: answers to checks of transactions are refused
    is_between_nodes: bool = False  # on the listener for other nodes: a client's own node has checked its rights
