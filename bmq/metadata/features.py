"""Feature levels: what servers and clients agree on beyond the versions of requests. Clients see CLIENT_FEATURES. Pure.

`bmq.metadata.version`: which metadata records the cluster writes, so that servers of two releases can run side by side.

The first controller of a cluster writes the level; it stays until an operator raises it, or asks for what needs a
higher one (bmq.controller.security_level). A node says which levels it
understands when it registers and is refused when the cluster's is not among them; a controller that does not understand
it does not start. So during a rolling upgrade the newer servers go on writing what the older ones can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from bmq.protocol.errors import UnsupportedVersion
from bmq.protocol.metadata_records import BrokerFeature, FeatureLevelRecord

OWN_FEATURE_PREFIX: Final = "bmq."
"""Features whose names begin with this are only between our servers; clients do not see them."""
METADATA_VERSION: Final = "bmq.metadata.version"
METADATA_VERSION_MIN: Final = 1
METADATA_VERSION_MAX: Final = 2
SECURITY_LEVEL: Final = 2
"""From this level of bmq.metadata.version on, the log may have users, delegation tokens, ACLs and quotas."""
SUPPORTED_FEATURES: Final = (
    BrokerFeature(
        name=METADATA_VERSION, min_supported_version=METADATA_VERSION_MIN, max_supported_version=METADATA_VERSION_MAX
    ),
)
"""The features a node of this release registers with."""


TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
STREAMS_VERSION: Final = "streams.version"
SHARE_VERSION: Final = "share.version"
DEAD_LETTERS_LEVEL: Final = 2
"""From this level of share.version on, share groups may have dead letters (KIP-1191)."""
CLIENT_FEATURES: Final = {
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    SHARE_VERSION: (0, 2),
}
"""Client features of this release: (lowest level, highest level). The highest is in force until it is lowered.

Source: KIP-848, KIP-890, KIP-932, KIP-1022, KIP-1071, KIP-1191.
"""


def level_in_force(features: Mapping[str, int], name: str) -> int:
    """A feature's level, given the written ones: one of CLIENT_FEATURES is at its highest until somebody lowers it."""
    default = CLIENT_FEATURES[name][1] if name in CLIENT_FEATURES else 0
    return features.get(name, METADATA_VERSION_MIN if name == METADATA_VERSION else default)


class FeatureRange(Protocol):
    """Part of a registration: a feature and the levels that the node supports."""

    @property
    def name(self) -> str: ...
    @property
    def min_supported_version(self) -> int: ...
    @property
    def max_supported_version(self) -> int: ...


def first_level(features: Mapping[str, int]) -> tuple[FeatureLevelRecord, ...]:
    """The record a controller writes when the cluster has no level yet: the lowest, which every release understands."""
    if METADATA_VERSION in features:
        return ()
    return (FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_MIN),)


def require_understood(features: Mapping[str, int]) -> None:
    """Raises UnsupportedVersion when this server does not support the cluster's level."""
    level = features.get(METADATA_VERSION, METADATA_VERSION_MIN)
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_MAX:
        raise UnsupportedVersion(
            f"the cluster's {METADATA_VERSION} is {level} and this server supports {METADATA_VERSION_MIN} to "
            f"{METADATA_VERSION_MAX}: start a server of the release that raised it, or of a later one"
        )


def require_supported(node_id: int, supported: Iterable[FeatureRange], features: Mapping[str, int]) -> None:
    """Raises UnsupportedVersion when a node does not support the cluster's level."""
    level = features.get(METADATA_VERSION, METADATA_VERSION_MIN)
    ranges = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in supported}
    lowest, highest = ranges.get(METADATA_VERSION, (0, 0))
    if not lowest <= level <= highest:
        raise UnsupportedVersion(
            f"node {node_id} supports {METADATA_VERSION} {lowest} to {highest} and the cluster's is {level}: upgrade "
            "the node, or raise the level after all nodes were upgraded"
        )
