"""Fields that Kafka 4.4 added and kio's schemas (Kafka 4.3) do not have yet, and our own between nodes (tags from 10,000).

Keyed by (class name, version), a class inside a message by the message's name and its own: the message version equals the
newest kio has, with these fields appended (LATER_FIELDS), and with fields that end there replaced by others in their places
(REPLACED_FIELDS, by the old name; None: by nothing), and others behind a field (INSERTED_FIELDS, by its name). Messages that
kio does not have at all are in later_messages.py.
Sources: KIP-1319 (TxnOffsetCommit 6: topic ids in place of names, in the form OffsetCommit 10 has), KIP-1242
(ApiVersions 5: ClusterId, nullable, and NodeId, default -1, neither tagged), Kafka 4.4's DeleteGroupsResponse.json
(version 3), KIP-1331 (StreamsGroupHeartbeat 1, StreamsGroupDescribe 1) and KIP-1357 (AssignorName, behind them).
"""

from later_messages import TopologyDescription
from schema_fields import WireField

LATER_FIELDS: dict[tuple[str, int], tuple[WireField, ...]] = {
    ("ApiVersionsRequest", 5): (
        WireField("cluster_id", "string", "str", None, False, True, None, None),
        WireField("node_id", "int32", "int", None, False, False, None, -1),
    ),
    # Which roles the node has; a listener's name tells clients', nodes' and REST addresses apart.
    ("BrokerRegistrationRequest", 4): (WireField("roles", "string", "str", None, True, False, 10_000, ()),),
    # Of the group's shard, as the proxy that forwards the request knows it: what comes late finds another. And how long
    # after the connection's first request it was sent: what takes much longer than that one did comes late.
    ("EnvelopeRequest", 0): (
        WireField("leader_epoch", "int32", "int", None, False, False, 10_000, -1),
        WireField("connection_age_ms", "int64", "int", None, False, False, 10_001, -1),
    ),
    # Why a node was refused: one sentence for whoever started it.
    ("BrokerRegistrationResponse", 4): (WireField("error_message", "string", "str", None, False, True, 10_000, None),),
    ("DeleteGroupsResponse.DeletableGroupResult", 3): (
        WireField("error_message", "string", "str", None, False, True, None, None),
    ),
    ("StreamsGroupDescribeRequest", 1): (
        WireField("include_topology_description", "bool", "bool", None, False, False, None, False),
    ),
    ("StreamsGroupDescribeResponse.DescribedGroup", 1): (
        WireField("topology_description", None, "", TopologyDescription, False, True, None, None),
        WireField("topology_description_status", "int8", "int", None, False, False, None, 0),
        WireField("assignor_name", "string", "str", None, False, True, None, None),
    ),
}

_TOPIC_ID_FOR_NAME: dict[str, WireField | None] = {
    "name": WireField("topic_id", "uuid", "UUID", None, False, True, None, None)
}
REPLACED_FIELDS: dict[tuple[str, int], dict[str, WireField | None]] = {
    ("TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic", 6): _TOPIC_ID_FOR_NAME,
    ("TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic", 6): _TOPIC_ID_FOR_NAME,
    ("StreamsGroupHeartbeatResponse", 1): {"acceptable_recovery_lag": None},
}
INSERTED_FIELDS: dict[tuple[str, int], dict[str, WireField]] = {
    ("StreamsGroupHeartbeatResponse", 1): {
        "task_offset_interval_ms": WireField("acceptable_recovery_lag", "int64", "int", None, False, False, None, 0),
        "warmup_tasks": WireField("topology_description_required", "bool", "bool", None, False, False, None, False),
    },
}
