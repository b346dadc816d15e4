"""Fields that Kafka 4.4 added and kio's schemas (Kafka 4.3) do not have yet.

Keyed by (class name, version): the message version equals the newest kio has, with these fields appended.
Sources: KIP-1242 (ApiVersions 5), Kafka 4.4 DeleteGroupsResponse.json (version 3).
"""

from typing import Any

from bmq.protocol.schema_fields import WireField

LATER_FIELDS: dict[tuple[str, int], tuple[WireField, ...]] = {
    ("ApiVersionsRequest", 5): (
        WireField("cluster_id", "string", "str", None, False, True, None, None),
        WireField("node_id", "int32", "int", None, False, False, None, -1),
    ),
    ("DeletableGroupResult", 3): (WireField("error_message", "string", "str", None, False, True, None, None),),
}


def later_field_default(field: WireField) -> Any:
    """The default a message class gives a field that older versions lack."""
    return field.default
