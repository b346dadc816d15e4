"""The Kafka APIs and versions this server speaks: the one table that everything else uses.

Ranges are Kafka 4.4's. `schema_min` … `schema_max` is what kio 0.6 has schemas for (Kafka 4.3), from which the modules in
messages/ are generated; tools/later_fields.py and later_messages.py have what 4.4 added. Source: message/*.json
`validVersions` of Apache Kafka.
"""

from enum import Enum, IntEnum

from bmq.dataclass import dataclass


class ApiKey(IntEnum):
    """Numbers of the Kafka protocol."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94
    # Our own, between nodes; see internal_messages.py.
    METADATA_FETCH = 20_001
    REPORT_PARTITIONS = 20_002
    RELEASE_PARTITIONS = 20_003
    TAIL_FETCH = 20_004
    LOCATE_OFFSET = 20_005
    PROVE_OWNERSHIP = 20_006
    FIND_TIMESTAMP = 20_007
    DELETE_BEFORE = 20_008
    FIND_ABORTED = 20_009
    LIST_DELAYED = 20_030
    # These work on the state of share partitions; see share_state_messages.py.
    SHARE_ACQUIRE = 20_010
    SHARE_ACKNOWLEDGE_STATE = 20_011
    SHARE_RELEASE = 20_012
    SHARE_WAIT = 20_013
    SHARE_INITIALIZE = 20_014
    SHARE_SUMMARY = 20_015
    SHARE_DELETE = 20_016
    SHARE_ACTIVATE = 20_020
    SHARE_EXPLAIN = 20_021
    # Of lanes; see lane_messages.py.
    LANE_DECIDE = 20_040
    LANE_GROUP = 20_041
    LANE_LIST = 20_042
    # See transaction_decisions.py.
    TRANSACTION_DECIDE = 20_050

    HEAR_CONTROLLER = 20_060


class Route(Enum):
    """The node that answers a client's request, whichever node it came to."""

    LOCAL = "local"
    """The node that received it."""
    CONTROLLER = "controller"
    """The active controller."""
    GROUP = "group"
    """The coordinators of the groups it names, each where the group's shard is."""
    TRANSACTION = "transaction"
    """The coordinators of the transactional ids it names, each where the id's shard is."""


@dataclass(frozen=True, slots=True)
class Api:
    """`version_min` … `version_max` is served; ApiVersions announces `advertised_min` (it differs for Produce)."""

    version_min: int
    version_max: int
    flexible_from: int | None
    schema_min: int
    schema_max: int
    advertised_min: int
    route: Route


def _api(
    low: int,
    high: int,
    flexible_from: int | None,
    schema_max: int | None = None,
    advertised_min: int | None = None,
    route: Route = Route.LOCAL,
) -> Api:
    return Api(
        low,
        high,
        flexible_from,
        schema_min=low,
        schema_max=high if schema_max is None else schema_max,
        advertised_min=low if advertised_min is None else advertised_min,
        route=route,
    )


