"""Fields that Kafka 4.4 added and kio's schemas (Kafka 4.3) do not have yet, and our own between nodes (tags from 10,000).

Keyed by (class name, version): the message version equals the newest kio has, with these fields appended
(LATER_FIELDS), and with fields that end there replaced by others in their places (REPLACED_FIELDS, by the old name).
Sources: KIP-1319 (TxnOffsetCommit 6: topic ids in place of names, in the form OffsetCommit 10 has), KIP-1242
(ApiVersions 5: ClusterId, nullable, and NodeId, default -1, neither tagged), Kafka 4.4's DeleteGroupsResponse.json
(version 3).
"""

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
    ("DeletableGroupResult", 3): (WireField("error_message", "string", "str", None, False, True, None, None),),
}

_TOPIC_ID_FOR_NAME = {"name": WireField("topic_id", "uuid", "UUID", None, False, True, None, None)}
REPLACED_FIELDS: dict[tuple[str, int], dict[str, WireField]] = {
    ("TxnOffsetCommitRequestTopic", 6): _TOPIC_ID_FOR_NAME,
    ("TxnOffsetCommitResponseTopic", 6): _TOPIC_ID_FOR_NAME,
}
