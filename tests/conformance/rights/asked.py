"""What is asked of each API: the requests, and the rights that Kafka's answer to them may depend on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bmq.protocol.apis import ApiKey
from bmq.security.acls import Operation, ResourceType
from tests.conformance.case import Case
from tests.conformance.cases import DECLARED
from tests.conformance.rights.personas import ALL_BUT, EVERYTHING, NOBODY, ONLY, Persona, Right

_CASES: Final = {
    ApiKey.PRODUCE: "an unknown topic|good and bad partitions|acks=0|a transactional batch in its transaction",
    ApiKey.FETCH: "an unknown topic|unknown topics beside known ones|a new session with an unknown topic|of a follower that does not exist",
    ApiKey.LIST_OFFSETS: "an unknown topic|an unknown partition beside a known one",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "an unknown topic",
    ApiKey.DELETE_RECORDS: "an unknown topic",
    ApiKey.DESCRIBE_PRODUCERS: "an unknown topic and an unknown partition",
    ApiKey.METADATA: "an unknown topic|all topics|no topics|authorized operations|a topic by its id|an unknown id|a topic twice",
    ApiKey.DESCRIBE_CLUSTER: "with authorized operations|of the controllers",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "an unknown topic|all topics",
    ApiKey.CREATE_TOPICS: "a topic that exists|only looked at|the settings that come back|a topic twice",
    ApiKey.DELETE_TOPICS: "an unknown topic beside a known one|a topic twice|by id|an unknown id|one topic by name and by id",
    ApiKey.CREATE_PARTITIONS: "an unknown topic|only looked at",
    ApiKey.DESCRIBE_CONFIGS: "an unknown topic|a broker's settings|the cluster's default|a group's settings|client metrics",
    ApiKey.ALTER_CONFIGS: "an unknown topic|a group's setting|only looked at",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "an unknown topic|a group's setting|only looked at",
    ApiKey.LIST_CONFIG_RESOURCES: "of topics|of all types",
    ApiKey.FIND_COORDINATOR: "of a transactional id|of a share partition|several keys",
    ApiKey.JOIN_GROUP: "an empty group id",
    ApiKey.HEARTBEAT: "an unknown group",
    ApiKey.DESCRIBE_GROUPS: "an unknown group and an empty name|authorized operations|a group of the newer protocol",
    ApiKey.LIST_GROUPS: "by state|by type",
    ApiKey.DELETE_GROUPS: "an unknown group",
    ApiKey.OFFSET_COMMIT: "an unknown topic|a known topic beside an unknown one",
    ApiKey.OFFSET_FETCH: "an unknown group|all of a group|several groups",
    ApiKey.OFFSET_DELETE: "an unknown group|good and bad partitions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "a topic that does not exist|a regular expression|an unknown member of an unknown group",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "an unknown group and an empty name|a group twice, with authorized operations",
    ApiKey.INIT_PRODUCER_ID: "a transactional id|an empty transactional id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "an unknown topic|good and bad partitions|several transactions",
    ApiKey.TXN_OFFSET_COMMIT: "an unknown topic|good and bad partitions",
    ApiKey.WRITE_TXN_MARKERS: "unknown topics and partitions",
    ApiKey.DESCRIBE_TRANSACTIONS: "unknown ids and one that is empty",
    ApiKey.LIST_TRANSACTIONS: "by state",
    ApiKey.DESCRIBE_LOG_DIRS: "an unknown topic and an unknown partition",
    ApiKey.ELECT_LEADERS: "all partitions",
    ApiKey.ALTER_CLIENT_QUOTAS: "only looked at",
    ApiKey.DESCRIBE_ACLS: "of a principal that has none",
    ApiKey.DELETE_ACLS: "of a principal that has none",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "a classic group|all topics of a classic group",
    ApiKey.SHARE_GROUP_DESCRIBE: "a classic group",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "a source topic that does not exist",
    ApiKey.STREAMS_GROUP_DESCRIBE: "an unknown group and an empty name",
}
"""Beside the request of a well-behaved client: shapes that Kafka asks other rights for, and names that do not exist."""

_WANTED: Final = {
    ApiKey.PRODUCE: "WRITE TOPIC, DESCRIBE TOPIC, WRITE TRANSACTIONAL_ID",
    ApiKey.FETCH: "READ TOPIC, DESCRIBE TOPIC, CLUSTER_ACTION CLUSTER",
    ApiKey.LIST_OFFSETS: "DESCRIBE TOPIC, READ TOPIC",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "DESCRIBE TOPIC, CLUSTER_ACTION CLUSTER",
    ApiKey.DELETE_RECORDS: "DELETE TOPIC, DESCRIBE TOPIC",
    ApiKey.DESCRIBE_PRODUCERS: "READ TOPIC, DESCRIBE TOPIC",
    ApiKey.METADATA: "DESCRIBE TOPIC, CREATE TOPIC, CREATE CLUSTER, DESCRIBE CLUSTER",
    ApiKey.DESCRIBE_CLUSTER: "DESCRIBE CLUSTER, ALTER CLUSTER",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "DESCRIBE TOPIC",
    ApiKey.CREATE_TOPICS: "CREATE TOPIC, CREATE CLUSTER, DESCRIBE_CONFIGS TOPIC",
    ApiKey.DELETE_TOPICS: "DELETE TOPIC, DELETE CLUSTER, DESCRIBE TOPIC",
    ApiKey.CREATE_PARTITIONS: "ALTER TOPIC, DESCRIBE TOPIC",
    ApiKey.DESCRIBE_CONFIGS: "DESCRIBE_CONFIGS TOPIC, DESCRIBE_CONFIGS GROUP, DESCRIBE_CONFIGS CLUSTER",
    ApiKey.ALTER_CONFIGS: "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER",
    ApiKey.LIST_CONFIG_RESOURCES: "DESCRIBE_CONFIGS CLUSTER",
    ApiKey.FIND_COORDINATOR: "DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID, CLUSTER_ACTION CLUSTER",
    ApiKey.JOIN_GROUP: "READ GROUP, DESCRIBE TOPIC",
    ApiKey.SYNC_GROUP: "READ GROUP",
    ApiKey.HEARTBEAT: "READ GROUP",
    ApiKey.LEAVE_GROUP: "READ GROUP",
    ApiKey.DESCRIBE_GROUPS: "DESCRIBE GROUP, READ GROUP, DELETE GROUP, DESCRIBE TOPIC",
    ApiKey.LIST_GROUPS: "DESCRIBE CLUSTER, DESCRIBE GROUP",
    ApiKey.DELETE_GROUPS: "DELETE GROUP, DESCRIBE GROUP",
    ApiKey.OFFSET_COMMIT: "READ GROUP, READ TOPIC, DESCRIBE TOPIC",
    ApiKey.OFFSET_FETCH: "DESCRIBE GROUP, DESCRIBE TOPIC",
    ApiKey.OFFSET_DELETE: "DELETE GROUP, READ TOPIC, DESCRIBE TOPIC",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "READ GROUP, DESCRIBE TOPIC",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "DESCRIBE GROUP, DESCRIBE TOPIC, DELETE GROUP",
    ApiKey.INIT_PRODUCER_ID: "WRITE TRANSACTIONAL_ID, TWO_PHASE_COMMIT TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER, WRITE TOPIC",
    ApiKey.ADD_PARTITIONS_TO_TXN: "WRITE TRANSACTIONAL_ID, WRITE TOPIC, CLUSTER_ACTION CLUSTER",
    ApiKey.ADD_OFFSETS_TO_TXN: "WRITE TRANSACTIONAL_ID, READ GROUP",
    ApiKey.TXN_OFFSET_COMMIT: "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC",
    ApiKey.END_TXN: "WRITE TRANSACTIONAL_ID",
    ApiKey.WRITE_TXN_MARKERS: "ALTER CLUSTER, CLUSTER_ACTION CLUSTER",
    ApiKey.DESCRIBE_TRANSACTIONS: "DESCRIBE TRANSACTIONAL_ID, DESCRIBE TOPIC",
    ApiKey.LIST_TRANSACTIONS: "DESCRIBE TRANSACTIONAL_ID",
    ApiKey.DESCRIBE_LOG_DIRS: "DESCRIBE CLUSTER, ALTER CLUSTER",
    ApiKey.CREATE_DELEGATION_TOKEN: "CREATE_TOKENS USER",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "DESCRIBE DELEGATION_TOKEN, DESCRIBE_TOKENS USER",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "DESCRIBE_CONFIGS CLUSTER, ALTER_CONFIGS CLUSTER",
    ApiKey.ALTER_CLIENT_QUOTAS: "ALTER_CONFIGS CLUSTER",
    ApiKey.SHARE_GROUP_HEARTBEAT: "READ GROUP, DESCRIBE TOPIC",
    ApiKey.SHARE_GROUP_DESCRIBE: "DESCRIBE GROUP, DESCRIBE TOPIC",
    ApiKey.SHARE_FETCH: "READ GROUP, READ TOPIC",
    ApiKey.SHARE_ACKNOWLEDGE: "READ GROUP, READ TOPIC",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "DESCRIBE GROUP, DESCRIBE TOPIC",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "READ GROUP, READ TOPIC",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "DELETE GROUP, READ TOPIC",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "READ GROUP, DESCRIBE TOPIC, CREATE TOPIC, CREATE CLUSTER",
    ApiKey.STREAMS_GROUP_DESCRIBE: "DESCRIBE GROUP, DESCRIBE TOPIC",
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: "READ GROUP",
}
"""Whose lack Kafka's answer may show. APIs that are not named ask for rights over the cluster."""
_OF_CLUSTER: Final = "ALTER CLUSTER, DESCRIBE CLUSTER, CLUSTER_ACTION CLUSTER"