APIS: dict[ApiKey, Api] = {
    # Advertised from 0 though 0-2 are refused: librdkafka before 2.11.1 turns compression off otherwise (KAFKA-18659).
    ApiKey.PRODUCE: _api(3, 13, 9, advertised_min=0),
    ApiKey.FETCH: _api(4, 18, 12),
    ApiKey.LIST_OFFSETS: _api(1, 11, 6),
    ApiKey.METADATA: _api(0, 13, 9),
    ApiKey.OFFSET_COMMIT: _api(2, 10, 8, route=Route.GROUP),
    ApiKey.OFFSET_FETCH: _api(1, 10, 6, route=Route.GROUP),
    ApiKey.FIND_COORDINATOR: _api(0, 6, 3),
    ApiKey.JOIN_GROUP: _api(0, 9, 6, route=Route.GROUP),
    ApiKey.HEARTBEAT: _api(0, 4, 4, route=Route.GROUP),
    ApiKey.LEAVE_GROUP: _api(0, 5, 4, route=Route.GROUP),
    ApiKey.SYNC_GROUP: _api(0, 5, 4, route=Route.GROUP),
    ApiKey.DESCRIBE_GROUPS: _api(0, 6, 5, route=Route.GROUP),
    ApiKey.LIST_GROUPS: _api(0, 5, 3, route=Route.GROUP),
    ApiKey.SASL_HANDSHAKE: _api(0, 1, None),
    ApiKey.API_VERSIONS: _api(0, 5, 3, schema_max=4),
    ApiKey.CREATE_TOPICS: _api(2, 7, 5, route=Route.CONTROLLER),
    ApiKey.DELETE_TOPICS: _api(1, 6, 4, route=Route.CONTROLLER),
    ApiKey.DELETE_RECORDS: _api(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: _api(0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _api(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: _api(0, 5, 3, route=Route.TRANSACTION),
    ApiKey.ADD_OFFSETS_TO_TXN: _api(0, 4, 3, route=Route.TRANSACTION),
    ApiKey.END_TXN: _api(0, 5, 3, route=Route.TRANSACTION),
    ApiKey.WRITE_TXN_MARKERS: _api(1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: _api(0, 6, 3, schema_max=5, route=Route.GROUP),
    ApiKey.DESCRIBE_ACLS: _api(1, 3, 2),
    ApiKey.CREATE_ACLS: _api(1, 3, 2, route=Route.CONTROLLER),
    ApiKey.DELETE_ACLS: _api(1, 3, 2, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_CONFIGS: _api(1, 4, 4, route=Route.CONTROLLER),
    ApiKey.ALTER_CONFIGS: _api(0, 2, 2, route=Route.CONTROLLER),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _api(1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: _api(1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: _api(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: _api(0, 3, 2, route=Route.CONTROLLER),
    ApiKey.CREATE_DELEGATION_TOKEN: _api(1, 3, 2, route=Route.CONTROLLER),
    ApiKey.RENEW_DELEGATION_TOKEN: _api(1, 2, 2, route=Route.CONTROLLER),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _api(1, 2, 2, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _api(1, 3, 2),
    ApiKey.DELETE_GROUPS: _api(0, 3, 2, schema_max=2, route=Route.GROUP),
    ApiKey.ELECT_LEADERS: _api(0, 2, 2, route=Route.CONTROLLER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _api(0, 1, 1, route=Route.CONTROLLER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _api(0, 1, 0, route=Route.CONTROLLER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _api(0, 0, 0, route=Route.CONTROLLER),
    ApiKey.OFFSET_DELETE: _api(0, 0, None, route=Route.GROUP),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _api(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: _api(0, 1, 1, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _api(0, 0, 0, route=Route.CONTROLLER),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _api(0, 0, 0, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_QUORUM: _api(0, 2, 0, route=Route.CONTROLLER),
    ApiKey.UPDATE_FEATURES: _api(0, 2, 0, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_CLUSTER: _api(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: _api(0, 0, 0),
    ApiKey.UNREGISTER_BROKER: _api(0, 0, 0, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_TRANSACTIONS: _api(0, 0, 0, route=Route.TRANSACTION),
    ApiKey.LIST_TRANSACTIONS: _api(0, 2, 0, route=Route.TRANSACTION),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _api(0, 1, 0, route=Route.GROUP),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _api(0, 1, 0, route=Route.GROUP),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _api(0, 0, 0),
    ApiKey.PUSH_TELEMETRY: _api(0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: _api(0, 1, 0, route=Route.CONTROLLER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _api(0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: _api(1, 1, 0, route=Route.GROUP),
    ApiKey.SHARE_GROUP_DESCRIBE: _api(1, 1, 0, route=Route.GROUP),
    ApiKey.SHARE_FETCH: _api(1, 2, 0),
    ApiKey.SHARE_ACKNOWLEDGE: _api(1, 2, 0),
    ApiKey.ADD_RAFT_VOTER: _api(0, 1, 0, route=Route.CONTROLLER),
    ApiKey.REMOVE_RAFT_VOTER: _api(0, 0, 0, route=Route.CONTROLLER),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _api(0, 1, 0, schema_max=0, route=Route.GROUP),
    ApiKey.STREAMS_GROUP_DESCRIBE: _api(0, 1, 0, schema_max=0, route=Route.GROUP),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _api(0, 0, 0, schema_max=-1, route=Route.GROUP),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _api(0, 1, 0, route=Route.GROUP),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _api(0, 0, 0, route=Route.GROUP),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _api(0, 0, 0, route=Route.GROUP),
    ApiKey.UNREGISTER_CONTROLLER: _api(0, 0, 0, schema_max=-1, route=Route.CONTROLLER),
}

_BETWEEN_NODES: dict[ApiKey, Api] = {
    ApiKey.ENVELOPE: _api(0, 0, 0),
    ApiKey.BROKER_REGISTRATION: _api(4, 4, 0),
    ApiKey.BROKER_HEARTBEAT: _api(0, 1, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: _api(0, 0, 0),
    ApiKey.METADATA_FETCH: _api(0, 0, 0),
    ApiKey.REPORT_PARTITIONS: _api(0, 0, 0),
    ApiKey.RELEASE_PARTITIONS: _api(0, 0, 0),
    ApiKey.TAIL_FETCH: _api(0, 0, 0),
    ApiKey.LOCATE_OFFSET: _api(0, 0, 0),
    ApiKey.PROVE_OWNERSHIP: _api(0, 0, 0),
    ApiKey.FIND_TIMESTAMP: _api(0, 0, 0),
    ApiKey.DELETE_BEFORE: _api(0, 0, 0),
    ApiKey.FIND_ABORTED: _api(0, 0, 0),
    ApiKey.LIST_DELAYED: _api(0, 0, 0),
    ApiKey.SHARE_ACQUIRE: _api(0, 0, 0),
    ApiKey.SHARE_ACKNOWLEDGE_STATE: _api(0, 0, 0),
    ApiKey.SHARE_RELEASE: _api(0, 0, 0),
    ApiKey.SHARE_WAIT: _api(0, 0, 0),
    ApiKey.SHARE_INITIALIZE: _api(0, 0, 0),
    ApiKey.SHARE_SUMMARY: _api(0, 0, 0),
    ApiKey.SHARE_DELETE: _api(0, 0, 0),
    ApiKey.SHARE_ACTIVATE: _api(0, 0, 0),
    ApiKey.SHARE_EXPLAIN: _api(0, 0, 0),
    ApiKey.LANE_DECIDE: _api(0, 0, 0),
    ApiKey.LANE_GROUP: _api(0, 0, 0),
    ApiKey.LANE_LIST: _api(0, 0, 0),
    ApiKey.TRANSACTION_DECIDE: _api(0, 0, 0),
    ApiKey.HEAR_CONTROLLER: _api(0, 0, 0),
}
INTERNAL_APIS: dict[ApiKey, Api] = {
    **_BETWEEN_NODES,
    ApiKey.PRODUCE: APIS[ApiKey.PRODUCE],
    ApiKey.DESCRIBE_PRODUCERS: APIS[ApiKey.DESCRIBE_PRODUCERS],
    ApiKey.API_VERSIONS: APIS[ApiKey.API_VERSIONS],
    ApiKey.WRITE_TXN_MARKERS: APIS[ApiKey.WRITE_TXN_MARKERS],
}
"""The APIs of the internal listener; clients' requests come in an Envelope (KIP-590)."""
ALL_APIS: dict[ApiKey, Api] = {**APIS, **_BETWEEN_NODES}
OWN_API_KEYS_FROM = 20_000
