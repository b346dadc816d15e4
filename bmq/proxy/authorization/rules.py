"""The right that each API demands, and the answer where it is missing. Source: Kafka's KafkaApis (4.3).

A rule passes the allowed part of a request to the API's handler, and answers for the rest. Every served API has a rule: a
listener without one for an API does not start. Produce and Fetch check each topic themselves, because they are answered without
a task.
"""

from __future__ import annotations

from typing import Any, Final

from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access
from bmq.proxy.authorization import cluster, configs, groups, share_groups, topics, transactions
from bmq.proxy.authorization.asked import (
    Answer,
    Asked,
    Rule,
    anyone,
    of_cluster,
    of_group,
)
from bmq.security.acls import Operation

_DESCRIBE_CLUSTER: Final = of_cluster(Operation.DESCRIBE)
_ALTER_CLUSTER: Final = of_cluster(Operation.ALTER)
_READ_GROUP: Final = of_group(Operation.READ)
_TOPIC_PARTITIONS: Final = ("partitions", "partitions", "partition_index")

RULES: Final[dict[ApiKey, Rule]] = {
    ApiKey.PRODUCE: anyone,  # the handler checks each topic
    ApiKey.FETCH: anyone,  # likewise
    ApiKey.SHARE_FETCH: anyone,  # the handler checks the group and each topic
    ApiKey.SHARE_ACKNOWLEDGE: anyone,  # likewise
    ApiKey.API_VERSIONS: anyone,
    ApiKey.SASL_HANDSHAKE: anyone,
    ApiKey.SASL_AUTHENTICATE: anyone,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: anyone,
    ApiKey.PUSH_TELEMETRY: anyone,
    ApiKey.LIST_OFFSETS: topics.of_topics(
        Operation.DESCRIBE, items="topics", name="name", answers="topics", inner=_TOPIC_PARTITIONS
    ),
    ApiKey.METADATA: topics.metadata,
    ApiKey.OFFSET_COMMIT: groups.offset_commit,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: groups.describe_each("groups", is_described_by_topics=False),
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: topics.of_topics(
        Operation.DELETE, items="topics", name="name", answers="topics", inner=_TOPIC_PARTITIONS
    ),
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.leader_epochs,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
    ApiKey.TXN_OFFSET_COMMIT: groups.txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    ApiKey.CREATE_ACLS: cluster.alter_acls,
    ApiKey.DELETE_ACLS: cluster.alter_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.of_configs(Operation.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: configs.of_configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.of_configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: _ALTER_CLUSTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER_CLUSTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: of_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: of_cluster(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
    ApiKey.CREATE_DELEGATION_TOKEN: anyone,  # the handler checks the right over another owner
    ApiKey.RENEW_DELEGATION_TOKEN: anyone,  # only owners and renewers may; the handler checks that
    ApiKey.EXPIRE_DELEGATION_TOKEN: anyone,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: anyone,  # the handler leaves out tokens that the client may not see
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE_CLUSTER,
    ApiKey.UPDATE_FEATURES: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: topics.of_topics(
        Operation.READ,
        items="topics",
        name="name",
        answers="topics",
        inner=("partition_indexes", "partitions", "partition_index"),
    ),
    ApiKey.UNREGISTER_BROKER: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.describe_each("group_ids", is_described_by_topics=True),
    ApiKey.LIST_CONFIG_RESOURCES: of_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
    ApiKey.ADD_RAFT_VOTER: _ALTER_CLUSTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER_CLUSTER,
    ApiKey.STREAMS_GROUP_HEARTBEAT: groups.streams_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: groups.describe_each("group_ids", is_described_by_topics=True),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _READ_GROUP,
    ApiKey.SHARE_GROUP_HEARTBEAT: groups.consumer_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: groups.describe_each("group_ids", is_described_by_topics=True),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_groups.describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_groups.alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_groups.delete_offsets,
    ApiKey.UNREGISTER_CONTROLLER: _ALTER_CLUSTER,
}
"""The rule of each API that is served to clients."""


async def authorized(
    api_key: ApiKey, request: Any, context: RequestContext, access: Access, image: MetadataImage, answer: Answer
) -> Any:
    """The handler's answer for the allowed part of the request, with refusals of the rest. Raises what the handler raises."""
    return await RULES[api_key](Asked(api_key, request, context, access, image), answer)