NOT_ASKED: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""They are the login itself."""

READ_ONLY: Final = frozenset(
    {
        *(ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_PRODUCERS),
        *(ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_CONFIGS),
        *(ApiKey.LIST_CONFIG_RESOURCES, ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT, ApiKey.DESCRIBE_GROUPS),
        *(ApiKey.LIST_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TRANSACTIONS),
        *(ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_PARTITION_REASSIGNMENTS),
        *(ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.API_VERSIONS),
        *(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS),
        *(ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_DELEGATION_TOKEN),
    }
)
"""Their answers leave everything as it was, so all personas ask about the same things."""


def asked_cases() -> list[Case]:
    """In the order of the conformance run."""
    return [case for case in DECLARED if case.api_key not in NOT_ASKED and _is_asked(case)]


def _is_asked(case: Case) -> bool:
    is_valid = case.is_valid and case.api_key != ApiKey.DELETE_ACLS  # it would delete the personas' own
    return is_valid or case.name in _CASES.get(ApiKey(case.api_key), "").split("|")


def wanted(api_key: int) -> list[Right]:
    texts = _WANTED.get(ApiKey(api_key), _OF_CLUSTER).split(", ")
    return [Right(Operation[operation], ResourceType[resource]) for operation, resource in map(str.split, texts)]


def personas(case: Case) -> Iterator[Persona]:
    """Who sends the case. The weakest first: a request that is let in may change what the next one finds."""
    yield NOBODY
    yield from ONLY.values()
    for right in wanted(case.api_key):
        yield ALL_BUT[right]
    yield EVERYTHING
