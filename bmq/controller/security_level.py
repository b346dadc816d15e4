"""The feature level that users, delegation tokens, ACLs and quotas need in the metadata log. Decisions only.

A node of an earlier release cannot read their records. So the first such record raises `bmq.metadata.version`, if every
registered node understands the level; afterwards nodes that do not are refused when they register.
"""

from __future__ import annotations

from collections.abc import Mapping

from bmq.metadata.features import METADATA_VERSION, METADATA_VERSION_MIN, SECURITY_LEVEL
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.metadata_records import FeatureLevelRecord, RegisterBrokerRecord


def security_level_records(
    features: Mapping[str, int], registrations: Mapping[int, RegisterBrokerRecord]
) -> tuple[FeatureLevelRecord, ...]:
    """What has to be written before the first record about security; empty when the level is high enough.

    Raises KafkaError UNSUPPORTED_VERSION that names a node which does not understand the level.
    """
    if features.get(METADATA_VERSION, METADATA_VERSION_MIN) >= SECURITY_LEVEL:
        return ()
    for node_id, registration in sorted(registrations.items()):
        if not registration.features:
            continue  # the only node of its cluster, which registers no features
        highest = max(
            (one.max_supported_version for one in registration.features if one.name == METADATA_VERSION), default=0
        )
        if highest < SECURITY_LEVEL:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"this needs {METADATA_VERSION} {SECURITY_LEVEL}, and node {node_id} supports {highest} at most: "
                "upgrade the node, or unregister it",
            )
    return (FeatureLevelRecord(name=METADATA_VERSION, feature_level=SECURITY_LEVEL),)
